package view

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/story"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// telling gives a scripted peer a story.
func telling(t *testing.T) *scripted {
	s := newScripted(t)
	st := story.Open(filepath.Join(t.TempDir(), story.FileName), time.Now)
	s.cfg.Story, s.Events.writer.story = st, st
	return s
}

func (s *scripted) texts() (out []string) {
	s.t.Helper()
	got, err := s.Story(s.t.Context(), time.Time{}, 100)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range got.Story {
		out = append(out, e.Text)
	}
	return out
}

func TestAStoryTellsElectionsPeersAndWhatWasGivenUpAndNoTasks(t *testing.T) {
	s := telling(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 5)
	s.write(ledger.Command{Lead: &ledger.Lead{}})
	index := s.assign(someJob, a, 1, 5)
	s.settle(a, complete(1, index))
	s.write(
		ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(someJob, 2, 1), Reason: taskstate.ReasonUnreachable, Again: true}},
		ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(someJob, 3, 1), Reason: taskstate.ReasonUnreachable, Again: true}},
	)
	s.write(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(someJob, 4, 1), Reason: taskstate.ReasonRecalled, Again: true}})
	at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	for _, v := range []membership.Verdict{membership.Alive, membership.Suspect, membership.Dead, membership.Dead, membership.Suspect, membership.Alive} {
		s.Events.Seen(&membership.View{Members: []membership.Member{{ID: a.id, Name: "ann", Verdict: v, Since: at}}})
	}
	got := s.texts()
	for _, want := range []string{"job: 2 tasks given up: unreachable", "ann; unreachable with 1 task that had not ended", a.id + " was admitted"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if slices.ContainsFunc(got, func(text string) bool { return strings.Contains(text, "recalled") }) {
		t.Errorf("that a task went to where there is room is told: %q", got)
	}
	evs, _ := s.Story(t.Context(), time.Time{}, 100)
	if e := evs.Story[0]; !e.Time.Equal(at) || e.State != "dead" {
		t.Errorf("a death has the time of asking: %+v", e)
	}
}

func TestAStoryTellsRolesAndANewOrderAsWhatTheyAre(t *testing.T) {
	s := telling(t)
	a := s.newAuthor()
	s.write(ledger.Command{
		Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: a.id, Roles: []admission.Role{admission.Worker, admission.Read}}},
		Act:   &act.Act{By: s.self, At: now(), Until: now() + act.Lasts, N: 1, Sig: []byte("sig")},
	})
	j := noopJob("job", 1, 0)
	j.ID, j.Submitter = someJob, s.self
	unsigned := func([]byte) ([]byte, error) { return []byte("sig"), nil }
	order := func(at int64, follows []byte) taskstate.Job {
		spec := j
		if err := taskstate.SignOrder(&spec, "memorymemorymemo", s.self, at, follows, unsigned); err != nil {
			t.Fatal(err)
		}
		return spec
	}
	first := order(now(), nil)
	s.write(ledger.Command{Submit: &ledger.Submit{Job: first}})
	s.write(ledger.Command{Update: &ledger.Update{Job: order(first.Order.At+1, first.Order.Digest())}})
	got := s.texts()
	for _, want := range []string{a.id + " was given roles (worker read)", "job: was signed anew"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if slices.Contains(got, "job: was updated") {
		t.Errorf("an order that is renewed changes nothing: %q", got)
	}
}

func TestAWatchersListSaysWhenThingsBecameSo(t *testing.T) {
	s := telling(t)
	s.cfg.Story.Add(story.Entry{Generation: 9, Index: 1}, story.Event{At: now() - 4000, Kind: kindCoordinator, State: "elected", Peer: "ann"})
	if at := s.electedAt("ann"); at == 0 || at > now()-4000 {
		t.Errorf("elected at %d", at)
	}
	if at := s.electedAt("bob"); at != 0 {
		t.Errorf("another one's election counts: %d", at)
	}
}

func TestAJobThatWasHeldAndRefusedIsAnsweredForLater(t *testing.T) {
	s := telling(t)
	job := taskstate.Job{ID: "abcdefghij", Name: "nightly"}
	s.Refused(&job, "its order ended at 2026-01-01 03:00 UTC, before a coordinator took it")
	_, _, err := s.Find(t.Context(), "abcdefghij")
	for _, want := range []string{"job nightly, held here until there was a coordinator, was refused: its order ended", "submit it again"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got := s.texts(); len(got) != 1 {
		t.Errorf("the story tells %q", got)
	}
	if _, _, err := s.Find(t.Context(), "another"); err == nil || strings.Contains(err.Error(), "refused") {
		t.Errorf("of another: %v", err)
	}
}
