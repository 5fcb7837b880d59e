package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// lastingJobs describes, sorted, all that the core mirrors of jobs that last, and of slots that
// leave.
func (c *Core) lastingJobs() []string {
	var out []string
	for id, j := range c.jobs.all {
		if j.lasting == nil && len(j.leaving) == 0 && !j.blocked || j.cancelled {
			continue
		}
		line := fmt.Sprintf("%s blocked=%t", id, j.blocked)
		for _, n := range slices.Sorted(maps.Keys(j.leaving)) {
			l := j.leaving[n]
			if l.retired {
				l.next = 0
			}
			line += fmt.Sprintf(" leaving %d=%+v", n, l)
		}
		if l := j.lasting; l != nil {
			line += fmt.Sprintf(" version=%d count=%d from=%d phase=%s", j.job.Version, j.job.Count, l.from, l.phase)
			for _, n := range l.ordered() {
				s := l.slots[n]
				line += fmt.Sprintf(" %d.%d{v%d pin=%s on=%s waits=%t retired=%t}", n, s.attempt, s.version, s.pin, s.peer, s.waits, s.retired)
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// TestWhateverHappensJobsThatLastBecomeWhatIsWanted lets a small cluster with services, global
// jobs, restarts and dependencies live through updates, drains, labels and the usual trouble. At
// every moment what the core followed equals what the ledger holds. Once everybody behaves, every
// service has its replicas, every global job one on each peer that fits, all of the version wanted
// unless an update is paused, and every other job ends.
func TestWhateverHappensJobsThatLastBecomeWhatIsWanted(t *testing.T) {
	long.Cases(t, 15)
	rapid.Check(t, func(rt *rapid.T) {
		cfg := CoreConfig{MaxAhead: 3}
		r := newRig(t, cfg)
		m := newModel(r, func(f string, args ...any) { rt.Fatalf(f+"\n%s", append(args, tail(r.out.String()))...) })
		for _, w := range m.workers {
			w.cpus = 8000 // what lasts must leave room for the rest
		}
		for range rapid.IntRange(5, 120).Draw(rt, "steps") {
			if rapid.IntRange(0, 2).Draw(rt, "kind") == 0 {
				m.randomWish(rt)
			} else {
				m.randomStep(rt, cfg)
			}
			if r.over != "" {
				rt.Fatalf("started over: %s\n%s", r.over, tail(r.out.String()))
			}
			if err := r.check(); err != nil {
				rt.Fatalf("%v\n%s", err, tail(r.out.String()))
			}
		}
		for _, w := range m.workers {
			m.apply(ledger.Command{Avail: &ledger.SetAvailability{Peer: w.id, Availability: ledger.AvailActive}})
		}
		m.heal()
		m.settleDown()
		if r.over != "" {
			rt.Fatalf("started over: %s\n%s", r.over, tail(r.out.String()))
		}
		for _, j := range m.jobs {
			if err := m.asWanted(j.ID); err != nil {
				rt.Fatalf("job %s: %v\n%s\n%s", j.ID, err, strings.Join(m.core.lastingJobs(), "\n"), tail(r.out.String()))
			}
		}
	})
}

// settleDown lets restarts and rollouts come to their ends.
func (m *model) settleDown() {
	for i := range 1200 {
		if i%20 == 0 && !slices.ContainsFunc(m.jobs, func(j taskstate.Job) bool { return m.asWanted(j.ID) != nil }) {
			return
		}
		for _, w := range m.workers {
			w.connect()
			for len(w.down) > 0 {
				w.receive()
			}
			w.work(100)
			w.cut()
		}
		m.beat()
		m.advance(250 * time.Millisecond)
	}
}

// asWanted tells what is not as it should be with a job, once everybody behaves.
func (m *model) asWanted(id taskstate.JobID) error {
	rec, ok := m.state.Job(id)
	if !ok {
		return nil
	}
	_, over := rec.Ended()
	if over {
		return nil
	}
	if !rec.Lasts() {
		return fmt.Errorf("it has not ended: %+v, blocked by %v", rec.Counts(), rec.Blocked())
	}
	if _, _, cancelled := rec.Cancelled(); cancelled {
		return fmt.Errorf("it was cancelled and has not ended: %+v", rec.Counts())
	}
	ro := rec.Rollout()
	if ro.State.Moving() {
		return fmt.Errorf("its update has come to no end: %+v", ro)
	}
	running := map[string]int{}
	n := 0
	for _, w := range m.workers {
		for _, t := range w.tasks {
			if t.id.Job != id || t.state != taskstate.Running {
				continue
			}
			n++
			running[w.id]++
			if s := rec.Slot(t.id.Slot); !ro.State.Halted() && s.Version != rec.Job().Version {
				return fmt.Errorf("slot %d runs version %d, version %d is wanted", t.id.Slot, s.Version, rec.Job().Version)
			}
		}
	}
	spent := 0 // ended for good: they count, and none follows
	for k := 1; k <= rec.Slots(); k++ {
		if s := rec.Slot(k); s.Final != nil && !s.Retired {
			spent++
			running[string(s.Pin)]++
		}
	}
	if rec.Job().Type == taskstate.ServiceJob {
		if n+spent != rec.Job().Count && !ro.State.Halted() {
			return fmt.Errorf("%d replicas run and %d have ended for good, %d are wanted", n, spent, rec.Job().Count)
		}
		return nil
	}
	for _, w := range m.workers {
		j := m.core.jobs.of(id)
		want := 0
		if j != nil && j.allows(m.core.peers.of(w.id)) {
			want = 1
		}
		if running[w.id] != want && !ro.State.Halted() {
			return fmt.Errorf("%d run on %s, want %d", running[w.id], w.id, want)
		}
	}
	return nil
}

// wish has a command decided that a person wants.
func (m *model) wish(c ledger.Command) {
	fmt.Fprintf(&m.out, "-- wished: %s\n", commandString(c))
	m.apply(c)
}

// randomWish is one thing a person can want.
func (m *model) randomWish(rt *rapid.T) {
	what := rapid.IntRange(0, 99).Draw(rt, "wish")
	fmt.Fprintf(&m.out, "-- wish %d at %v\n", what, m.now.UnixMilli())
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(rt, "worker")]
	var lasts, all []*ledger.JobRecord
	for _, j := range m.jobs {
		if rec, ok := m.state.Job(j.ID); ok {
			if all = append(all, rec); rec.Lasts() {
				lasts = append(lasts, rec)
			}
		}
	}
	switch {
	case what < 15:
		m.submitLasting(rt)
	case what < 25:
		m.submitWithPolicy(rt)
	case what < 45 && len(lasts) > 0:
		m.update(rt, rapid.SampledFrom(lasts).Draw(rt, "job"))
	case what < 55 && len(lasts) > 0:
		to := rapid.SampledFrom([]taskstate.RolloutState{taskstate.RolloutPaused, taskstate.RolloutUpdating, taskstate.RolloutRollingBack}).Draw(rt, "to")
		m.wish(ledger.Command{Rollout: &ledger.Rollout{Job: rapid.SampledFrom(lasts).Draw(rt, "job").Job().ID, State: to, Message: "wished"}})
	case what < 70:
		a := rapid.SampledFrom([]ledger.Availability{ledger.AvailActive, ledger.AvailActive, ledger.AvailPause, ledger.AvailDrain}).Draw(rt, "availability")
		m.wish(ledger.Command{Avail: &ledger.SetAvailability{Peer: w.id, Availability: a, Grace: rapid.SampledFrom([]int64{0, 500}).Draw(rt, "grace")}})
	case what < 78:
		l := &ledger.Label{Peer: w.id, Set: map[string]string{"zone": "a"}}
		if rapid.Bool().Draw(rt, "unset") {
			l.Set, l.Unset = nil, []string{"zone"}
		}
		m.wish(ledger.Command{Label: l})
	case what < 84:
		m.failOne(w)
	case what < 88 && len(all) > 0:
		m.failAll(rapid.SampledFrom(all).Draw(rt, "job").Job().ID)
	case len(all) > 0:
		m.renewSome(rt, rapid.SampledFrom(all).Draw(rt, "job"))
	}
}

// failOne ends a running task as failed.
func (m *model) failOne(w *modelWorker) {
	if !w.up {
		return
	}
	for _, id := range w.sorted() {
		if t := w.tasks[id]; t.state == taskstate.Running {
			w.say(t, taskstate.Failed, taskstate.ReasonNone)
			w.cut()
			return
		}
	}
}

// failAll ends every task of a job that is heard of as failed, and those that take their place,
// until none does.
func (m *model) failAll(id taskstate.JobID) {
	for range 3 {
		for _, w := range m.workers {
			if !w.up || w.silent {
				continue
			}
			w.connect()
			for len(w.down) > 0 {
				w.receive()
			}
			for _, t := range w.sorted() {
				if x := w.tasks[t]; t.Job == id && !x.state.Final() {
					w.say(x, taskstate.Failed, taskstate.ReasonNone)
				}
			}
			w.cut()
		}
	}
}

func (m *model) renewSome(rt *rapid.T, rec *ledger.JobRecord) {
	if rec.Slots() == 0 || rec.Job().Unreachable.Wait {
		return // what must not run twice would, because a person says so
	}
	first := rapid.IntRange(1, rec.Slots()).Draw(rt, "first")
	run := ledger.Slots{First: first, N: rapid.IntRange(1, rec.Slots()-first+1).Draw(rt, "n")}
	if rec.Lasts() || rapid.Bool().Draw(rt, "renew") {
		m.wish(ledger.Command{Renew: &ledger.Renew{Job: rec.Job().ID, Slots: []ledger.Slots{run}, Reason: taskstate.ReasonRetried}})
	} else {
		m.wish(ledger.Command{Retire: &ledger.Retire{Job: rec.Job().ID, Slots: []ledger.Slots{run}, Reason: taskstate.ReasonRetired}})
	}
}

func (m *model) submitLasting(rt *rapid.T) {
	j := taskstate.Job{ID: taskstate.JobID(fmt.Sprintf("s%d", len(m.jobs))), Type: taskstate.ServiceJob, Count: rapid.IntRange(0, 3).Draw(rt, "count")}
	j.Name = string(j.ID)
	j.Run.Noop = &taskstate.Noop{Duration: 1}
	if rapid.IntRange(0, 2).Draw(rt, "global") == 0 {
		j.Type, j.Count = taskstate.GlobalJob, 0
		if rapid.Bool().Draw(rt, "zone") {
			j.Constraints = []string{"peer.label.zone != a"}
		}
	}
	if j.Restart = taskstate.DefaultRestart(j.Type); rapid.IntRange(0, 2).Draw(rt, "mortal") == 0 {
		j.Restart = rapid.SampledFrom([]*taskstate.Restart{{Condition: taskstate.RestartNone}, {Condition: taskstate.RestartOnFailure, Attempts: 1}}).Draw(rt, "restart")
	}
	m.drawUpdate(rt, &j)
	m.jobs = append(m.jobs, j)
	m.wish(ledger.Command{Submit: &ledger.Submit{Job: j}})
}

func (m *model) drawUpdate(rt *rapid.T, j *taskstate.Job) {
	u := taskstate.Update{
		Parallelism: rapid.IntRange(0, 2).Draw(rt, "parallelism"), Delay: rapid.SampledFrom([]int64{0, 300}).Draw(rt, "delay"),
		Monitor: rapid.SampledFrom([]int64{100, 2000}).Draw(rt, "monitor"), MaxFailureRatio: rapid.SampledFrom([]float64{0, 0.5}).Draw(rt, "ratio"),
		OnFailure: rapid.SampledFrom([]taskstate.FailureAction{taskstate.PauseUpdate, taskstate.ContinueUpdate, taskstate.RollBackUpdate}).Draw(rt, "onFailure"),
	}
	if j.Type == taskstate.ServiceJob {
		u.Order = rapid.SampledFrom([]taskstate.UpdateOrder{taskstate.StopFirst, taskstate.StartFirst}).Draw(rt, "order")
	}
	j.Update = &u
}

// submitWithPolicy submits a batch job that restarts, gives up, or waits for others.
func (m *model) submitWithPolicy(rt *rapid.T) {
	j := taskstate.Job{ID: taskstate.JobID(fmt.Sprintf("p%d", len(m.jobs))), Type: taskstate.BatchJob, Count: rapid.IntRange(1, 6).Draw(rt, "count")}
	j.Run.Noop = &taskstate.Noop{}
	if rapid.Bool().Draw(rt, "restarts") {
		j.Restart = &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: rapid.IntRange(1, 3).Draw(rt, "attempts"), Delay: rapid.SampledFrom([]int64{0, 700}).Draw(rt, "delay")}
	}
	j.MaxFails = rapid.IntRange(0, 2).Draw(rt, "maxFails")
	j.Priority = rapid.IntRange(0, 100).Draw(rt, "priority")
	for _, before := range m.jobs {
		if rec, ok := m.state.Job(before.ID); ok && !rec.Lasts() && len(j.After) < 2 && rapid.IntRange(0, 3).Draw(rt, "after") == 0 {
			j.After = append(j.After, before.ID)
		}
	}
	m.jobs = append(m.jobs, j)
	m.wish(ledger.Command{Submit: &ledger.Submit{Job: j}})
}

func (m *model) update(rt *rapid.T, rec *ledger.JobRecord) {
	next := *rec.Job()
	if next.Type == taskstate.ServiceJob && rapid.Bool().Draw(rt, "scale") {
		next.Count = rapid.IntRange(0, 4).Draw(rt, "count")
	}
	if rapid.Bool().Draw(rt, "other") {
		next.Run.Noop = &taskstate.Noop{Duration: rapid.Int64Range(1, 4).Draw(rt, "duration")}
	}
	if rapid.Bool().Draw(rt, "more") {
		next.Resources.MilliCPU = rapid.SampledFrom([]int64{0, 100}).Draw(rt, "cpus")
	}
	m.drawUpdate(rt, &next)
	m.wish(ledger.Command{Update: &ledger.Update{Job: next}})
}

func TestAnAttemptFailsAnUpdateByHowLongItRanAndNotByWhenItsEndIsDecided(t *testing.T) {
	job := &taskstate.Job{Type: taskstate.ServiceJob, Update: &taskstate.Update{Monitor: 1000}}
	began := time.Unix(1000, 0)
	for _, c := range []struct {
		name  string
		took  int64         // milliseconds, as its worker says
		seen  time.Duration // to run, until its end was decided; 0: never
		fails bool
	}{
		{"ended at once, decided late", 90, 1200 * time.Millisecond, true},
		{"ran for long, heard of late", 3_600_000, 500 * time.Millisecond, false},
		{"never ran", 0, 0, true},
		{"ended at once, never seen to run", 90, 0, true},
		{"nobody knows how long, seen for a moment", 0, 900 * time.Millisecond, true},
		{"nobody knows how long, seen for long", 0, 1100 * time.Millisecond, false},
	} {
		l := &lasting{slots: map[int]*lastingSlot{}}
		l.begun(1, 1, 4, "p")
		if c.seen > 0 {
			l.slots[1].ran = began
		}
		st := &taskstate.Status{Task: taskstate.Task("j", 1, 1), State: taskstate.Failed, Took: c.took}
		l.ended(st, 4, job, began.Add(c.seen))
		if got := l.slots[1].failedOn(4); got != c.fails {
			t.Errorf("%s: failed is %v", c.name, got)
		}
	}
}
