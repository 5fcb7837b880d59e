package node

import (
	"math"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
)

func TestSettingsAreAnAdminsToChangeAndTheSameOnEveryPeer(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	if a, err := all[1].Settings(timed(t)); err != nil || a.Settings != (api.Settings{Beat: 1, Grace: 3, KeepJobs: 1000, KeepFor: 604800, RequireOrders: "on"}) {
		t.Fatalf("%+v %v", a, err)
	}
	next := api.Settings{Beat: 0.5, Grace: 1.5, KeepJobs: 7, KeepFor: 604800, RequireOrders: "on"}
	a, err := all[1].Set(timed(t), api.Settings{Beat: 0.5, KeepJobs: 7}) // through one that does not coordinate
	if err != nil || a.Settings != next {
		t.Fatalf("%+v %v", a, err)
	}
	eventually(t, "the coordinator's peer says the same", func() (bool, string) {
		a, err := all[0].Settings(timed(t))
		return err == nil && a.Settings == next, ""
	})
	for _, s := range []api.Settings{{}, {Beat: -1}, {Beat: math.NaN()}, {Beat: math.Inf(1)}, {Grace: 0.9}, {Beat: 0.05}, {Grace: 601}, {KeepJobs: -1}, {KeepJobs: 100_001}, {KeepFor: 0.5}, {KeepFor: 1e12}} {
		_, err := all[1].Set(timed(t), s)
		wants(t, err, api.Usage)
	}
	worker, admin := newPuppet(t), newPuppet(t)
	all[0].admit(worker, admission.Worker, admission.Submit)
	all[0].admit(admin, admission.Admin)
	set := func(p puppet, beat int64) calls.Reply {
		return p.asks(all[0].self, calls.Call{From: p.Self(), Set: &ledger.Set{Beat: beat}})
	}
	if r := set(worker, 700); r.Error == nil || r.Error.Code != api.Refused {
		t.Errorf("a worker: %+v", r)
	}
	if r := set(admin, 700); r.Error != nil || r.Lost {
		t.Errorf("an admin: %+v", r)
	}
	if r := set(admin, 7); r.Error == nil || r.Error.Code != api.Usage {
		t.Errorf("what would not do: %+v", r)
	}
	if a, err := all[0].Settings(timed(t)); err != nil || a.Settings.Beat != 0.7 {
		t.Errorf("%+v %v", a, err)
	}
}
