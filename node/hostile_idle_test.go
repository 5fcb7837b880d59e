package node

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// idles has a puppet be a worker that beats and starts nothing of what it is given, until the test
// ends.
func (p puppet) idles(peer string, cpus int64) {
	p.t.Helper()
	c, err := p.Dial(timed(p.t), peer, session.Protocol)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	w, r := wire.NewWriter(c, 0), wire.NewReader(c, 0)
	offer := session.Offer{Name: "puppet", OS: "linux", Arch: "amd64", Resources: taskstate.Resources{MilliCPU: 1000 * cpus, Memory: 1 << 30}}
	for _, f := range []session.Up{{Hello: &session.Hello{Incarnation: "puppet-1", Offer: offer}}, {Report: &session.Report{Done: true}}} {
		if err := w.Send(f); err != nil {
			p.t.Fatal(err)
		}
	}
	var first session.Down
	if err := r.Read(&first); err != nil || first.Welcome == nil {
		p.t.Fatalf("no session for the puppet: %+v, %v", first.Refuse, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	go func() { // ends with the session
		for {
			var d session.Down
			if r.Read(&d) != nil {
				return
			}
		}
	}()
	go func() { // ends with the test
		every := time.NewTicker(time.Duration(first.Welcome.Beat) * time.Millisecond)
		defer every.Stop()
		for n := uint64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				if w.Send(session.Up{Beat: &session.Beat{N: n}}) != nil {
					return
				}
			}
		}
	}()
}

func TestAWorkerThatBeatsAndStartsNothingIsPassedOverAndSaidToBe(t *testing.T) {
	long.Test(t)
	t.Parallel()
	one := alive(t, Config{Name: "one", Machine: Machine{StartWithin: time.Second}})
	p := newPuppet(t)
	one.admit(p, admission.Worker)
	p.idles(one.self, 8)
	eventually(t, "the puppet is ready", func() (bool, string) {
		all, err := one.Peers(timed(t))
		if err != nil {
			return false, err.Error()
		}
		for _, x := range all.Peers {
			if x.ID == p.Self() {
				return x.Standing == "ready", x.Standing
			}
		}
		return false, "it is not there"
	})
	once := noopJob("once", 1, 0)
	once.Unreachable = taskstate.Unreachable{Wait: true}
	once.Constraints = []string{"peer.id == " + p.Self()}
	must := one.submit(once)
	spread := one.submit(noopJob("spread", 4, 0))
	if got, tasks := one.outcome(spread); got.State != "complete" {
		t.Fatalf("what may run twice did not go elsewhere: %+v, %+v", got, tasks)
	}
	eventually(t, "peers shows why it is passed over", func() (bool, string) {
		all, err := one.Peers(timed(t))
		if err != nil {
			return false, err.Error()
		}
		for _, x := range all.Peers {
			for _, trouble := range x.Troubles {
				if x.ID == p.Self() && trouble.Code == api.TroubleStartsNothing {
					return true, ""
				}
			}
		}
		return false, "no trouble of the puppet"
	})
	eventually(t, "explain says what the one task waits for", func() (bool, string) {
		e, err := one.Explain(timed(t), must)
		if err != nil {
			return false, err.Error()
		}
		var said []string
		for _, f := range e.Explain {
			said = append(said, f.Text)
		}
		text := strings.Join(said, "\n")
		return strings.Contains(text, "does not start them: 1; they must not run twice and wait for it, or for you"), text
	})
	ts, err := one.Tasks(timed(t), must)
	if err != nil || len(ts.Tasks) != 1 || ts.Tasks[0].Peer != p.Self() || ts.Tasks[0].Attempt != 1 {
		t.Errorf("what must not run twice was given elsewhere: %+v, %v", ts, err)
	}
	after := one.submit(noopJob("after", 3, 0))
	one.outcome(after)
	ts, err = one.Tasks(timed(t), after)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range ts.Tasks {
		if x.Peer == p.Self() || x.Attempt > 1 {
			t.Errorf("a task of later went to it: %+v", x)
		}
	}
}
