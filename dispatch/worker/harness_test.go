package worker

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memjournal"
)

const (
	benchPeer = taskstate.PeerID("wren")
	benchLife = taskstate.Incarnation("first-life")
	jobNoop   = taskstate.JobID("noop222222")
	jobWork   = taskstate.JobID("work222222")
	jobOnce   = taskstate.JobID("once222222")
	jobWide   = taskstate.JobID("wide222222")
	jobPair   = taskstate.JobID("pair222222")
	jobKeep   = taskstate.JobID("keep222222")
	jobFed    = taskstate.JobID("fed2222222")
	jobFedOne = taskstate.JobID("fedonce222")
)

// workerEpochBegin is when virtual workers start to live.
var workerBirth = time.UnixMilli(1_700_000_000_000)

// testJob is one of these jobs: no-ops that promise nothing, work of one cpu, work of one cpu that
// must not run twice, work that needs all memory and no cpu, work of two cpus, work of one cpu
// whose files are kept; and work of one cpu that has inputs, which may run twice or must not.
func testJob(id taskstate.JobID) taskstate.Job {
	j := taskstate.Job{ID: id, Type: taskstate.BatchJob, Count: 1_000_000, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	switch id {
	case jobNoop:
	case jobWide:
		j.Resources.Memory = 1 << 30
	case jobPair:
		j.Resources.MilliCPU = 2000
	default:
		j.Resources.MilliCPU = 1000
	}
	if id == jobKeep {
		j.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
	}
	if id == jobFed || id == jobFedOne {
		j.Inputs = []taskstate.Input{{Name: "in"}}
	}
	j.Unreachable.Wait = id == jobOnce || id == jobFedOne
	return j
}

func testOffer() session.Offer {
	return session.Offer{Resources: taskstate.Resources{MilliCPU: 2000, Memory: 1 << 30}}
}

func testOwner() journal.Owner {
	return journal.Owner{Format: journal.Format, Peer: benchPeer, Incarnation: benchLife}
}

func testHead() journal.Head { return journal.Head{Owner: testOwner()} }

// fataler is what a harness needs of testing.TB and rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// box drives a core: it carries out effects at the moments a test chooses, and checks what must
// hold at every one of them.
type box struct {
	t      fataler
	kv     memjournal.Journal
	core   *Core
	now    time.Time
	stream uint64

	gather time.Duration // of the core, from its next start on

	txn        *journal.Txn // under way
	publishing bool
	ups        []session.Up // sent on the open stream, not yet taken by the test
	ended      []End
	published  map[uint64][]byte
	running    map[taskstate.TaskID]taskstate.Launch
	saving     map[taskstate.TaskID]taskstate.RunReport // their processes have ended so, which the core knows
	savedOnce  map[taskstate.TaskID]taskstate.RunReport // as saving, over restarts, and also when they are over
	placing    map[taskstate.TaskID]bool                // of which the runner said no more than that it places their inputs
	untold     map[taskstate.TaskID]bool                // among running: their processes have ended, which the core is about to hear again
	started    map[taskstate.TaskID]int                 // in this incarnation, over restarts
	halted     []session.Stop
	kept       map[taskstate.TaskID]bool   // the runner may forget their ends
	begun      []taskstate.Launch          // handed to the runner at the last start
	fate       func(taskstate.TaskID) fate // what a restart finds of what ran; nil: nothing
	lastBatch  uint64                      // highest number made durable
	stages     []taskstate.JobID           // whose inputs are asked for, in this process
	here       map[taskstate.JobID]bool    // whose inputs are here
}

// fate is what a runner finds of a task after a restart.
type fate int

const (
	fateLost fate = iota
	fateRuns
	fateEnded // meanwhile, and its exit is known
)

func newBox(t fataler) *box {
	kv, err := memjournal.New(testOwner())
	if err != nil {
		t.Fatalf("%v", err)
	}
	b := &box{
		t: t, kv: kv, now: workerBirth,
		published: map[uint64][]byte{}, started: map[taskstate.TaskID]int{}, kept: map[taskstate.TaskID]bool{},
		savedOnce: map[taskstate.TaskID]taskstate.RunReport{}, placing: map[taskstate.TaskID]bool{},
	}
	b.boot()
	return b
}

// boot starts a process on what the journal holds.
func (b *box) boot() {
	b.t.Helper()
	img, err := journal.Load(b.kv, testOwner())
	if err != nil {
		b.t.Fatalf("the journal does not load: %v", err)
	}
	b.stages, b.here = nil, map[taskstate.JobID]bool{}
	b.txn, b.publishing, b.ups, b.running = nil, false, nil, map[taskstate.TaskID]taskstate.Launch{}
	b.saving, b.untold = map[taskstate.TaskID]taskstate.RunReport{}, map[taskstate.TaskID]bool{}
	b.core, b.begun = NewCore(benchPeer, benchLife, testOffer(), img, b.now)
	b.core.outbox.gather = b.gather
	b.stream += 10
}

// crash ends the process; the transaction under way may or may not have reached the disk.
func (b *box) crash(reached bool) {
	b.t.Helper()
	if b.txn != nil && reached {
		b.write()
	}
	running, saving := b.running, b.saving
	b.boot()
	for id := range running {
		if !slices.ContainsFunc(b.begun, func(l taskstate.Launch) bool { return l.Task == id }) {
			b.t.Fatalf("%v ran when the process ended, and is not asked for", id)
		}
	}
	for id := range saving {
		if !slices.ContainsFunc(b.begun, func(l taskstate.Launch) bool { return l.Task == id }) {
			b.t.Fatalf("%v was being saved when the process ended, and is not asked for", id)
		}
	}
	b.adopt(running, saving)
	b.step(Published{})
}

// adopt is the runner's side of a restart: what really ran when the last process ended, and what
// was being saved.
func (b *box) adopt(ran map[taskstate.TaskID]taskstate.Launch, saved map[taskstate.TaskID]taskstate.RunReport) {
	b.t.Helper()
	var lost []taskstate.Loss
	var over []taskstate.RunReport
	for _, l := range b.begun {
		what := fateLost
		ended, was := saved[l.Task]
		if l.Ended != nil { // also if it was over, and the disk does not know
			if ended, was = b.savedOnce[l.Task]; !was || *l.Ended != ended {
				b.t.Fatalf("%v is said to have ended as %+v; it was saved: %v, as %+v", l.Task, *l.Ended, was, ended)
			}
		}
		if _, ok := ran[l.Task]; (ok || was) && b.fate != nil {
			what = b.fate(l.Task)
		}
		switch {
		case was && what != fateLost && l.Ended != nil: // it is saved on
			b.saving[l.Task] = ended
			continue
		case was && what != fateLost: // the runner tells again how its process ended
			b.running[l.Task], b.untold[l.Task] = l, true
			over = append(over, ended)
			continue
		}
		switch what {
		case fateRuns:
			b.running[l.Task] = l
		case fateEnded:
			b.running[l.Task] = l // until the report is taken in
			over = append(over, taskstate.RunReport{Task: l.Task, State: taskstate.Failed, Exit: 7, Reason: taskstate.ReasonExit})
		default:
			if b.fate != nil && b.placing[l.Task] { // the runner knows that its process never began
				delete(b.started, l.Task)
			}
			lost = append(lost, taskstate.Loss{Task: l.Task, Never: b.fate != nil && b.started[l.Task] == 0})
		}
	}
	b.step(Adopted{lost})
	for _, r := range over {
		delete(b.untold, r.Task)
		if delete(b.running, r.Task); r.State == taskstate.Saving {
			b.saving[r.Task] = r
		}
	}
	if len(over) > 0 {
		b.step(Ran{over})
	}
}

func (b *box) step(ev Event) {
	b.t.Helper()
	b.now = b.now.Add(time.Millisecond)
	for _, e := range b.core.Step(ev, b.now) {
		b.effect(e)
	}
	b.checkPromises()
}

func (b *box) effect(e Effect) {
	b.t.Helper()
	switch e := e.(type) {
	case Send:
		b.ups = append(b.ups, e.Frame)
		if e.Frame.Batch != nil {
			b.checkJournaled(e.Frame.Batch)
		}
	case End:
		b.ended = append(b.ended, e)
	case Save:
		if b.txn != nil {
			b.t.Fatalf("two transactions at once")
		}
		b.txn = e.Txn
	case Publish:
		if b.publishing {
			b.t.Fatalf("two publications at once")
		}
		b.publishing = true
		for _, env := range e.Envelopes {
			b.checkJournaled(env)
		}
	case Start:
		id := e.Launch.Task
		if b.core.exhaustion.resting(b.now) {
			b.t.Fatalf("%v was started while the worker rests", id)
		}
		if b.started[id]++; b.started[id] > 1 {
			b.t.Fatalf("%v was started twice in one incarnation", id)
		}
		if len(e.Launch.Job.Inputs) > 0 && !b.here[id.Job] {
			b.t.Fatalf("%v starts without its inputs", id)
		}
		b.running[id] = e.Launch
	case Stage:
		b.stages = append(b.stages, e.Job.ID)
	case Halt:
		_, runs := b.running[e.Stop.Task]
		if _, saves := b.saving[e.Stop.Task]; !runs && !saves {
			b.t.Fatalf("%v is stopped, and neither runs nor is saved", e.Stop.Task)
		}
		b.halted = append(b.halted, e.Stop)
	case Kept:
		for _, id := range e.Tasks {
			if h := b.core.held.of[id]; h == nil || !h.durable.State.Final() {
				b.t.Fatalf("the end of %v is not on disk", id)
			}
			b.kept[id] = true
		}
	}
}

// checkPromises is I10: what runs never promises more than the peer offers.
func (b *box) checkPromises() {
	b.t.Helper()
	var sum, really taskstate.Resources
	for _, l := range b.running {
		sum = sum.Add(l.Job.Resources)
		if !b.untold[l.Task] {
			really = really.Add(l.Job.Resources)
		}
	}
	if !really.Fits(testOffer().Resources) {
		b.t.Fatalf("promised %+v of %+v", really, testOffer().Resources)
	}
	if sum != b.core.held.used {
		b.t.Fatalf("the core counts %+v as used, %+v is", b.core.held.used, sum)
	}
	// A wake that time does not use up would have the shell ask again and again.
	if w := b.core.wake; !w.IsZero() && (!w.After(b.now) || b.txn != nil) {
		b.t.Fatalf("it is %v, a transaction is under way: %v, and the core wants to be woken at %v", b.now, b.txn != nil, w)
	}
}

// wait lets time pass until the core wants to be woken, if it does.
func (b *box) wait() {
	b.t.Helper()
	if w := b.core.wake; !w.IsZero() {
		if w.After(b.now) {
			b.now = w
		}
		b.step(nil)
	}
}

// checkJournaled holds every batch that leaves against the disk: it is there, word for word.
func (b *box) checkJournaled(env []byte) {
	b.t.Helper()
	batch, err := taskstate.DecodeBatch(env)
	if err != nil {
		b.t.Fatalf("a batch left that cannot be read: %v", err)
	}
	if batch.Number > b.lastBatch {
		b.t.Fatalf("batch %d left, and the disk knows %d", batch.Number, b.lastBatch)
	}
	if was, ok := b.published[batch.Number]; ok && !bytes.Equal(was, env) {
		b.t.Fatalf("batch %d was said in two ways", batch.Number)
	}
	b.published[batch.Number] = env
}

// write puts the transaction under way on the disk.
func (b *box) write() {
	b.t.Helper()
	for _, s := range b.txn.Batches {
		if s.Number != b.lastBatch+1 {
			b.t.Fatalf("batch %d follows %d", s.Number, b.lastBatch)
		}
		b.lastBatch++
		body, err := taskstate.EncodeBatch(taskstate.Batch{Author: benchPeer, Incarnation: benchLife, Number: s.Number, Statuses: s.Statuses})
		if err != nil {
			b.t.Fatalf("batch %d: %v", s.Number, err)
		}
		s.Body, s.Envelope = body, body
	}
	if err := b.txn.Apply(b.kv); err != nil {
		b.t.Fatalf("journal: %v", err)
	}
	if _, err := journal.Load(b.kv, testOwner()); err != nil {
		b.t.Fatalf("the journal no longer loads: %v", err)
	}
}

// save completes the transaction under way.
func (b *box) save() {
	b.t.Helper()
	if b.txn == nil {
		return
	}
	b.write()
	b.txn = nil
	b.step(Saved{})
}

// settle completes transactions and publications until none is left.
func (b *box) settle() {
	b.t.Helper()
	for i := 0; b.txn != nil || b.publishing; i++ {
		if i > 10_000 {
			b.t.Fatalf("the core never comes to rest")
		}
		b.save()
		b.publish()
	}
}

func (b *box) publish() {
	b.t.Helper()
	if b.publishing {
		b.publishing = false
		b.step(Published{})
	}
}

// open brings a stream up and returns the greeting.
func (b *box) open() {
	b.t.Helper()
	b.stream++
	b.ups = nil
	b.step(Opened{b.stream})
}

func (b *box) down(d session.Down) {
	b.t.Helper()
	if d.Welcome != nil { // of one that was there before
		d.Welcome.Highest = max(d.Welcome.Highest, b.core.state.Acked)
	}
	b.step(Frame{Stream: b.stream, Down: &d})
}

// session opens a stream and is welcomed in epoch 1/term with a Complete set of grants.
func (b *box) session(term uint64, grants ...session.Grant) {
	b.t.Helper()
	b.open()
	b.down(welcomeIn(term))
	b.settle()
	b.ups = nil
	b.down(setOf(true, term, 0, 1, grants...))
	b.settle()
}

func welcomeIn(term uint64) session.Down {
	return session.Down{Welcome: &session.Welcome{Session: fmt.Sprint("s", term), Epoch: taskstate.At(1, term), Beat: 1000, Grace: 3000}}
}

func setOf(complete bool, term, from, to uint64, grants ...session.Grant) session.Down {
	a := &session.Assignments{Complete: complete, AppliesTo: from, ResultsIn: to, Epoch: taskstate.At(1, term), Grants: grants}
	for _, g := range grants {
		if !slices.ContainsFunc(a.Jobs, func(j taskstate.Job) bool { return j.ID == g.Job }) {
			a.Jobs = append(a.Jobs, testJob(g.Job))
		}
	}
	return session.Down{Assignments: a}
}

func grantOf(job taskstate.JobID, first, n int) session.Grant {
	return session.Grant{Job: job, Index: 7, Slots: []ledger.Slots{{First: first, N: n, Attempt: 1}}}
}

// ends reports the end of a running task.
func (b *box) finish(id taskstate.TaskID, state taskstate.State, why taskstate.Reason) {
	b.t.Helper()
	r := taskstate.RunReport{Task: id, State: state, Reason: why, At: b.now.UnixMilli()}
	if ended, ok := b.saving[id]; ok { // its process's end stays as it was, and now there are copies
		r.Exit, r.Took = ended.Exit, ended.Took
		r.Saved = &taskstate.Saved{Bytes: 9, Files: 1, Keepers: []taskstate.PeerID{benchPeer}, Keep: 2, Why: "nobody else is here"}
	}
	delete(b.running, id)
	delete(b.saving, id)
	b.step(Ran{[]taskstate.RunReport{r}})
}

// saves reports that the process of a running task has ended and what it left is being kept.
func (b *box) saves(id taskstate.TaskID, exit int) {
	b.t.Helper()
	r := taskstate.RunReport{Task: id, State: taskstate.Saving, Exit: exit, At: b.now.UnixMilli(), Took: 20}
	delete(b.running, id)
	b.saving[id], b.savedOnce[id] = r, r
	b.step(Ran{[]taskstate.RunReport{r}})
}

// stage says of the first job whose inputs were asked for how far they are.
func (b *box) stage(r StageReport) {
	b.t.Helper()
	if len(b.stages) == 0 {
		return
	}
	r.Job = b.stages[0]
	if r.Here || r.NoRoom {
		b.stages = b.stages[1:]
	}
	b.here[r.Job] = b.here[r.Job] || r.Here
	b.step(Staged{[]StageReport{r}})
}

// places reports how far the inputs of a started task are placed.
func (b *box) places(id taskstate.TaskID, message string) {
	b.t.Helper()
	b.placing[id] = true
	b.step(Ran{[]taskstate.RunReport{{Task: id, State: taskstate.Starting, Exit: taskstate.NoExit, Message: message}}})
}

func (b *box) runs(id taskstate.TaskID) {
	b.t.Helper()
	delete(b.placing, id)
	b.step(Ran{[]taskstate.RunReport{{Task: id, State: taskstate.Running, Exit: taskstate.NoExit}}})
}

// said lists the statuses of all batches sent on the stream since it was last asked.
func (b *box) said() []taskstate.Status {
	b.t.Helper()
	var all []taskstate.Status
	for _, u := range b.ups {
		if u.Batch == nil {
			continue
		}
		batch, err := taskstate.DecodeBatch(u.Batch)
		if err != nil {
			b.t.Fatalf("%v", err)
		}
		all = append(all, batch.Statuses...)
	}
	b.ups = slices.DeleteFunc(b.ups, func(u session.Up) bool { return u.Batch != nil })
	return all
}

// sorted lists running tasks in order.
func (b *box) sorted() []taskstate.TaskID {
	return slices.SortedFunc(maps.Keys(b.running), taskstate.TaskID.Compare)
}

// begunTasks lists what runs or is being saved, in order.
func (b *box) begunTasks() []taskstate.TaskID {
	ids := slices.AppendSeq(slices.Collect(maps.Keys(b.running)), maps.Keys(b.saving))
	slices.SortFunc(ids, taskstate.TaskID.Compare)
	return ids
}
