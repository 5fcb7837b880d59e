package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// watchedWorld is what happens at a peer: jobs whose state is a number that only rises, and that
// may go for good.
type watchedWorld struct {
	hub   *hub
	boots int
	jobs  map[string]int
	made  int
}

func (w *watchedWorld) boot() {
	w.boots++
	w.hub = newHub("boot" + strconv.Itoa(w.boots))
	w.hub.size = 24 // so that readers fall out of it
}

// happen lets n things happen.
func (w *watchedWorld) happen(t *rapid.T, n int) {
	for range n {
		id := "job" + strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "job"))
		w.jobs[id]++
		w.made++
		w.hub.append([]event{{kind: kindJob, job: taskstate.JobID(id), state: strconv.Itoa(w.jobs[id])}})
	}
}

// view is what a reader makes of the lines it gets.
type view struct {
	t      *rapid.T
	token  string
	jobs   map[string]int
	listed map[string]int // while a snapshot is coming in
	left   int            // lines until it is cut off
}

var errCut = errors.New("cut off")

func (v *view) take(e api.Event) error {
	if v.left == 0 {
		return errCut
	}
	v.left--
	if e.Token != "" {
		v.token = e.Token
	}
	switch e.Kind {
	case kindSnapshot:
		if e.Token == "" {
			v.listed = map[string]int{}
		}
	case kindSynced:
		for id, was := range v.jobs {
			if v.listed[id] < was {
				v.t.Fatalf("a snapshot takes %s back from %d to %d", id, was, v.listed[id])
			}
		}
		v.jobs, v.listed = v.listed, nil
	case kindJob:
		at, into := must(strconv.Atoi(e.State)), v.jobs
		if v.listed != nil {
			if into = v.listed; !e.Snapshot || e.Token != "" {
				v.t.Fatalf("%+v in a snapshot", e)
			}
		}
		if at < into[e.Job] {
			v.t.Fatalf("%s goes back from %d to %d", e.Job, into[e.Job], at)
		}
		into[e.Job] = at
	}
	return nil
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

// connect watches for as many lines as the reader takes before it is cut off, or to the end of what
// there is.
func (v *view) connect(w *watchedWorld, lines int) {
	v.left, v.listed = lines, nil // half a snapshot is nothing
	s := &watcher{hub: w.hub, now: func() int64 { return 1 }, send: v.take, list: func(tell func(event) error) error {
		for id, at := range maps.Clone(w.jobs) {
			if rapid.IntRange(0, 9).Draw(v.t, "meanwhile") == 0 {
				w.happen(v.t, rapid.IntRange(1, 3).Draw(v.t, "things"))
				at = w.jobs[id]
			}
			if err := tell(event{kind: kindJob, job: taskstate.JobID(id), state: strconv.Itoa(at)}); err != nil {
				return err
			}
		}
		return nil
	}}
	err := s.begin(v.token)
	if err == nil {
		_, err = s.catchUp()
	}
	if err != nil && !errors.Is(err, errCut) && api.AsError(err).Code != api.TimedOut {
		v.t.Fatal(err)
	}
}

func TestAWatcherSeesHistoryWithoutStepsBackThatEndsWhereThingsStandHoweverItIsCutOff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &watchedWorld{jobs: map[string]int{}}
		w.boot()
		v := &view{t: t, jobs: map[string]int{}}
		v.connect(w, 1) // from the beginning, of which nothing is missing
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"happen", "happen", "watch", "cut", "restart", "flood"}).Draw(t, "step") {
			case "happen":
				w.happen(t, rapid.IntRange(1, 8).Draw(t, "things"))
			case "flood":
				w.happen(t, 30)
			case "watch":
				v.connect(w, -1)
			case "cut":
				v.connect(w, rapid.IntRange(0, 12).Draw(t, "lines"))
			case "restart":
				w.boot()
			}
		}
		v.connect(w, -1)
		v.connect(w, -1)
		if !maps.Equal(v.jobs, w.jobs) {
			t.Fatalf("the reader ends at %v, things stand at %v", v.jobs, w.jobs)
		}
	})
}

func TestAReaderFarBehindIsToldTheNewestOfEachThingInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var evs []event
		for i := range rapid.IntRange(0, 60).Draw(t, "events") {
			e := event{seq: uint64(i + 1), kind: rapid.SampledFrom([]string{kindJob, kindTask, kindPeer, kindCoordinator}).Draw(t, "kind")}
			n := rapid.IntRange(1, 4).Draw(t, "which")
			e.job, e.peer, e.task = taskstate.JobID(fmt.Sprint(n)), fmt.Sprint(n), taskstate.Task("job", n, 1)
			if e.kind == kindTask {
				e.peer, e.job = fmt.Sprint(rapid.IntRange(1, 2).Draw(t, "peer")), "" // who has it is part of what happens to it
			}
			evs = append(evs, e)
		}
		want, seen := map[thing]uint64{}, uint64(0)
		for i := range evs {
			want[evs[i].about()] = evs[i].seq
		}
		got := newest(evs)
		for i := range got {
			if got[i].seq <= seen || want[got[i].about()] != got[i].seq {
				t.Fatalf("event %d: %+v after %d, want %d", i, got[i], seen, want[got[i].about()])
			}
			seen = got[i].seq
			delete(want, got[i].about())
		}
		if len(want) > 0 {
			t.Fatalf("never told: %v", want)
		}
	})
}

func TestAStreamSaysThatItLivesAndEndsWithAToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub("boot")
		var got []api.Event
		w := &watcher{hub: h, now: func() int64 { return 1 }, send: func(e api.Event) error { got = append(got, e); return nil }}
		begin := time.Now()
		if err := w.run(t.Context(), "", time.Minute); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("it lived %v", took)
		}
		var kinds []string
		for _, e := range got {
			kinds = append(kinds, e.Kind)
			if e.Token != "boot.0" {
				t.Errorf("%s has token %q", e.Kind, e.Token)
			}
		}
		if s := strings.Join(kinds, " "); s != "snapshot bookmark bookmark bookmark end" && s != "snapshot bookmark bookmark bookmark bookmark end" {
			t.Errorf("it said: %s", s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.run(ctx, "boot.0", time.Minute); err != nil {
			t.Errorf("a reader that went away: %v", err)
		}
	})
}
