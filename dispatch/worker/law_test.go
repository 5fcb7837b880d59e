package worker

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// worldOfOneWorker is a coordinator reduced to what it promises a worker, and a network that loses
// whole sessions: frames on the way in both directions when a stream breaks, single frames (a gap)
// and repeated ones before that.
type worldOfOneWorker struct {
	*box
	r        *rapid.T
	term     uint64
	open     map[taskstate.TaskID]bool // in the ledger: assigned here, not settled
	next     int                       // slot of the next new task
	up       bool                      // a stream is up
	downs    []session.Down            // on their way to the worker
	set      uint64                    // number of the newest set sent
	inSync   bool                      // a Complete set was sent in this session
	acks     uint64                    // contiguous batches heard
	resyncs  int
	gaps     int
	broken   bool                      // the disk takes nothing
	dropped  map[taskstate.TaskID]bool // the worker gave its word: it never runs these
	finals   map[taskstate.TaskID]taskstate.Status
	newestOf map[taskstate.TaskID]taskstate.Status
	over     map[taskstate.TaskID]bool // told its end in this life
}

func (w *worldOfOneWorker) grants() []session.Grant {
	byJob := map[taskstate.JobID]*session.Grant{}
	for _, id := range slices.SortedFunc(maps.Keys(w.open), taskstate.TaskID.Compare) {
		g := byJob[id.Job]
		if g == nil {
			g = &session.Grant{Job: id.Job, Index: 7}
			byJob[id.Job] = g
		}
		g.Add(id, "", false)
	}
	var gs []session.Grant
	for _, k := range slices.Sorted(maps.Keys(byJob)) {
		gs = append(gs, *byJob[k])
	}
	return gs
}

func (w *worldOfOneWorker) complete() {
	w.set++
	w.downs = append(w.downs, setOf(true, w.term, 0, w.set, w.grants()...))
	w.inSync = true
}

func (w *worldOfOneWorker) change(f func(*session.Assignments), grants ...session.Grant) {
	if !w.up || !w.inSync {
		return
	}
	w.set++
	d := setOf(false, w.term, w.set-1, w.set, grants...)
	f(d.Assignments)
	w.downs = append(w.downs, d)
}

// hear takes in everything the worker sent.
func (w *worldOfOneWorker) hear() {
	ups := w.ups
	w.ups = nil
	for _, u := range ups {
		switch {
		case u.Hello != nil:
			if u.Hello.Acked > w.acks || u.Hello.Last < w.acks {
				w.t.Fatalf("hello says acked %d, last %d; %d was acknowledged", u.Hello.Acked, u.Hello.Last, w.acks)
			}
		case u.Report != nil:
			for _, s := range u.Report.Tasks {
				w.join(s)
			}
			if u.Report.Done {
				w.complete()
			}
		case u.Resync != nil:
			w.resyncs++
			w.complete()
		case u.Dropped != nil:
			for _, id := range u.Dropped.Tasks {
				if w.started[id] > 0 && w.open[id] && w.finals[id].Seq == 0 {
					w.t.Fatalf("%v was started and is called dropped", id)
				}
				delete(w.open, id)
				w.dropped[id] = true
			}
		case u.Batch != nil:
			w.batch(u.Batch)
		}
	}
}

// join checks that a task never goes back and has one end.
func (w *worldOfOneWorker) join(s taskstate.Status) {
	old, ok := w.newestOf[s.Task]
	if ok && old.State.Final() && s.State.Final() && old.Compare(s) != 0 {
		w.t.Fatalf("%v ended twice: %+v and %+v", s.Task, old, s)
	}
	if ok && s.Seq == old.Seq && s.Compare(old) != 0 {
		w.t.Fatalf("two statuses of %v have number %d: %+v and %+v", s.Task, s.Seq, old, s)
	}
	if !ok || s.Compare(old) > 0 {
		w.newestOf[s.Task] = s
	}
}

func (w *worldOfOneWorker) batch(env []byte) {
	b, err := taskstate.DecodeBatch(env)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if b.Number > w.acks+1 {
		w.t.Fatalf("batch %d came, %d is missing", b.Number, w.acks+1)
	}
	for _, s := range b.Statuses {
		w.join(s)
		if s.State.Final() {
			w.finals[s.Task], w.over[s.Task] = s, true
			delete(w.open, s.Task)
		}
	}
	w.acks = max(w.acks, b.Number)
	if w.up {
		w.downs = append(w.downs, session.Down{Ack: &session.Ack{Batch: w.acks}})
	}
}

func (w *worldOfOneWorker) connect() {
	if w.up {
		return
	}
	w.up, w.downs, w.inSync, w.set = true, nil, false, uint64(w.draw("set", 0, 3))
	w.box.open()
	w.hear() // the greeting comes before anything else, and its answer may still be lost
	w.downs = append([]session.Down{welcomeIn(w.term)}, w.downs...)
}

func (w *worldOfOneWorker) disconnect() {
	if !w.up {
		return
	}
	w.ups = w.ups[:w.draw("heard of the last words", 0, len(w.ups))]
	w.hear()
	w.up, w.downs = false, nil
	w.step(Closed{w.stream})
}

func (w *worldOfOneWorker) draw(what string, lo, hi int) int {
	return rapid.IntRange(lo, hi).Draw(w.r, what)
}

// deliver brings frames to the worker, now and then one twice, now and then one not at all.
func (w *worldOfOneWorker) deliver(honest bool) {
	for n := len(w.downs); n > 0 && w.up; n-- {
		d := w.downs[0]
		w.downs = w.downs[1:]
		fate := 9
		if !honest {
			fate = w.draw("fate", 0, 9)
		}
		if fate == 0 && d.Assignments != nil && !d.Assignments.Complete {
			w.gaps++
			continue
		}
		ends := len(w.ended)
		w.down(d)
		if fate == 1 && len(w.ended) == ends {
			w.down(d)
		}
		if len(w.ended) > ends {
			w.t.Fatalf("the worker ended the session: %v", w.ended[ends:])
		}
		w.hear()
	}
}

func (w *worldOfOneWorker) someTask(among map[taskstate.TaskID]bool) (taskstate.TaskID, bool) {
	ids := slices.SortedFunc(maps.Keys(among), taskstate.TaskID.Compare)
	if len(ids) == 0 {
		return taskstate.TaskID{}, false
	}
	return ids[w.draw("which", 0, len(ids)-1)], true
}

func (w *worldOfOneWorker) assign() {
	job := rapid.SampledFrom([]taskstate.JobID{jobNoop, jobWork, jobOnce, jobKeep, jobFed, jobFedOne}).Draw(w.r, "job")
	g := session.Grant{Job: job, Index: 7, Slots: []ledger.Slots{{First: w.next, N: w.draw("n", 1, 5), Attempt: 1}}}
	w.next += g.Slots[0].N
	for id := range g.Tasks() {
		w.open[id] = true
	}
	w.change(func(*session.Assignments) {}, g)
}

func (w *worldOfOneWorker) act() {
	switch rapid.SampledFrom([]string{
		"assign", "assign", "deliver", "deliver", "save", "save", "publish", "run", "place", "end", "end", "end", "refuse", "saving",
		"stop", "recall", "supersede", "again", "again", "break", "connect", "connect", "crash", "detach", "term", "sick", "well", "wait", "stage", "stage",
	}).Draw(w.r, "act") {
	case "assign":
		w.assign()
	case "deliver":
		w.deliver(false)
	case "save":
		if !w.broken {
			w.save()
		}
	case "publish":
		w.publish()
	case "run":
		if ids := w.sorted(); len(ids) > 0 {
			w.runs(ids[w.draw("which", 0, len(ids)-1)])
		}
	case "place":
		if ids := slices.DeleteFunc(w.sorted(), func(id taskstate.TaskID) bool { return w.core.held.of[id].status.State > taskstate.Starting }); len(ids) > 0 {
			w.places(ids[w.draw("which", 0, len(ids)-1)], []string{"10 %", "20 %"}[w.draw("how far", 0, 1)])
		}
	case "end":
		if ids := w.begunTasks(); len(ids) > 0 {
			w.finish(ids[w.draw("which", 0, len(ids)-1)], taskstate.Complete, "")
		}
	case "refuse":
		if ids := w.sorted(); len(ids) > 0 {
			w.refused(ids[w.draw("which", 0, len(ids)-1)])
		}
	case "saving":
		if ids := slices.DeleteFunc(w.sorted(), func(id taskstate.TaskID) bool { return id.Job != jobKeep }); len(ids) > 0 {
			w.saves(ids[w.draw("which", 0, len(ids)-1)], w.draw("exit", 0, 1))
		}
	case "stop":
		if id, ok := w.someTask(w.open); ok {
			w.change(func(a *session.Assignments) { a.Stop = []session.Stop{{Task: id, Reason: taskstate.ReasonCancelled}} })
		}
	case "recall":
		if id, ok := w.someTask(w.open); ok {
			w.change(func(a *session.Assignments) { a.Recall = []taskstate.TaskID{id} })
		}
	case "supersede": // the ledger gives the slot to another peer; the worker learns it from the next Complete set
		if id, ok := w.someTask(w.open); ok && !w.up {
			delete(w.open, id)
		}
	case "again": // a coordinator that lies gives what was given and has ended, and may say that it knows the end
		if id, ok := w.someTask(w.over); ok {
			w.change(func(*session.Assignments) {}, session.Grant{Job: id.Job, Index: 7, Slots: []ledger.Slots{{First: id.Slot, N: 1, Attempt: id.Attempt}}})
		}
	case "break":
		w.disconnect()
	case "connect":
		w.connect()
	case "crash":
		w.disconnect()
		w.fate = func(taskstate.TaskID) fate { return fate(w.draw("fate", 0, 2)) }
		w.crash(w.draw("reached the disk", 0, 1) == 1)
		clear(w.over)
		w.broken = false
	case "detach":
		w.detach()
	case "term":
		w.disconnect()
		w.term++
	case "sick":
		w.broken = true
		w.step(Sick{errGrant})
	case "well":
		w.well()
	case "wait":
		w.wait()
	case "stage":
		w.stage([]StageReport{{Here: true}, {Message: "10 %"}, {Message: "20 %"}, {NoRoom: true, Message: "full"}}[w.draw("how far", 0, 3)])
	}
	w.hear()
	for id := range w.dropped {
		if slices.Contains(w.begunTasks(), id) {
			w.t.Fatalf("%v runs, though the worker gave its word that it never will", id)
		}
	}
	for _, s := range w.halted {
		if slices.Contains(w.begunTasks(), s.Task) {
			w.finish(s.Task, taskstate.Shutdown, s.Reason)
		}
	}
	w.halted = nil
}

func (w *worldOfOneWorker) well() {
	if w.broken {
		w.broken = false
		w.step(Sick{})
	}
}

// detach is an orderly restart: it costs no task.
func (w *worldOfOneWorker) detach() {
	w.well()
	halts := len(w.halted)
	w.step(Detach{})
	w.settle()
	w.deliver(false)
	w.settle()
	for _, s := range w.halted[halts:] { // what somebody cancelled may be stopped
		if s.Reason == taskstate.ReasonInterrupted {
			w.t.Fatalf("SIGTERM stopped %v", s)
		}
	}
	w.disconnect()
	w.fate = func(taskstate.TaskID) fate { return fateRuns }
	w.crash(true)
	clear(w.over)
	for id, h := range w.core.held.of {
		if h.status.Reason == taskstate.ReasonInterrupted && w.newestOf[id].Reason != taskstate.ReasonInterrupted && h.durable.Reason != taskstate.ReasonInterrupted {
			w.t.Fatalf("SIGTERM cost %v: %+v", id, h.status)
		}
	}
}

func TestWhateverHappensTheWorkerRunsEachTaskOnceAndTellsItsEnd(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &worldOfOneWorker{
			box: newBox(r), r: r, term: 1, next: 1, open: map[taskstate.TaskID]bool{},
			finals: map[taskstate.TaskID]taskstate.Status{}, newestOf: map[taskstate.TaskID]taskstate.Status{},
			dropped: map[taskstate.TaskID]bool{}, over: map[taskstate.TaskID]bool{},
		}
		w.gather = rapid.SampledFrom([]time.Duration{0, gatherEnds}).Draw(r, "gather")
		w.boot()
		for range rapid.IntRange(1, 150).Draw(r, "acts") {
			w.act()
		}
		w.calmDown()
	})
}

// calmDown ends the faults: everything must come to its end, and nothing be left anywhere.
func (w *worldOfOneWorker) calmDown() {
	w.well()
	w.disconnect()
	w.settle()
	w.connect()
	for range 1000 {
		w.deliver(true)
		w.save()
		w.publish()
		w.hear()
		for _, id := range w.begunTasks() {
			w.finish(id, taskstate.Complete, "")
		}
		w.stage(StageReport{Here: true})
		w.wait()
		w.hear()
		if len(w.open) == 0 && len(w.core.held.of) == 0 && len(w.downs) == 0 && w.txn == nil && !w.publishing {
			break
		}
	}
	if len(w.open) > 0 || len(w.core.held.of) > 0 {
		w.t.Fatalf("never over: in the ledger %v, held %v", w.open, w.core.held.all())
	}
	w.step(Stop{}) // writes what may be removed
	w.settle()
	if n := w.kv.Records(); n != 0 {
		w.t.Fatalf("%d records are left in the journal: %v", n, w.kv)
	}
	if len(w.core.frames.of) != 0 || len(w.core.outbox.unacked) != 0 {
		w.t.Fatalf("left in memory: %d frames, %d batches", len(w.core.frames.of), len(w.core.outbox.unacked))
	}
	if w.resyncs > w.gaps {
		w.t.Fatalf("asked for a Complete set %d times, for %d gaps", w.resyncs, w.gaps)
	}
}
