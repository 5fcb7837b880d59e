package ledger_test

import (
	"fmt"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// dumb is the ledger state written for the reader: every slot is a struct in a slice, nothing is
// shared, counted or kept sorted. The real State is held against it.
type dumb struct {
	index   uint64
	stamp   int64
	by      string
	epoch   taskstate.Epoch
	members map[string]*dumbMember
	jobs    []*dumbJob
}

type dumbMember struct {
	inc           taskstate.Incarnation
	left, removed bool
	avail         ledger.Availability
	labels        map[string]string // "" as a value: taken away
}

type dumbJob struct {
	job       taskstate.Job
	cancelled bool
	reason    string
	at, ended int64
	slots     []dumbSlot
	twice     []string // ends that contradict others
	by        string

	dumbLasting
}

type dumbSlot struct {
	attempt int
	open    bool
	peer    string
	inc     taskstate.Incarnation
	index   uint64
	final   *taskstate.Status
	since   int64
	past    []dumbPast

	version, next    int
	leaving, retired bool
	reason           taskstate.Reason
	notBefore        int64
	pin              string
	history          taskstate.History
}

type dumbPast struct {
	dumbSlot
	till int64
	why  taskstate.Reason
	late *taskstate.Status
	at   int64             // of late
	end  *taskstate.Status // it was not given up
}

func newDumb() *dumb { return &dumb{members: map[string]*dumbMember{}} }

func (d *dumb) job(id taskstate.JobID) *dumbJob {
	for _, j := range d.jobs {
		if j.job.ID == id {
			return j
		}
	}
	return nil
}

func (d *dumb) apply(e ledger.Entry) {
	if e.Epoch.Less(d.epoch) {
		return
	}
	if d.epoch.Less(e.Epoch) {
		d.by = e.By
	}
	d.index, d.epoch, d.stamp = e.Index, e.Epoch, max(d.stamp, e.Stamp)
	for _, c := range e.Commands {
		d.command(e.Index, c)
		d.settleDown()
	}
}

func (d *dumb) command(index uint64, c ledger.Command) {
	switch {
	case c.Admit != nil:
		if d.members[c.Admit.Entry.Peer] == nil { // the histories never invite a removed peer again
			d.members[c.Admit.Entry.Peer] = &dumbMember{labels: map[string]string{}}
		}
	case c.Register != nil:
		if m := d.members[c.Register.Peer]; m != nil && !m.removed {
			if m.inc != c.Register.Incarnation {
				d.giveUpAll(c.Register.Peer)
			}
			m.inc, m.left = c.Register.Incarnation, false
		}
	case c.Depart != nil:
		if m := d.members[c.Depart.Peer]; m != nil && !m.removed && !m.left {
			m.left = true
			d.giveUpAll(c.Depart.Peer)
		}
	case c.Remove != nil:
		if m := d.members[c.Remove.Peer]; m != nil && !m.removed {
			m.removed = true
			d.giveUpAll(c.Remove.Peer)
		}
	case c.Submit != nil:
		d.submit(c.Submit.Job)
	case c.Cancel != nil:
		d.cancel(c.Cancel)
	case c.Assign != nil:
		d.assign(index, c.Assign)
	case c.Settle != nil:
		for _, st := range c.Settle.Statuses {
			d.settle(c.Settle, st)
			d.settleDown()
		}
	case c.Supersede != nil:
		if s := d.slot(c.Supersede.Task); s != nil && s.open {
			d.giveUp(d.job(c.Supersede.Task.Job), s, c.Supersede.Task.Slot, c.Supersede.Reason, c.Supersede.Again)
		}
	default:
		d.lasting(c)
	}
}

func (d *dumb) settle(c *ledger.Settle, st taskstate.Status) {
	s := d.slot(st.Task)
	if s == nil && st.State.Final() {
		d.settleLate(c, st)
	}
	if s == nil || s.peer != c.Peer || s.inc != c.Incarnation || !st.State.Final() {
		return
	}
	st.Index = s.index
	switch {
	case s.open:
		d.conclude(d.job(st.Task.Job), s, d.job(st.Task.Job).kept(st))
	case s.final != nil && !sameEnd(*s.final, d.job(st.Task.Job).kept(st)):
		j := d.job(st.Task.Job)
		j.twice = append(j.twice, fmt.Sprintf("%d.%d %s %s at %d", st.Task.Slot, st.Task.Attempt, c.Peer, st.State, d.stamp))
	}
}

// settleLate takes the end of an attempt that its slot has left behind.
func (d *dumb) settleLate(c *ledger.Settle, st taskstate.Status) {
	j := d.job(st.Task.Job)
	if j == nil || st.Task.Slot < 1 || st.Task.Slot > len(j.slots) {
		return
	}
	s := &j.slots[st.Task.Slot-1]
	for i := range s.past {
		p := &s.past[i]
		switch {
		case p.attempt != st.Task.Attempt || p.peer != c.Peer || p.inc != c.Incarnation:
			continue
		case p.end != nil:
			st.Index = p.index
			if st.Saved = nil; !sameEnd(*p.end, st) {
				j.twice = append(j.twice, fmt.Sprintf("%d.%d %s %s at %d", st.Task.Slot, st.Task.Attempt, c.Peer, st.State, d.stamp))
			}
		case s.final == nil && st.State == taskstate.Complete && !j.job.Type.Lasts():
			was := *s
			st = j.kept(st)
			st.Index = p.index
			*s = dumbSlot{
				retired: s.retired, reason: s.reason, attempt: p.attempt, peer: p.peer, inc: p.inc, index: p.index, since: p.since, final: &st, past: s.past,
			}
			if was.open {
				s.leave(was, d.stamp, taskstate.ReasonOvertaken)
			}
		case p.late == nil:
			p.late, p.at = &st, d.stamp
		case p.late.State != st.State || p.late.At != st.At:
			j.twice = append(j.twice, fmt.Sprintf("%d.%d %s %s at %d", st.Task.Slot, st.Task.Attempt, c.Peer, st.State, d.stamp))
		}
		return
	}
}

// kept is the end as its job has it: what is kept of files is nobody's business where a job says
// nothing of files.
func (j *dumbJob) kept(st taskstate.Status) taskstate.Status {
	if j.job.Outputs == nil || j.job.Type.Lasts() {
		st.Saved = nil
	}
	return st
}

// sameEnd tells whether two ends say the same: who keeps what was left may change later.
func sameEnd(a, b taskstate.Status) bool {
	same := a.Saved.Same(b.Saved)
	a.Saved, b.Saved = nil, nil
	return same && a == b
}

// spelled spells an end.
func spelled(st taskstate.Status) string {
	kept := st.Saved
	st.Saved = nil
	if kept == nil {
		return fmt.Sprintf(" %+v", st)
	}
	return fmt.Sprintf(" %+v keeps %+v", st, *kept)
}

// leave remembers an attempt that does not count.
func (s *dumbSlot) leave(was dumbSlot, at int64, why taskstate.Reason) {
	s.leaveWith(was, at, why, nil)
}

// leaveWith remembers an attempt that had an end, too.
func (s *dumbSlot) leaveWith(was dumbSlot, at int64, why taskstate.Reason, end *taskstate.Status) {
	if was.past = nil; end != nil { // of what is behind nobody remembers what was kept
		plain := *end
		plain.Saved, end = nil, &plain
	}
	s.past = append(slices.Clone(s.past), dumbPast{dumbSlot: was, till: at, why: why, end: end})
	s.past = s.past[max(0, len(s.past)-ledger.KeepPast):]
}

// slot finds the slot of a task if that is the slot's newest attempt.
func (d *dumb) slot(t taskstate.TaskID) *dumbSlot {
	j := d.job(t.Job)
	if j == nil || t.Slot < 1 || t.Slot > len(j.slots) || j.slots[t.Slot-1].attempt != t.Attempt {
		return nil
	}
	return &j.slots[t.Slot-1]
}

func (d *dumb) cancel(c *ledger.Cancel) {
	if j := d.job(c.Job); j != nil && !j.cancelled && !j.over {
		d.stop(j, taskstate.ReasonCancelled, c.Reason)
	}
}

func (d *dumb) assign(index uint64, a *ledger.Assign) {
	m := d.members[a.Peer]
	j := d.job(a.Job)
	if m == nil || m.removed || m.left || m.inc != a.Incarnation || m.avail != "" || j == nil || len(j.blocked) > 0 {
		return
	}
	for _, r := range a.Slots {
		for n := range r.All() {
			s := d.slot(taskstate.Task(a.Job, n, r.Attempt))
			if s != nil && !s.open && s.final == nil && s.version == a.Version && (s.pin == "" || s.pin == a.Peer) {
				s.notBefore, s.open, s.peer, s.inc, s.index, s.since = 0, true, a.Peer, a.Incarnation, index, d.stamp
			}
		}
	}
}

func (d *dumb) giveUpAll(peer string) {
	for _, j := range d.jobs {
		for i := range j.slots {
			if s := &j.slots[i]; s.open && s.peer == peer {
				d.giveUp(j, s, i+1, taskstate.ReasonInterrupted, !j.job.Unreachable.Wait)
			}
		}
	}
}

func (d *dumb) giveUp(j *dumbJob, s *dumbSlot, n int, why taskstate.Reason, again bool) {
	st := taskstate.Status{
		Task: taskstate.Task(j.job.ID, n, s.attempt), State: taskstate.Orphaned, Index: s.index, At: d.stamp,
		Exit: taskstate.NoExit, Reason: why,
	}
	switch {
	case !j.cancelled && !s.retired && (again || s.leaving && !j.job.Unreachable.Wait):
		s.again(j, d.stamp, why, nil)
		return
	case again && j.cancelled:
		st.State, st.Reason, st.Message = taskstate.Shutdown, j.why, j.reason
	case again:
		st.State, st.Reason = taskstate.Shutdown, s.reason
	}
	s.rest(st)
	d.settleDown()
}

// show writes down all a person could ask about the jobs, to be compared.
func (d *dumb) show() string {
	out := ""
	for _, j := range d.jobs {
		out += fmt.Sprintf("job %s by %s cancelled %t ended %d\n", j.job.ID, j.by, j.cancelled, j.ended)
		out += j.more()
		out += fmt.Sprintf("  twice %d %v\n", len(j.twice), j.twice[max(0, len(j.twice)-ledger.KeepConflicts):])
		for i, s := range j.slots {
			out += fmt.Sprintf("  %d.%d open %t %s/%s %d", i+1, s.attempt, s.open, s.peer, s.inc, s.index)
			if s.final != nil {
				out += spelled(*s.final)
			}
			out += s.more() + " past"
			for _, p := range s.past {
				out += fmt.Sprintf(" %d/%d on %s/%s@%d %d to %d: %s", p.attempt, p.version, p.peer, p.inc, p.index, p.since, p.till, p.why)
				if p.end != nil {
					out += fmt.Sprintf(" ended %+v", *p.end)
				}
				if p.late != nil {
					out += fmt.Sprintf(" late %s %d at %d heard %d", p.late.State, p.late.Exit, p.late.At, p.at)
				}
			}
			out += "\n"
		}
	}
	for _, p := range slices.Sorted(slices.Values([]string{"p1", "p2", "p3"})) {
		out += d.members[p].more() + "open on " + p
		for _, j := range d.jobs {
			for i, s := range j.slots {
				if s.open && s.peer == p {
					out += " " + taskstate.Task(j.job.ID, i+1, s.attempt).String()
				}
			}
		}
		out += "\n"
	}
	return out
}

// show does the same for the real thing.
func show(s *ledger.State) string {
	out := ""
	for _, j := range slices.Backward(slices.Collect(s.Jobs())) {
		_, _, cancelled := j.Cancelled()
		at, _ := j.Ended()
		by, epoch := j.AcceptedBy()
		out += fmt.Sprintf("job %s by %s %s cancelled %t ended %d\n", j.Job().ID, by, epoch, cancelled, at)
		out += moreOf(j)
		var twice []string
		for _, c := range j.Contradictions() {
			twice = append(twice, fmt.Sprintf("%d.%d %s %s at %d", c.Slot, c.Attempt, c.Peer, c.State, c.At))
		}
		out += fmt.Sprintf("  twice %d %v\n", j.Conflicts(), twice)
		for n := 1; n <= j.Slots(); n++ {
			r := j.Slot(n)
			out += fmt.Sprintf("  %d.%d open %t %s/%s %d", n, r.Attempt, r.Open, r.Peer, r.Incarnation, r.Index)
			if r.Final != nil {
				if r.Final.Reason == taskstate.ReasonAfter {
					r.Final.Message = "" // the twin does not say it
				}
				out += spelled(*r.Final)
			}
			out += moreOfSlot(r) + " past" + pastOf(j, n)
			out += "\n"
		}
	}
	for _, p := range []string{"p1", "p2", "p3"} {
		m, _ := s.Member(p)
		out += moreOfMember(m) + "open on " + p
		for t := range s.OpenOn(p) {
			out += " " + t.String()
		}
		out += "\n"
	}
	return out
}

func pastOf(j *ledger.JobRecord, n int) (out string) {
	for _, p := range j.Past(n) {
		out += fmt.Sprintf(" %d/%d on %s/%s@%d %d to %d: %s", p.Attempt, p.Version, p.Peer, p.Incarnation, p.Index, p.AssignedAt, p.GivenUpAt, p.Reason)
		if p.End != nil {
			out += fmt.Sprintf(" ended %+v", *p.End)
		}
		if l := p.Late; l != nil {
			out += fmt.Sprintf(" late %s %d at %d heard %d", l.State, l.Exit, l.At, l.Heard)
		}
	}
	return out
}

func entryFor(peer string, roles ...admission.Role) admission.Entry {
	return admission.Entry{Cluster: "c", Peer: peer, Name: peer, Roles: roles, By: "p1"}
}
