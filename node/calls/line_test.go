package calls

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// led is a ledger that somebody leads, for good.
type led taskstate.PeerID

func (l led) Coordinator() (taskstate.PeerID, taskstate.Epoch, bool) {
	return taskstate.PeerID(l), taskstate.At(1, 1), true
}
func (led) Changed() <-chan struct{} { return nil }
func (led) SuspectLeader()           {}
func (led) Distance() time.Duration  { return 0 }

func TestACallIsGivenUpOnlyWhenSomebodyElseThanTheAskedCoordinates(t *testing.T) {
	l := NewLine(Config{Self: "self", Ledger: led("self")})
	ctx, giveUp := context.WithTimeout(t.Context(), time.Minute)
	l.untilAnotherDecides(ctx, "somebody who used to coordinate", giveUp)
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Error("goes on asking one that does not coordinate any more")
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	l.untilAnotherDecides(ctx, "self", func() { t.Error("gives up a call to the one that coordinates") })
}

// wants fails unless err is an api.Error of this code whose text holds all parts.
func wants(t *testing.T, err error, code api.Code, parts ...string) {
	t.Helper()
	var e *api.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("want an error of code %s, not %v", code, err)
	}
	for _, p := range parts {
		if !strings.Contains(e.Message, p) {
			t.Errorf("the error should say %q: %s", p, e.Message)
		}
	}
}

func TestACallThatNotEveryMemberCouldReadIsNotSent(t *testing.T) {
	old := &ledger.DialectError{Needs: 2, Speaks: 1, Peers: []string{"wren"}}
	l := NewLine(Config{Self: "self", Ledger: led("self"), Speaks: func(any) error { return old }, Execute: func(context.Context, Call) (Reply, error) {
		t.Error("it is decided")
		return Reply{}, nil
	}})
	_, err := l.Decide(t.Context(), Call{Thaw: &ThawCall{}})
	wants(t, err, api.Conflict, "newer version", "wren")
}
