package roster_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/node/roster"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
)

// A full disk stays full for hours, and the roster is tried every second.
func TestARosterThatCannotBeWrittenIsWarnedOfOnceAndTriedUntilItCan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	synctest.Test(t, func(t *testing.T) {
		net := memnet.New()
		defer func() { _ = net.Close() }()
		r, err := admission.OpenRoster(filepath.Join(dir, "roster"), memnet.Verify)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		k := roster.New(roster.Config{Self: "v1", Roster: r, Ledger: func() *quorum.Node { return nil }, Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		looks := 0
		ran := make(chan error)
		go func() { ran <- k.Run(ctx, func() { looks++ }) }()
		learn := func(peer string) {
			t.Helper()
			e := admission.Entry{Cluster: "c1", Peer: peer, Name: peer, Roles: admission.AllRoles(), At: 1}
			if e, err = e.Signed(net.Host("v1")); err != nil {
				t.Fatal(err)
			}
			k.Trust(e)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		warned := func(want int) {
			t.Helper()
			if n := strings.Count(log.String(), "level=WARN"); n != want {
				t.Errorf("%d warnings, want %d:\n%s", n, want, log.String())
			}
		}
		learn("v1")
		warned(1)
		if looks != 1 {
			t.Errorf("the gate looked %d times at what moved once", looks)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if again, err := admission.OpenRoster(filepath.Join(dir, "roster"), memnet.Verify); err != nil || !again.Admitted("v1") {
			t.Errorf("it is not on disk once there is room: %v", err)
		}
		warned(1)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		learn("v2")
		warned(2)
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

func TestThePastEndOfAMembershipDoesNotEndTheOneThatFollowedIt(t *testing.T) {
	net := memnet.New()
	defer func() { _ = net.Close() }()
	r, err := admission.OpenRoster(filepath.Join(t.TempDir(), "roster"), memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	k := roster.New(roster.Config{Self: "v1", Roster: r, Ledger: func() *quorum.Node { return nil }, Log: slog.New(slog.DiscardHandler)})
	for _, x := range []struct {
		peer    string
		at      int64
		removed bool
		want    bool // it is in afterwards
	}{
		{"v1", 3, false, true},
		{"v1", 1, false, true}, // its former membership, read from the ledger
		{"v1", 2, true, true},  // and the end of that
		{"v1", 4, true, false},
		{"v2", 3, false, true},
		{"v2", 2, true, false}, // of others the ledger has the last word
	} {
		e, err := admission.Entry{Cluster: "c1", Peer: x.peer, Name: x.peer, Roles: admission.AllRoles(), At: x.at, Removed: x.removed}.Signed(net.Host("v1"))
		if err != nil {
			t.Fatal(err)
		}
		if k.Trust(e); r.Admitted(x.peer) != x.want {
			t.Errorf("after the entry %+v it is in: %v", x, !x.want)
		}
	}
}
