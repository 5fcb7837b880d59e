package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// single is a ledger of which this peer is the only voter.
type single struct {
	ledger.Ledger // nothing else of it is used
	rep           *ledger.Replica
	proposed      atomic.Int32
	fails         int32
}

func (l *single) Replica() *ledger.Replica { return l.rep }

func (l *single) Propose(_ context.Context, c []ledger.Command) (uint64, []ledger.Result, error) {
	if l.proposed.Add(1) <= l.fails {
		return 0, nil, errors.New("not now")
	}
	e := ledger.Entry{Index: l.rep.Applied() + 1, Epoch: taskstate.At(1, 1), Stamp: 1, By: "one", Commands: c}
	return e.Index, l.rep.Apply(e), nil
}

func TestWhatMembersReadIsDecidedWhenItChangesAndWhoReadsTooLittleIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &single{rep: ledger.NewReplica(), fails: 2}
		member := func(id taskstate.PeerID) admission.Entry {
			return admission.Entry{Cluster: "c", Peer: id, Name: id, Roles: admission.AllRoles(), At: 1}
		}
		found := ledger.Command{Found: &ledger.Found{Cluster: "c", Generation: 1, Founder: member("one")}}
		l.rep.Apply(ledger.Entry{Index: 1, Epoch: taskstate.At(1, 1), Commands: []ledger.Command{found, {Admit: &ledger.Admit{Entry: member("two")}}}})
		v := &membership.View{}
		var wrong troubles.Troubles
		d := &dialects{self: "one", ledger: l, view: func() *membership.View { return v }, moved: wake.New(), troubles: &wrong, log: slog.New(slog.DiscardHandler)}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); d.run(ctx) }() // ends with the term
		synctest.Wait()
		said := func(proposals, speaks int, members ...membership.Member) {
			t.Helper()
			v = &membership.View{Members: members}
			d.seen(v)
			synctest.Wait()
			is := 0
			l.rep.Read(func(s *ledger.State) { is = s.Dialects().Spoken() })
			if got := int(l.proposed.Load()); got != proposals || is != speaks {
				t.Errorf("%d proposals and dialect %d, want %d and %d", got, is, proposals, speaks)
			}
		}
		one, two := membership.Member{ID: "one", Dialect: 2}, membership.Member{ID: "two", Dialect: 1}
		one.Verdict, two.Verdict = membership.Alive, membership.Alive
		said(1, 1, one, two)
		time.Sleep(3 * readsRetry)
		synctest.Wait()
		said(3, 1, one, two) // with what was not decided at first
		said(3, 1, one, two) // no news
		two.Dialect, two.Verdict = 2, membership.Dead
		said(3, 1, one, two) // it may come back as another
		two.Verdict = membership.Alive
		said(4, 2, one, two)
		two.Dialect = 1
		said(4, 2, one, two)
		if list := wrong.List("two"); len(list) != 1 || list[0].Code != api.TroubleOldVersion {
			t.Errorf("it is not named: %v", list)
		}
		two.Dialect = 2
		said(4, 2, one, two)
		if list := wrong.List("two"); len(list) != 0 {
			t.Errorf("it is named still: %v", list)
		}
		end()
		<-done
	})
}
