package view

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func TestAJobIsFoundByWhatAPersonTypes(t *testing.T) {
	s := newScripted(t)
	s.take("aaaa111111", "old", s.self, 1)
	s.take("aaaa222222", "same", s.self, 1)
	s.take("bbbb333333", "same", "somebody", 1)
	for typed, want := range map[string]taskstate.JobID{
		"aaaa111111": "aaaa111111", "aaaa1": "aaaa111111", "b": "bbbb333333", "old": "aaaa111111",
		"same": "bbbb333333", // the newest of a name
		"last": "aaaa222222", // the newest submitted here
	} {
		if got, held, err := s.resolve(typed); got != want || held != nil || err != nil {
			t.Errorf("%s: %s %v %v", typed, got, held, err)
		}
	}
	_, _, err := s.resolve("aaaa")
	wants(t, err, api.Conflict, `"aaaa" begins the ids of 2 jobs`, "use more")
	_, _, err = s.Find(timed(t), "cccc")
	wants(t, err, api.NotFound, `no job "cccc"`, "peer jobs")
	_, _, err = s.Find(timed(t), "aaaa1.3")
	wants(t, err, api.NotFound, `no job "aaaa1.3"`, "it would be a task")
	_, _, err = s.resolve("")
	wants(t, err, api.NotFound)
}

func TestAHeldJobIsFoundLikeAnyOther(t *testing.T) {
	s := newScripted(t)
	_, _, err := s.resolve("last")
	wants(t, err, api.NotFound, "no job was submitted through this peer yet")
	s.take("aaaa111111", "known", s.self, 1)
	first, second := noopJob("waits", 1, 0), noopJob("waits", 1, 0)
	first.ID, second.ID = "hhhh111111", "hhhh222222"
	for i, j := range []taskstate.Job{first, second} {
		s.held = append(s.held, Held{Since: int64(i), Job: j})
	}
	for typed, want := range map[string]taskstate.JobID{
		"hhhh111111": "hhhh111111", "hhhh1": "hhhh111111", "waits": "hhhh222222", "last": "hhhh222222",
	} {
		if got, held, err := s.resolve(typed); got != want || held == nil || held.Job.ID != want || err != nil {
			t.Errorf("%s: %s %v %v", typed, got, held, err)
		}
	}
	if got, held, err := s.resolve("known"); got != "aaaa111111" || held != nil || err != nil {
		t.Error(got, held, err)
	}
	jobs, err := s.Jobs(timed(t))
	if err != nil || len(jobs.Jobs) != 3 || jobs.Jobs[0].ID != "hhhh222222" || jobs.Jobs[0].State != "held" || jobs.Jobs[2].ID != "aaaa111111" {
		t.Fatalf("%+v %v", jobs, err)
	}
}

func TestAPeerIsFoundByIdPartOrName(t *testing.T) {
	s := newScripted(t)
	var ids []taskstate.PeerID
	for _, name := range []string{"left", "right", "right"} {
		a := s.newAuthor()
		s.write(ledger.Command{Register: &ledger.Register{Peer: a.id, Incarnation: a.inc, Name: name}})
		ids = append(ids, a.id)
	}
	for _, typed := range []string{ids[0], ids[0][len(ids[0])-12:], "left"} {
		if got, err := s.Who.FindPeer(typed); got != ids[0] || err != nil {
			t.Errorf("%s: %s %v", typed, got, err)
		}
	}
	_, err := s.Who.FindPeer("right")
	wants(t, err, api.Conflict, `"right" matches 2 peers`)
	_, err = s.Who.FindPeer("nobody")
	wants(t, err, api.NotFound, "peer peers")
	_, err = s.Who.FindPeer(ids[0][len(ids[0])-3:])
	wants(t, err, api.NotFound) // too short to mean a peer for sure
}

func TestTheLogsOfATaskAreThoseOfItsSlotAndAttempt(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	j := noopJob("talk", 3, 0)
	j.Run = taskstate.Run{Process: &taskstate.Process{Command: []string{"echo"}}}
	j.ID = someJob
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
	s.assign(someJob, a, 1, 1)
	for _, c := range []struct {
		q       api.LogQuery
		slots   int
		attempt int
	}{
		{api.LogQuery{}, 3, 0}, {api.LogQuery{Slot: 2}, 1, 0}, {api.LogQuery{Task: "k3v5q7x2ab.3.2"}, 1, 2},
	} {
		slots, attempt, err := s.logSlots(someJob, c.q)
		if err != nil || len(slots) != c.slots || attempt != c.attempt {
			t.Errorf("%+v: %v %d %v", c.q, slots, attempt, err)
		}
	}
	_, _, err := s.logSlots(someJob, api.LogQuery{Slot: 4})
	wants(t, err, api.NotFound, "slots 1 to 3", "no slot 4")
	_, _, err = s.logSlots(someJob, api.LogQuery{Task: "nonsense"})
	wants(t, err, api.Usage, "JOB.SLOT.ATTEMPT")
}
