package node

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func TestWhatATicketAsksForIsChecked(t *testing.T) {
	t.Parallel()
	n := newUnborn(t)
	for _, r := range []api.TicketRequest{{Expires: 0}, {Expires: -1}, {Expires: 1, Uses: -1}, {Expires: 1, Roles: []string{"king"}}, {Expires: 1, Roles: []string{"worker", "worker"}}} {
		_, err := n.orders.Invite(timed(t), r)
		wants(t, err, api.Usage)
	}
}

func TestEverythingWithoutACoordinatorSaysSo(t *testing.T) {
	long.Test(t)
	t.Parallel()
	n := newUnborn(t)
	began := time.Now()
	s, err := n.orders.Submit(timed(t), api.Submit{Job: noopJob("early", 1, 0)})
	if err != nil || !s.Held || s.Note == "" {
		t.Fatalf("%+v %v", s, err)
	}
	_, err = n.orders.Invite(timed(t), api.TicketRequest{Expires: 60})
	wants(t, err, api.NoCoordinator, "no ticket was made", "no coordinator", "peer peers")
	ps, err := n.view.Peers(timed(t))
	if err != nil || ps.Coordinator != "" {
		t.Fatalf("%+v %v", ps, err)
	}
	err = n.view.Logs(timed(t), "early", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.NotFound, "held here")
	t.Logf("all of it took %s", time.Since(began))
}

func TestAJobThatMakesNoSenseIsRefusedAtTheDoor(t *testing.T) {
	t.Parallel()
	n := newUnborn(t)
	_, err := n.orders.Submit(timed(t), api.Submit{Job: taskstate.Job{Name: "empty", Count: 1}})
	wants(t, err, api.Usage)
	if len(n.held.List()) != 0 {
		t.Fatal("it is held")
	}
}

func TestNamesakesOfAPeerAreTold(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a := s.newAuthor()
	s.write(ledger.Command{Register: &ledger.Register{Peer: a.id, Incarnation: a.inc, Name: "left"}})
	if w := namesakes(s.view.Who.Admitted(), s.self, "left"); len(w) != 1 || !strings.Contains(w[0], a.id) || !strings.Contains(w[0], "--name") {
		t.Errorf("a peer of the same name: %q", w)
	}
	if w := namesakes(s.view.Who.Admitted(), s.self, "middle"); len(w) != 0 {
		t.Errorf("nobody is called like this one: %q", w)
	}
}

func TestLogsOfATaskAreAskedForByItsSlotAndAttempt(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	a := s.newAuthor()
	j := shellJob("talk", 3, "echo")
	j.ID = someJob
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
	s.assign(someJob, a, 1, 1)
	err := s.Logs(timed(t), "k3v5.1", api.LogQuery{Slot: 2}, func(api.LogChunk) error { return nil })
	wants(t, err, api.Usage, "slot 1", "slot 2")
	err = s.Logs(timed(t), "k3v5.4", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.NotFound, "slots 1 to 3")
	err = s.Logs(timed(t), "k3v5.x", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.Usage, "JOB.SLOT.ATTEMPT")
	err = s.Logs(timed(t), "talk.1.2", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.NotFound, "not the newest attempt")

	// A peer that cannot be reached for what it has is named, on one line, and what never began is
	// silent.
	var chunks []api.LogChunk
	if err := s.Logs(timed(t), string(someJob), api.LogQuery{}, func(c api.LogChunk) error { chunks = append(chunks, c); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(chunks) != 1 || chunks[0].Error == nil || chunks[0].Error.Code != api.NoCoordinator || !chunks[0].EOF {
		t.Fatalf("%+v", chunks)
	}
	if text := chunks[0].Error.Message; !strings.Contains(text, a.id) || !strings.Contains(text, "none of its addresses is known here") || strings.Contains(text, "\n") {
		t.Error(text)
	}
}
