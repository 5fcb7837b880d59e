package coordinator

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// NewCore builds the core for an epoch from everything decided before it. It keeps nothing of st
// but jobs as submitted, which never change.
func NewCore(cfg CoreConfig, epoch taskstate.Epoch, st *ledger.State, now time.Time) *Core {
	cfg = cfg.withDefaults()
	k, a, o := clock.New(now, st.Stamp(), st.Index()), &agenda{}, &outbox{}
	ps := &peers{cfg: &cfg, clock: k, agenda: a, all: map[taskstate.PeerID]*peerState{}, strangers: map[taskstate.PeerID]PeerVerdict{}}
	js := &jobs{clock: k, agenda: a, outbox: o, peers: ps, all: map[taskstate.JobID]*jobState{}, schedules: schedules{clocks: cfg.Clocks}}
	ss := &sessions{cfg: &cfg, epoch: epoch, clock: k, agenda: a, peers: ps, open: map[ConnID]*workerSession{}, base: pace{cfg.Beat, cfg.Grace}}
	ts := &tasks{heard: cfg.Heard, clock: k, agenda: a, outbox: o, peers: ps, jobs: js, sessions: ss, began: st.Began()}
	pl := &placer{cfg: &cfg, clock: k, agenda: a, peers: ps, jobs: js, seed: cfg.Seed}
	c := &Core{
		cfg: &cfg, epoch: epoch, clock: k, agenda: a, outbox: o, peers: ps, jobs: js, sessions: ss, tasks: ts, placer: pl,
		replacer: &replacer{cfg: &cfg, clock: k, agenda: a, peers: ps, sessions: ss, tasks: ts},
		recaller: &recaller{cfg: &cfg, clock: k, agenda: a, peers: ps, jobs: js, sessions: ss},
		upkeep:   &upkeep{born: st.Index(), clock: k, agenda: a, outbox: o, peers: ps, jobs: js, sessions: ss, placer: pl},
	}
	c.explain = &explainer{clock: k, peers: ps, jobs: js, placer: pl, replacer: c.replacer}
	ss.setPace(st.Settings())
	c.derive(st)
	k.WakeAt(ps.settledAt)
	return c
}

func (c *Core) derive(st *ledger.State) {
	for m := range st.Members() {
		if !m.In() {
			c.peers.part(&m, m.Revoked)
		} else {
			c.peers.know(&m)
		}
	}
	var records []*ledger.JobRecord
	for r := range st.Jobs() {
		c.tasks.deriveGivenUp(r)
		if _, over := r.Ended(); !over {
			records = append(records, r)
		}
	}
	slices.Reverse(records) // the oldest first
	for _, r := range records {
		c.deriveJob(r)
	}
}

func (c *Core) deriveJob(r *ledger.JobRecord) {
	j := c.jobs.takeUp(r.Outline())
	_, _, j.cancelled = r.Cancelled()
	c.jobs.delay(j) // nobody knows when it last started one
	for a := range r.Waiting() {
		_ = c.jobs.waits(a, false)
	}
	for s := range r.OpenSlots() {
		p := c.peers.of(s.Peer)
		if p == nil {
			continue // the ledger takes from a peer that it removes all it has
		}
		h := p.hold(j)
		x := rec{index: s.Index, attempt: uint32(s.Attempt), version: uint32(s.Version), state: taskstate.Assigned}
		if c.tasks.lost(s.Index) {
			x.marks |= inherited
		}
		h.slots[s.Slot] = x
		j.open++
		p.promise(h, 1, j.body(s.Version))
		j.lasting.begun(s.Slot, s.Attempt, s.Version, s.Peer)
		if s.Leaving != "" && !j.cancelled {
			j.leave(s.Slot, leaving{why: s.Leaving, next: s.Next, retired: s.Retired})
			j.lasting.retire(s.Slot, s.Retired)
		}
	}
	c.jobs.enqueue(j)
}

// deriveGivenUp finds the attempts of a job whose end may still come.
func (ts *tasks) deriveGivenUp(j *ledger.JobRecord) {
	for n := range j.PastSlots() {
		s := j.Slot(n)
		for _, p := range j.Past(n) {
			if p.Late == nil && !(s.Final != nil && s.Attempt == p.Attempt) {
				ts.given.add(taskstate.Task(j.Job().ID, n, p.Attempt))
			}
		}
	}
}

// Step takes events that have gathered, and returns what is to be done. What follows from all of
// them together leaves in as few frames and proposals as possible.
func (c *Core) Step(evs []Event, now time.Time) []Effect {
	c.clock.Advance(now)
	for _, ev := range evs {
		c.handle(ev)
	}
	c.peers.reviewFreeze()
	c.due()
	c.peers.reviewFreeze() // sessions may have ended just now
	c.upkeep.step()
	c.sessions.stepDrains()
	c.jobs.stepSchedules()
	c.jobs.stepDelayed()
	c.propose()
	c.recaller.lookForRecalls()
	c.sessions.flush()
	return c.agenda.done()
}

func (c *Core) handle(ev Event) {
	switch ev := ev.(type) {
	case SessionOpened:
		c.onHello(ev)
	case SessionFrame:
		c.onFrame(ev)
	case SessionBatch:
		c.onBatch(ev)
	case SessionClosed:
		c.sessions.onClosed(ev.Conn)
	case PeerVerdict:
		c.peers.onVerdict(ev)
	case PeerProbed:
		c.peers.onProbed(ev)
	case Thaw:
		c.peers.thaw()
	case Balance:
		c.upkeep.onBalance(ev)
	case LedgerApplied:
		c.onApplied(ev)
	case ProposalDone:
		c.outbox.answered()
	case TimePassed:
	}
}

// due does what time alone brings about. It looks at peers, never at tasks, and only when the
// moment has come that somebody asked for.
func (c *Core) due() {
	if !c.clock.Due() {
		return
	}
	c.peers.dueSettled()
	c.sessions.dueSessions()
	c.peers.dueProbes()
	c.replacer.dueReplacements()
	c.recaller.dueRecalls()
	c.jobs.dueLater()
	c.jobs.lookAgainIfDue()
}

// propose turns what is decided into proposals, as long as the pipeline has room. What comes up
// while it is full gathers, and goes out as one when the next proposal is done.
func (c *Core) propose() {
	for c.outbox.proposals() < c.cfg.Pipeline {
		cmds := c.nextProposal()
		if len(cmds) == 0 {
			return
		}
		c.outbox.proposed()
		c.agenda.do(ProposeCommands{Commands: cmds})
	}
}

// nextProposal is what is decided, as far as one reaches, and assignments for what is free after
// it.
func (c *Core) nextProposal() []ledger.Command {
	cmds, size := c.newLives()
	cmds, size = c.outbox.urgent(cmds, size)
	cmds, size = c.replacer.addReplacements(cmds, size)
	cmds = c.outbox.ends(cmds, size, func(q *endQueue) {
		if p := c.peers.of(q.peer); p != nil && p.ends == q {
			p.ends = nil
		}
	})
	if c.agenda.dirty {
		cmds = c.placer.plan(cmds, maxAssign)
	}
	return cmds
}

// newLives registers peers. What a life before has open is given up by that: ends that are known of
// it are settled first.
func (c *Core) newLives() (cmds []ledger.Command, size int) {
	var later []*ledger.Register
	for _, r := range c.outbox.registers {
		if p := c.peers.of(r.Peer); p != nil && p.member.Incarnation != r.Incarnation {
			c.tasks.endsHeard(p)
			if p.ends != nil {
				if cmds, size = p.ends.take(cmds, size); len(p.ends.list) > 0 {
					later = append(later, r)
					continue
				}
			}
		}
		cmds = append(cmds, ledger.Command{Register: r})
	}
	c.outbox.registers = later
	return cmds, size
}
