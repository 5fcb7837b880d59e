package process

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

func TestWhoHearsOfAnEndMayGiveOrdersMeanwhile(t *testing.T) {
	dir := t.TempDir()
	var k processOwner
	heard := make(chan supervise.Event, 1)
	k, err := openInside(Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}, func(e supervise.Event) {
		if e.Final() {
			k.Stop("another", string(taskstate.ReasonCancelled))
			k.Ack([]string{e.Task})
			heard <- e
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "job", "1.1")
	k.Start(supervise.Spec{Task: "job.1.1", Home: home, Path: filepath.Join(home, "no-such-program")})
	select {
	case e := <-heard:
		if e.Task != "job.1.1" || e.Kind != supervise.Refused {
			t.Errorf("heard %+v", e)
		}
	case <-time.After(time.Minute):
		t.Fatal("whoever hears of an end and gives an order waits for ever")
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}
