package worker

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

func TestAWelcomeInAnEpochThatCannotBeIsNotObeyed(t *testing.T) {
	for _, x := range []struct {
		epoch taskstate.Epoch
		lie   bool
	}{
		{taskstate.At(1, 7), false},
		{taskstate.At(1, 900), false},
		{taskstate.At(2, 1), false},
		{taskstate.At(1, 1<<64-1), true},
		{taskstate.At(2, 1<<64-1), true},
		{taskstate.At(1<<64-1, 1), true},
	} {
		here, there := net.Pipe()
		lies := 0
		l := newStream(1, here, slog.New(slog.DiscardHandler))
		l.dialled = target{peer: "c", epoch: taskstate.At(1, 7)}
		l.lied = func(peer taskstate.PeerID, _ string) {
			if peer == "c" {
				lies++
			}
		}
		goes := l.note(&session.Down{Welcome: &session.Welcome{Session: "s", Epoch: x.epoch, Beat: 1000, Grace: 3000}})
		if goes == x.lie || (l.greeted() == nil) != x.lie || (lies == 1) != x.lie {
			t.Errorf("%s: goes on %v, %d lies", x.epoch, goes, lies)
		}
		_, _ = here.Close(), there.Close()
	}
}

func TestAWorkerKeepsASessionOnlyWithWhoHoldsASeat(t *testing.T) {
	w := &Loop{cfg: Config{Self: "w", Seated: func(p taskstate.PeerID) bool { return p == "c" }, Net: noNet{}, Log: slog.New(slog.DiscardHandler)}}
	if end := w.session(context.Background(), target{peer: "liar"}, 1); end.err == nil || end.err.Error() != "liar holds no seat in the ledger, as far as is known here" {
		t.Errorf("%+v", end)
	}
	if end := w.session(context.Background(), target{peer: "c"}, 2); end.err == nil || end.err.Error() != "dial the coordinator c: nobody is there" {
		t.Errorf("%+v", end)
	}
}

type noNet struct{}

func (noNet) Dial(context.Context, string, string) (net.Conn, error) { return nil, errNobodyThere }

var errNobodyThere = errorText("nobody is there")

type errorText string

func (e errorText) Error() string { return string(e) }
