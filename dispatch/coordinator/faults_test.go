package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// faultCluster is a few workers whose tasks take their time and end as the test says.
type faultCluster struct {
	*model
	dur    map[string]time.Duration // how long a task takes on a worker
	fails  func(w *modelWorker) bool
	began  map[taskstate.TaskID]time.Time
	failed map[string]int
	ran    map[string]int
	watch  func() // called whenever a worker has done something
}

// newFaultCluster has no beats: hours pass.
func newFaultCluster(t testing.TB, fail func(string, ...any)) *faultCluster {
	f := &faultCluster{
		model: newModel(newRig(t, CoreConfig{Beat: 10_000 * time.Hour}), fail),
		dur:   map[string]time.Duration{}, began: map[taskstate.TaskID]time.Time{}, failed: map[string]int{}, ran: map[string]int{}, watch: func() {},
	}
	return f
}

// draw gives each worker cpus and a time its tasks take, and has them all connect.
func (f *faultCluster) draw(rt *rapid.T) {
	for _, w := range f.workers {
		w.cpus = 1000 * rapid.Int64Range(1, 6).Draw(rt, "cpus")
		f.dur[w.id] = time.Duration(rapid.IntRange(10, 240_000).Draw(rt, "ms")) * time.Millisecond
		w.connect()
	}
	f.turn()
}

func (f *faultCluster) array(id string, n int) {
	f.apply(ledger.Command{Submit: &ledger.Submit{Job: jobOf(id, map[string]string{"count": fmt.Sprint(n), "cpus": "1"})}})
	f.turn()
}

// turn lets everything happen that happens at once.
func (f *faultCluster) turn() {
	for busy := true; busy; {
		busy = false
		for _, w := range f.workers {
			for ; len(w.down) > 0; busy = true {
				w.receive()
				f.watch()
			}
			f.end(w)
			w.work(0)
			for _, id := range w.sorted() {
				if _, known := f.began[id]; !known && w.tasks[id].state == taskstate.Running {
					f.began[id] = f.now
					f.ran[w.id]++
				}
			}
			busy = busy || len(w.fresh) > 0
			w.cut()
		}
	}
}

// end ends what has run for its time.
func (f *faultCluster) end(w *modelWorker) {
	for _, id := range w.sorted() {
		if t := w.tasks[id]; t.state == taskstate.Running && f.now.Sub(f.began[id]) >= f.dur[w.id] {
			if f.fails(w) {
				f.failed[w.id]++
				w.say(t, taskstate.Failed, taskstate.ReasonNone)
			} else {
				w.say(t, taskstate.Complete, taskstate.ReasonNone)
			}
		}
	}
}

// next lets time pass until something ends; false if nothing runs and nothing will.
func (f *faultCluster) next() bool {
	var at time.Time
	for _, w := range f.workers {
		for _, id := range w.sorted() {
			if end := f.began[id].Add(f.dur[w.id]); w.tasks[id].state == taskstate.Running && (at.IsZero() || end.Before(at)) {
				at = end
			}
		}
	}
	if wake := f.core.Wake(); at.IsZero() || !wake.IsZero() && wake.Before(at) {
		at = wake
	}
	if at.IsZero() {
		return false
	}
	f.now = later(f.now, at)
	f.step(TimePassed{})
	f.turn()
	return true
}

// room counts the cpus where nothing runs, and the tasks that wait on workers for one.
func (f *faultCluster) room() (idle int64, queued int) {
	for _, w := range f.workers {
		idle += w.cpus / 1000
		for _, t := range w.tasks {
			switch t.state {
			case taskstate.Running:
				idle--
			case taskstate.Accepted:
				queued++
			}
		}
	}
	return idle, queued
}

// waits counts the slots of a job that no worker has.
func (f *faultCluster) waits(job string) int {
	rec, _ := f.state.Job(taskstate.JobID(job))
	return rec.Counts().Pending
}

func (f *faultCluster) over(job string) bool {
	rec, _ := f.state.Job(taskstate.JobID(job))
	_, over := rec.Ended()
	return over
}

// Big machines show sooner than small ones that a job fails: they are not to stand idle for it.
func TestAJobThatFailsEverywhereUsesEveryPeerToItsEnd(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFaultCluster(t, rt.Fatalf)
		f.fails = func(*modelWorker) bool { return true }
		f.draw(rt)
		f.array("j", rapid.IntRange(40, 150).Draw(rt, "count"))
		var uneven time.Time // since when tasks wait on one peer while another has room
		for !f.over("j") {
			if !f.next() {
				rt.Fatalf("it came to a stand: %d wait\n%s", f.waits("j"), tail(f.out.String()))
			}
			idle, queued := f.room()
			known := f.failed["w0"] >= faultCount && f.failed["w1"] >= faultCount && f.failed["w2"] >= faultCount
			if !known || idle == 0 || queued == 0 {
				uneven = time.Time{}
			} else if uneven.IsZero() {
				uneven = f.now
			}
			if known && idle > 0 && f.waits("j") > 0 || !uneven.IsZero() && f.now.Sub(uneven) > 5*time.Second {
				rt.Fatalf("%d cpus are idle, and %d tasks wait, %d in queues; failed %v\n%s", idle, f.waits("j"), queued, f.failed, tail(f.out.String()))
			}
		}
	})
}

// One machine lacks what the job needs: it must not swallow the job, and the others do all of it.
func TestAPeerWhereAllFailsGetsLittleWhileOthersDoWell(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFaultCluster(t, rt.Fatalf)
		broken := map[string]bool{"w1": true, "w2": rapid.Bool().Draw(rt, "two are broken")}
		f.fails = func(w *modelWorker) bool { return broken[w.id] }
		f.draw(rt)
		f.array("j", 150)
		begin := f.now
		for !f.over("j") && f.next() {
			for _, w := range f.workers {
				periods := 1 + int(f.now.Sub(begin)/faultTime)
				if most := periods * (2*faultCount + 3*int(w.cpus/1000)); broken[w.id] && f.ran[w.id] > most {
					rt.Fatalf("%s ran %d tasks in %v, all in vain, want %d at most", w.id, f.ran[w.id], f.now.Sub(begin), most)
				}
			}
		}
	})
}

func TestAPeerIsFaultyWhenItsLastFiveEndsWereFailuresWithinFiveMinutes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t, CoreConfig{})
		j := &jobState{id: "j", job: &taskstate.Job{}}
		var ends []taskstate.State
		var at []time.Time
		for range rapid.IntRange(1, 30).Draw(rt, "ends") {
			r.core.clock.Advance(r.core.clock.Now().Add(time.Duration(rapid.IntRange(0, 100).Draw(rt, "seconds")) * time.Second))
			end := rapid.SampledFrom([]taskstate.State{taskstate.Failed, taskstate.Failed, taskstate.Failed, taskstate.Rejected, taskstate.Shutdown, taskstate.Complete}).Draw(rt, "end")
			r.core.jobs.noteEnd(j, "a", end)
			if end != taskstate.Shutdown { // somebody stopped it: that says nothing
				ends, at = append(ends, end), append(at, r.core.clock.Now())
			}
			n := len(ends)
			want := n >= faultCount && r.core.clock.Now().Sub(at[n-faultCount]) < faultTime
			for i := max(0, n-faultCount); i < n; i++ {
				want = want && ends[i] != taskstate.Complete
			}
			if got := j.faults.faulty("a", r.core.clock.Now()); got != want || j.faults.faulty("b", r.core.clock.Now()) {
				rt.Fatalf("after %v it is %v, want %v", ends, got, want)
			}
		}
	})
}

func TestTheFirstSuccessShowsThatTheFaultIsNotTheJobs(t *testing.T) {
	f := newFaultCluster(t, t.Fatalf)
	good := false
	f.fails = func(w *modelWorker) bool { return w.id != "w0" || !good }
	for _, w := range f.workers {
		f.dur[w.id] = time.Second
		w.connect()
	}
	f.turn()
	f.array("j", 100)
	for range 10 {
		f.next()
	}
	if len(f.core.jobs.avoided(f.core.jobs.of("j"))) != 0 {
		t.Fatalf("peers are passed over, though it fails everywhere: %v", f.failed)
	}
	good = true
	for f.began = map[taskstate.TaskID]time.Time{}; ; f.next() {
		if got := f.core.jobs.avoided(f.core.jobs.of("j")); len(got) == 2 && got["w1"] && got["w2"] {
			break
		} else if f.over("j") {
			t.Fatalf("w0 does well, and those passed over are %v", got)
		}
	}
}

// The person who asks for another try may have installed meanwhile what the peer lacked.
func TestARetryGivesEveryPeerAnotherChance(t *testing.T) {
	r := passedOver(t)
	r.apply(ledger.Command{Renew: &ledger.Renew{Job: "j", Slots: []ledger.Slots{{First: 1, N: 1}}, Reason: taskstate.ReasonRetried}})
	if r.openOf("j") == "" {
		t.Error("nothing runs, though somebody asked for it")
	}
}

// Its one cpu is a service's, so that it never shows whether the job fails there, too.
func TestAPeerThatIsFullOfWhatNeverEndsIsNoPlaceToWaitFor(t *testing.T) {
	r := newRig(t, CoreConfig{})
	long := taskstate.Job{ID: "s", Name: "s", Type: taskstate.ServiceJob, Count: 1, Constraints: []string{"peer.id == b"}, Resources: taskstate.Resources{MilliCPU: 50}}
	long.Run.Noop = &taskstate.Noop{Duration: 1000}
	r.commands("member b", "hello b cpus=1")
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: long}})
	failing(r)
	if open := r.core.openTasks(); !slices.ContainsFunc(open, func(l string) bool { return strings.HasPrefix(l, "j.") && strings.Contains(l, " on a@") }) {
		t.Errorf("b has no room and never will, and a gets nothing: %q; waits: %s", open, r.core.Waiting("j"))
	}
}
