package worker

import (
	"errors"
	"fmt"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// opened greets the coordinator: Hello, then, as soon as it is known, everything held, each task
// with the newest status that is on disk.
func (c *Core) opened(stream uint64) {
	c.stream.close(c.stream.id)
	if c.lost != "" {
		return // nobody is to hear of it any more
	}
	c.stream = openStream{id: stream, session: c.stream.session, pass: c.stream.pass}
	c.bodies.trim(0, 0)
	for _, h := range c.held.of { // what was said in the session before may not have been heard
		h.atWord = false
	}
	c.send(session.Up{Hello: &session.Hello{
		Incarnation: c.inc, Session: c.stream.session, Fence: c.state.Fence, Offer: c.offered(),
		Acked: c.state.Acked, Last: c.last,
		Start: c.started, Replaces: c.replaces,
	}})
	if !c.replaying {
		c.report()
	}
}

// report lists what is held.
func (c *Core) report() {
	r := &session.Report{}
	size := 0
	for _, h := range c.held.all() {
		if h.frame.tasks != nil {
			continue // its assignment is not on disk
		}
		s := h.durable
		if s.Seq == 0 {
			s = acceptedStatus(h)
		}
		if size += statusSize(s); size > maxReportBytes {
			c.send(session.Up{Report: r})
			r, size = &session.Report{}, statusSize(s)
		}
		r.Tasks = append(r.Tasks, s)
	}
	r.Done = true
	c.send(session.Up{Report: r})
}

// acceptedStatus is what is known of a task that has no journaled status.
func acceptedStatus(h *ownTask) taskstate.Status {
	return taskstate.Status{
		Task: h.id, Seq: 1, State: taskstate.Accepted, Index: h.status.Index, At: h.frame.record.At, Exit: taskstate.NoExit,
	}
}

func (c *Core) frame(d *session.Down) {
	switch {
	case c.replaying:
		if !c.stream.keep(d) { // without knowing what is here nothing can be obeyed
			c.hangUp("it sends more than a worker can heed that reads its journal", false)
		}
	case d.Welcome != nil:
		c.welcomed(d.Welcome)
	case !c.stream.up:
		c.hangUp("the coordinator sent a command before it said Welcome", false)
	case !c.fenced:
		// Nothing of this epoch is obeyed before the disk knows that older ones no longer are.
		c.early(d)
		if !c.stream.keep(d) {
			c.hangUp("the journal does not take the new epoch", false)
		}
	case d.Ack != nil:
		c.acked(d.Ack.Batch)
	case d.Assignments != nil:
		c.assignments(d.Assignments)
	case d.Released != nil:
		c.stream.released = true
	}
}

// welcomed is the only place where the fence rises.
func (c *Core) welcomed(w *session.Welcome) {
	if c.stream.up {
		return
	}
	if w.Epoch.Less(c.state.Fence) {
		c.hangUp(fmt.Sprintf("its epoch %v is over: %v has been obeyed here", w.Epoch, c.state.Fence), false)
		return
	}
	if why := c.outrun(w); why != "" {
		c.lose(why)
		return
	}
	c.signing.welcomed(w.Highest, c.state.Acked, c.now)
	if c.state.Fence.Less(w.Epoch) {
		c.state.Fence, c.fenced = w.Epoch, false
	}
	c.stream.up, c.stream.session, c.stream.epoch = true, w.Session, w.Epoch
	if c.stream.stale {
		c.sendOffer()
	}
	for _, b := range c.outbox.unacked {
		c.send(session.Up{Batch: b.envelope})
	}
	c.giveBackAtWord()
	c.sayGoodbye()
}

// assignments takes in one frame of a set.
func (c *Core) assignments(a *session.Assignments) {
	l := &c.stream
	switch {
	case a.Epoch != l.epoch:
		c.hangUp(fmt.Sprintf("a command of epoch %v came in a session of epoch %v", a.Epoch, l.epoch), false)
		return
	case l.synced && a.ResultsIn <= l.have:
		return // had that
	case !a.Complete && (!l.synced || a.AppliesTo != l.have || c.bodies.lacks(a)):
		c.resync()
		return
	}
	if err := c.carryOut(a); err != nil {
		c.hangUp(err.Error(), false)
		return
	}
	if a.More {
		return
	}
	if a.Complete {
		c.endComplete()
		l.synced, l.asked, l.inSet = true, false, false
	}
	l.have = a.ResultsIn
}

// resync asks for one Complete set, once.
func (c *Core) resync() {
	if !c.stream.asked {
		c.stream.asked = true
		c.send(session.Up{Resync: &session.Resync{Have: c.stream.have}})
	}
}

// carryOut does what one frame says.
func (c *Core) carryOut(a *session.Assignments) error {
	if a.Complete && !c.stream.inSet {
		c.stream.inSet = true
		c.stream.pass++
	}
	if c.bodies.lacks(a) {
		return fmt.Errorf("%w: it was never sent their job", errGrant)
	}
	if err := c.granted(a); err != nil {
		return err
	}
	var missing []taskstate.TaskID
	for _, s := range a.Stop {
		if h := c.held.of[s.Task]; h != nil {
			c.stop(h, s.Reason)
		} else {
			missing = append(missing, s.Task)
		}
	}
	for _, id := range a.Recall {
		if h := c.held.of[id]; h != nil {
			c.recall(h)
		} else {
			missing = append(missing, id)
		}
	}
	c.drop(missing)
	c.giveBackAtWord()
	return nil
}

var errGrant = errors.New("the coordinator sent a grant that makes no sense")

// granted takes on what is new of a frame's grants, as one frame of our own.
func (c *Core) granted(a *session.Assignments) error {
	total := 0
	for _, g := range a.Grants {
		n, err := checkGrant(g)
		if err != nil {
			return err
		}
		if total += n; total > journal.MaxTasks || len(c.held.of)+total > 2*journal.MaxTasks {
			return fmt.Errorf("%w: it would make this peer hold more than %d tasks", errGrant, journal.MaxTasks)
		}
	}
	f := &ownFrame{record: journal.Frame{Base: c.held.order + 1, Epoch: a.Epoch, At: c.now.UnixMilli()}}
	var dropped []taskstate.TaskID
	for _, g := range a.Grants {
		dropped = append(dropped, c.hold(f, g)...)
	}
	c.sendDropped(dropped)
	c.takeOn(f)
	return nil
}

// hold takes on what is new of one grant, and returns what is forbidden here.
func (c *Core) hold(f *ownFrame, g session.Grant) (dropped []taskstate.TaskID) {
	j := c.bodies.of[g.Body()]
	fresh := session.Grant{Job: g.Job, Index: g.Index, Version: g.Version, Forged: g.Forged || !g.Proven(j.job)}
	n := -1
	for id := range g.Tasks() {
		n++
		if h := c.held.of[id]; h != nil {
			h.pass = c.stream.pass
			continue
		}
		if c.tombs.has(id) {
			dropped = append(dropped, id)
			continue
		}
		item := j.job.Item(id.Slot)
		if len(g.Items) > 0 {
			item = g.Items[n]
		}
		h := c.held.add(id, j, f, g.Index, item, c.now)
		h.pass, h.forged = c.stream.pass, fresh.Forged
		f.tasks = append(f.tasks, h)
		fresh.Add(id, item, len(g.Items) > 0)
	}
	if len(fresh.Slots) > 0 {
		f.record.Grants = append(f.record.Grants, fresh)
		c.bodies.need(f, j)
	}
	return dropped
}

// takeOn queues a frame's tasks and sends the frame on its way into the journal.
func (c *Core) takeOn(f *ownFrame) {
	if f.left == 0 {
		return
	}
	c.frames.add(f)
	for _, h := range f.tasks {
		if s, known := c.ends.of[h.id]; known {
			c.tidy.note(h.id, &s) // in one transaction with the assignment
			h.onDisk = true
			c.held.restore(h, s, 0)
			c.outbox.touch(h, c.now)
			continue
		}
		if !c.turnAway(h) && !h.job.instant() {
			c.queue.add(h)
		}
	}
}

// checkGrant bounds what a grant unfolds to before it is unfolded.
func checkGrant(g session.Grant) (n int, err error) {
	if _, err := g.Job.Folder(); err != nil {
		return 0, fmt.Errorf("%w: %w", errGrant, err)
	}
	for _, s := range g.Slots {
		if s.First < 1 || s.N < 1 || s.Attempt < 1 || s.N > journal.MaxTasks || s.First > s.First+s.N || n > journal.MaxTasks {
			return 0, fmt.Errorf("%w: slots %d+%d, attempt %d of job %s", errGrant, s.First, s.N, s.Attempt, g.Job)
		}
		n += s.N
	}
	if len(g.Items) > 0 && len(g.Items) != n {
		return 0, fmt.Errorf("%w: %d items for %d slots of job %s", errGrant, len(g.Items), n, g.Job)
	}
	return n, nil
}

// endComplete is what the last part of a Complete set means: what it does not list is stopped, and
// tasks from the journal that it lists may take their turn, since the ledger still gives them to
// this peer.
func (c *Core) endComplete() {
	var confirmed []*ownTask
	for _, h := range c.held.living() {
		switch {
		case h.pass != c.stream.pass:
			c.stop(h, taskstate.ReasonCancelled)
		case h.phase == phaseParked && !c.turnAway(h): // it may be: this peer came back with less to offer
			c.accepted(h)
			confirmed = append(confirmed, h)
		}
	}
	c.queue.add(confirmed...)
}

// takeEarly obeys what waited for the fence.
func (c *Core) takeEarly() {
	early := c.stream.early
	c.stream.early = nil
	stream := c.stream.id
	for _, d := range early {
		if c.stream.id == stream {
			c.frame(d)
		}
	}
}
