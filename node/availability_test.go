package node

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

func TestAPeerMaySayWhetherItTakesTasksItselfWhateverItsRoles(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	worker, admin := newPuppet(t), newPuppet(t)
	l.admit(worker, admission.Worker)
	l.admit(admin, admission.Admin)
	pause := func(who, of taskstate.PeerID) calls.Call {
		return calls.Call{From: who, Avail: &ledger.SetAvailability{Peer: of, Availability: ledger.AvailPause}}
	}
	if r := worker.asks(l.self, pause(worker.Self(), worker.Self())); r.Error != nil || r.Lost {
		t.Errorf("itself: %+v", r)
	}
	if r := worker.asks(l.self, pause(worker.Self(), admin.Self())); r.Error == nil || r.Error.Code != api.Refused {
		t.Errorf("another: %+v", r)
	}
	if r := admin.asks(l.self, pause(admin.Self(), worker.Self())); r.Error != nil || r.Lost {
		t.Errorf("an admin: %+v", r)
	}
	if r := admin.asks(l.self, pause(admin.Self(), "nobody")); r.Error == nil || r.Error.Code != api.NotFound {
		t.Errorf("nobody: %+v", r)
	}
	if r := admin.asks(l.self, calls.Call{From: admin.Self(), Avail: &ledger.SetAvailability{Peer: worker.Self(), Availability: "off"}}); r.Error == nil || r.Error.Code != api.Usage {
		t.Errorf("no such availability: %+v", r)
	}
	p, err := l.Peer(timed(t), worker.Self())
	if err != nil || p.Peer.Availability != api.Paused || p.Peer.TasksLeft != nil {
		t.Errorf("%+v %v", p, err)
	}
}

func TestAnAvailabilityThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	for _, a := range []api.Availability{
		{Availability: "off"},
		{Availability: api.Paused, Grace: 1},
		{Availability: api.Drained, Grace: -1},
		{Availability: api.Drained, Reason: string(make([]byte, calls.MaxReason+1))},
	} {
		_, err := s.SetAvailability(timed(t), "self", a)
		wants(t, err, api.Usage)
	}
}
