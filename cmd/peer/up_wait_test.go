package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/api"
)

func TestADetachedStartWaitsAsLongAsItsPeerSaysSomething(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "peer.log")
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		c := &cli{data: dir}
		c.Err = &said
		go func() { // ends after five minutes
			for range 10 {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				if err == nil {
					_, err = f.WriteString("peer: not let in yet: the cluster is busy\n")
				}
				if err != nil {
					t.Error(err)
					return
				}
				_ = f.Close()
				time.Sleep(30 * time.Second)
			}
		}()
		begin := time.Now()
		err := awaitReady(t.Context(), c, make(chan error), path, nil)
		var e *api.Error
		if took := time.Since(begin); !errors.As(err, &e) || e.Code != api.TimedOut || took < 5*time.Minute || took > 7*time.Minute {
			t.Errorf("it gave up after %v: %v", took, err)
		}
		if n := strings.Count(said.String(), "the cluster is busy"); n != 10 || !strings.Contains(err.Error(), "the cluster is busy") {
			t.Errorf("of ten words %d were shown, and the last is %v\n%s", n, err, said.String())
		}
		time.Sleep(time.Minute)
	})
}
