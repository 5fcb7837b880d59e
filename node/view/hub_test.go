package view

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func someEvents(n int) []event {
	return make([]event, n)
}

func TestAReaderGetsWhatItHasNotSeenInOrder(t *testing.T) {
	h := newHub("boot")
	h.append([]event{{note: "a"}, {note: "b"}})
	h.append([]event{{note: "c"}})
	evs, lost, _ := h.after(1)
	if lost || len(evs) != 2 || evs[0].note != "b" || evs[0].seq != 2 || evs[1].note != "c" || h.last() != 3 {
		t.Fatal(evs, lost)
	}
	if evs, lost, _ := h.after(3); lost || len(evs) != 0 {
		t.Fatal(evs, lost)
	}
}

func TestAReaderThatFellOutOfTheRingIsTold(t *testing.T) {
	h := newHub("boot")
	h.append(someEvents(hubSize))
	if evs, lost, _ := h.after(0); lost || len(evs) != hubSize {
		t.Fatal(len(evs), lost)
	}
	h.append(someEvents(1))
	evs, lost, _ := h.after(0)
	if !lost || len(evs) != hubSize || evs[0].seq != 2 {
		t.Fatal(len(evs), lost, evs[0].seq)
	}
	if _, lost, _ := h.after(1); lost {
		t.Fatal("one who has seen the first has lost nothing")
	}
}

func TestTheRingAgreesWithAnEndlessList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHub("boot")
		now := time.Duration(0)
		h.age = func() time.Duration { return now }
		var all []time.Duration // when each came in
		for range rapid.IntRange(1, 6).Draw(t, "appends") {
			now += rapid.SampledFrom([]time.Duration{0, time.Second, hubAge / 2, hubAge, hubAge + 1}).Draw(t, "later")
			n := rapid.SampledFrom([]int{0, 1, 7, hubSize - 1, hubSize, hubSize + 3}).Draw(t, "events")
			h.append(someEvents(n))
			all = append(all, slices.Repeat([]time.Duration{now}, n)...)
			now += rapid.SampledFrom([]time.Duration{0, hubAge / 2, hubAge, hubAge + 1}).Draw(t, "asked later")
			total := uint64(len(all))
			kept := uint64(0)
			for _, at := range all[max(0, len(all)-hubSize):] {
				if now-at <= hubAge {
					kept++
				}
			}
			seen := rapid.Uint64Range(0, total).Draw(t, "seen")
			evs, lost, _ := h.after(seen)
			if want := total - seen; lost != (want > kept) || uint64(len(evs)) != min(want, kept) {
				t.Fatalf("after %d of %d, %d of them kept: %d events, lost %v", seen, total, kept, len(evs), lost)
			}
			for i, e := range evs {
				if e.seq != total-uint64(len(evs))+uint64(i)+1 {
					t.Fatalf("event %d has seq %d", i, e.seq)
				}
			}
		}
	})
}

func TestATokenThatIsTooOldIsAnsweredWithASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub("boot")
		h.append([]event{{kind: kindJob, job: "early", note: "a"}})
		token := h.token(h.last())
		lines := func(since string) (kinds []string) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			w := &watcher{hub: h, list: func(tell func(event) error) error { return tell(event{kind: kindJob, job: "early", state: "complete"}) }, now: now, send: func(e api.Event) error {
				kinds = append(kinds, e.Kind)
				if e.Kind == kindSnapshot && !strings.Contains(e.Message, "too old") {
					t.Errorf("the snapshot says why: %q", e.Message)
				}
				return nil
			}}
			if err := w.run(ctx, since, watchLeast); err != nil {
				t.Error(err)
			}
			return kinds
		}
		time.Sleep(10 * hubAge)
		if got := lines(token); len(got) != 0 {
			t.Errorf("nothing happened since that token, however old it is: %v", got)
		}
		h.append([]event{{kind: kindJob, job: "early", state: "complete"}})
		if got := lines(token); !slices.Equal(got, []string{kindJob}) {
			t.Errorf("what came after the token is kept: %v", got)
		}
		time.Sleep(hubAge + time.Second)
		if got := lines(token); !slices.Equal(got, []string{kindSnapshot, kindJob, kindSynced}) {
			t.Errorf("what came after the token is not kept any more: %v", got)
		}
	})
}

func TestReadersAreWokenByNewsAndOnlyByNews(t *testing.T) {
	h := newHub("boot")
	_, _, one := h.after(0)
	_, _, two := h.after(0)
	h.append(nil)
	select {
	case <-one:
		t.Fatal("woken by nothing")
	default:
	}
	h.append(someEvents(1))
	<-one
	<-two
	_, _, next := h.after(1)
	select {
	case <-next:
		t.Fatal("still awake")
	default:
	}
}

func TestATokenIsGoodAtThePeerAndTheStartThatGaveIt(t *testing.T) {
	h := newHub("abcd1")
	h.append(someEvents(5))
	for token, want := range map[string]struct {
		seq uint64
		ok  bool
	}{h.token(3): {3, true}, h.token(5): {5, true}, h.token(6): {6, false}, "other.3": {3, false}} {
		seq, ok, err := h.parseToken(token)
		if err != nil || ok != want.ok || seq != want.seq {
			t.Errorf("%s: %d %v %v", token, seq, ok, err)
		}
	}
	for _, bad := range []string{"", "abcd1", "abcd1.", "abcd1.x", "abcd1.-1"} {
		_, _, err := h.parseToken(bad)
		wants(t, err, api.Usage, "peer watch")
	}
}

func TestEventsOfTasksShowAnExitCodeOnlyWhereThereIsOne(t *testing.T) {
	h := newHub("boot")
	task := taskstate.Task("k3v5q7x2ab", 2, 1)
	running := h.public(taskEvent(taskstate.Status{Task: task, State: taskstate.Running, At: 1000}, "p"))
	if running.Exit != nil || running.Job != "k3v5q7x2ab" || running.Task != "k3v5q7x2ab.2.1" || running.State != "running" || running.Peer != "p" {
		t.Errorf("%+v", running)
	}
	failed := h.public(taskEvent(taskstate.Status{Task: task, State: taskstate.Failed, Exit: 3}, "p"))
	if failed.Exit == nil || *failed.Exit != 3 {
		t.Errorf("%+v", failed)
	}
	killed := h.public(taskEvent(taskstate.Status{Task: task, State: taskstate.Failed, Exit: taskstate.NoExit, Signal: 9}, "p"))
	if killed.Exit != nil {
		t.Errorf("%+v", killed)
	}
	job := h.public(event{kind: kindJob, job: "k3v5q7x2ab", state: "complete", seq: 7})
	if job.Exit != nil || job.Task != "" || job.Token != "boot.7" {
		t.Errorf("%+v", job)
	}
}

func TestAMarkRisesAndWakesThoseWhoWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMark()
		m.set(5)
		m.set(3)
		if err := m.reach(t.Context(), 5); err != nil {
			t.Fatal("a mark fell back", err)
		}
		reached := make(chan error, 2)
		for range 2 {
			go func() { reached <- m.reach(t.Context(), 7) }()
		}
		m.set(6)
		synctest.Wait()
		if len(reached) != 0 {
			t.Fatal("6 is not 7")
		}
		m.set(8)
		if err := <-reached; err != nil {
			t.Fatal(err)
		}
		<-reached
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if m.reach(ctx, 100) == nil {
			t.Fatal("reached 100")
		}
	})
}
