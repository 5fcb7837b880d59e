package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// Of a job with many slots the story tells each slot only up to so many; then those that did not
// simply complete, and then sums.
const (
	tellSlots = 20
	tellOdd   = 50
)

// Explain implements api.JobBackend.
func (v *View) Explain(ctx context.Context, id string) (api.Explanation, error) {
	job, slot, attempt, held, err := v.FindTask(ctx, id, v.Find)
	if err != nil {
		return api.Explanation{}, err
	}
	out := api.Explanation{AsOf: time.Now().UTC()}
	if held != nil {
		out.Spec = v.specOf(&held.Job)
		out.Explain = []api.Fact{
			{Time: stamp(held.Since), Kind: kindJob, State: "held", Text: "held on this peer's disk until there is a coordinator"},
			{Time: out.AsOf, Kind: "waiting", Reason: "no-coordinator", Text: v.Deciders.WhoIsMissing()},
		}
		return out, nil
	}
	t := explainer{view: v, id: job, slot: slot, attempt: attempt, now: v.now(), names: map[taskstate.PeerID]string{}, late: map[taskstate.TaskID]bool{}}
	if err := t.read(); err != nil {
		return api.Explanation{}, err
	}
	t.tellJob()
	t.tellChanges()
	t.tellSlots()
	t.tellNews()
	t.tellEnd()
	t.tellForgotten()
	t.tellWaiting(ctx)
	names := v.namesOf(job)
	for i := range t.facts {
		if id, err := taskstate.ParseTaskID(t.facts[i].Task); err == nil {
			t.facts[i].Named = names(id)
		}
	}
	slices.SortStableFunc(t.facts, func(a, b api.Fact) int { return a.Time.Compare(b.Time) })
	out.Explain, out.Spec = t.facts, v.specOf(t.job.job)
	return out, nil
}

// explainer gathers the facts of one story.
type explainer struct {
	view          *View
	id            taskstate.JobID
	slot, attempt int // 0 = all
	now           int64
	names         map[taskstate.PeerID]string

	job    jobFacts
	slots  []slotFacts
	late   map[taskstate.TaskID]bool // attempts given up whose end the ledger tells
	facts  []api.Fact
	visits []visit
}

// jobFacts are what the ledger holds about a job.
type jobFacts struct {
	job             *taskstate.Job
	accepted, ended int64
	by              taskstate.PeerID
	epoch           taskstate.Epoch
	cancelledAt     int64
	cancelReason    string
	cancelled, over bool
	state           taskstate.State
	counts          ledger.Counts
	exit            int
	contradictions  []ledger.Conflict
	untold          int
	completeOn      map[taskstate.PeerID]int
	openOn          map[taskstate.PeerID]int

	lasting bool
	rollout ledger.RolloutRecord
	runs    []runFacts // that its schedule started
	skips   []ledger.Skipped
	skipped int // how many it skipped, those in skips included
}

type slotFacts struct {
	ledger.SlotRecord
	past []ledger.PastAttempt
}

type visit struct {
	task     taskstate.TaskID
	peer     taskstate.PeerID
	from, to int64
	past     bool
}

// read takes everything the ledger knows.
func (t *explainer) read() (err error) {
	err = ErrNoJob(string(t.id))
	t.view.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(t.id)
		if !ok {
			return
		}
		err = nil
		f := &t.job
		f.job, f.accepted, f.state, f.counts = j.Job(), j.Accepted(), j.State(), j.Counts()
		f.by, f.epoch = j.AcceptedBy()
		f.cancelReason, f.cancelledAt, f.cancelled = j.Cancelled()
		f.ended, f.over = j.Ended()
		f.exit, f.contradictions = exitCode(j), j.Contradictions()
		f.lasting, f.rollout, f.runs = j.Lasts(), j.Rollout(), runsOf(s, t.id)
		f.skips, f.skipped = j.Skips()
		if t.slot > j.Slots() {
			err = api.Errorf(api.NotFound, "job %s has %d slots, no slot %d", t.id, j.Slots(), t.slot)
			return
		}
		t.pick(j)
		if t.attempt > 0 && !t.knows(t.slots[0]) {
			err = api.Errorf(api.NotFound, "slot %d of job %s has no attempt %d that is remembered; see `peer explain %s.slot=%d`", t.slot, t.id, t.attempt, t.id, t.slot)
		}
	})
	return err
}

func (t *explainer) knows(s slotFacts) bool {
	return s.Attempt == t.attempt || slices.ContainsFunc(s.past, func(p ledger.PastAttempt) bool { return p.Attempt == t.attempt })
}

// pick chooses the slots that are told one by one.
func (t *explainer) pick(j *ledger.JobRecord) {
	tell := func(n int) {
		s := slotFacts{j.Slot(n), j.Past(n)}
		t.slots = append(t.slots, s)
		for _, p := range s.past {
			if p.Late != nil || p.End != nil || s.Final != nil && s.Attempt == p.Attempt {
				t.late[taskstate.Task(t.id, n, p.Attempt)] = true
			}
		}
	}
	if t.slot > 0 {
		tell(t.slot)
		return
	}
	t.job.completeOn, t.job.openOn = map[taskstate.PeerID]int{}, map[taskstate.PeerID]int{}
	for n := 1; n <= j.Slots(); n++ {
		r := j.Slot(n)
		plain := r.Pending() || r.Open || r.Final.State == taskstate.Complete || r.Peer == ""
		switch {
		case j.Slots() <= tellSlots, len(t.slots) < tellOdd && (!plain || len(j.Past(n)) > 0):
			tell(n)
		case r.Final != nil && r.Final.State == taskstate.Complete:
			t.job.completeOn[r.Peer]++
		case !plain || len(j.Past(n)) > 0:
			t.job.untold++
		case r.Open:
			t.job.openOn[r.Peer]++
		}
	}
}

func (t *explainer) name(peer taskstate.PeerID) string {
	if peer == "" {
		return "nobody"
	}
	name, ok := t.names[peer]
	if !ok {
		name = t.view.Who.Called(peer)
		t.names[peer] = name
	}
	return name
}

func (t *explainer) add(at int64, f api.Fact) {
	f.Time = stamp(at)
	if f.Peer != "" {
		f.PeerName = t.name(f.Peer)
	}
	t.facts = append(t.facts, f)
}

func (t *explainer) tellJob() {
	f := &t.job
	text := fmt.Sprintf("accepted through %s", t.name(f.job.Submitter))
	if f.by != "" {
		text += fmt.Sprintf(", by coordinator %s in epoch %s", t.name(f.by), f.epoch)
	}
	if o := f.job.Origin; o != nil {
		text = fmt.Sprintf("started by the schedule of job %s for %s, by coordinator %s", o.Job, spell.Minute(o.At), t.name(f.by))
	}
	t.add(f.accepted, api.Fact{Kind: kindJob, State: "accepted", Peer: f.job.Submitter, Text: text})
	if f.cancelled {
		t.add(f.cancelledAt, api.Fact{Kind: kindJob, State: "cancelled", Reason: f.cancelReason, Text: strings.TrimSpace("cancelled " + f.cancelReason)})
	}
	for _, c := range f.contradictions {
		if t.slot > 0 && (c.Slot != t.slot || t.attempt > 0 && c.Attempt != t.attempt) {
			continue
		}
		t.add(c.At, api.Fact{
			Kind: kindTask, Task: taskstate.Task(t.id, c.Slot, c.Attempt).String(), Peer: c.Peer, State: c.State.String(), Reason: "conflict",
			Text: fmt.Sprintf("a second end came from %s: %s; the first one stands", t.name(c.Peer), taskstate.Shown(c.State.String())),
		})
	}
}

func (t *explainer) tellEnd() {
	f := &t.job
	if f.over {
		code := f.exit
		t.add(f.ended, api.Fact{
			Kind: kindJob, State: f.state.String(), ExitCode: &code,
			Text: fmt.Sprintf("the job is over: %s; exit code %d", t.sums(), code),
		})
	}
}

func (t *explainer) sums() string {
	c := t.job.counts
	var parts []string
	for _, x := range []struct {
		n    int
		what taskstate.State
	}{
		{c.Pending, taskstate.Pending},
		{c.Open, taskstate.Assigned},
		{c.Complete, taskstate.Complete},
		{c.Failed, taskstate.Failed},
		{c.Rejected, taskstate.Rejected},
		{c.Shutdown, taskstate.Shutdown},
		{c.Orphaned, taskstate.Orphaned},
	} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", x.n, taskstate.Shown(x.what.String())))
		}
	}
	if c.Retired > 0 {
		parts = append(parts, fmt.Sprintf("%d not wanted any more", c.Retired))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}

// tellWaiting tells what the coordinator knows about why the job waited, and waits. Of one that is
// over it is asked only if tasks were cancelled, maybe for that: others had room in the end.
func (t *explainer) tellWaiting(ctx context.Context) {
	if t.job.over && !t.job.cancelled {
		return
	}
	f := t.view.AskCluster(ctx, t.id)
	if f == nil && t.job.over {
		return
	}
	if f == nil {
		t.add(t.now, api.Fact{Kind: "waiting", Reason: "no-coordinator", Text: t.view.Deciders.WhoIsMissing()})
		return
	}
	for _, w := range f.Waited {
		began := "some tasks wait since then: "
		if w.To != 0 {
			began = fmt.Sprintf("some tasks waited (for %s): ", stamp(w.To).Sub(stamp(w.From)))
		}
		t.add(w.From, api.Fact{Kind: "waiting", Reason: w.Reason, Text: began + w.Reason})
	}
	if t.job.over {
		return
	}
	t.tellTroubles(f)
	if f.Waiting != "" {
		t.add(t.now, api.Fact{Kind: "waiting", Reason: f.Waiting, Text: "waits now: " + f.Waiting})
	}
}

func (t *explainer) tellTroubles(f *calls.ClusterView) {
	for _, p := range f.Peers {
		_, has := t.job.openOn[p.ID]
		for _, s := range t.slots {
			has = has || s.Open && s.Peer == p.ID
		}
		if !has {
			continue
		}
		said := calls.TroublesOf(p.Troubles)
		if p.ID != t.view.cfg.Self {
			said = troubles.CommandsTypedThere(said)
		}
		for _, x := range said {
			t.add(t.now, api.Fact{Kind: kindPeer, Peer: p.ID, State: "trouble", Reason: x.Code, Text: t.name(p.ID) + ": " + x.Message})
		}
	}
}
