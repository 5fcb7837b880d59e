package stack

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// invent makes a command that nobody asks for. again: somebody did once.
func (x *crook) invent() (cmd ledger.Command, again, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	w := x.l.p.w
	said := w.signed.some()
	if len(said) == 0 {
		return cmd, false, false
	}
	from := said[x.rng.IntN(len(said))]
	switch n := x.rng.IntN(10); {
	case n < 4:
		return from, true, true
	case from.Submit == nil:
		return cmd, false, false
	case n < 6:
		cmd = ledger.Command{Cancel: &ledger.Cancel{Job: from.Submit.Job.ID, Reason: "by nobody"}}
		a := act.Act{By: from.Submit.Job.Order.By, At: time.Now().UnixMilli(), N: x.rng.Uint64()}
		a.Until = a.At + act.Lasts
		a, err := a.Signed(w.check.clusterID(), cmd.Asked(), x.stranger)
		if err != nil {
			w.fail("bug", "a lie cannot be signed: %v", err)
		}
		cmd.Act = &a
		return cmd, false, true
	}
	return ledger.Command{Submit: &ledger.Submit{Job: x.job(from.Submit.Job)}}, false, true
}

// stranger signs with a key that nobody knows.
func (x *crook) stranger(data []byte) ([]byte, error) {
	key, err := p2p.NewIdentity()
	if err != nil {
		return nil, err
	}
	return key.Sign(data)
}

// The ways to lie about a job. What the peer signs with its own key somebody has signed: it is a
// person's.
const (
	lieUnsigned  = iota
	lieChanged   // what somebody signed, and something else in it
	lieNamed     // as if somebody else had signed it
	lieElsewhere // signed by this peer, for another cluster
	lieExpired   // signed by this peer, long ago
	lieBare      // signed by this peer, and nobody is told what it runs
	lieKinds
)

// job makes a job that nobody wants, from one that somebody wanted.
func (x *crook) job(j taskstate.Job) taskstate.Job {
	w := x.l.p.w
	own, err := p2p.LoadIdentity(filepath.Join(x.l.dir, "identity.key"))
	if err != nil {
		w.fail("bug", "no key of %s: %v", x.l.session, err)
		return j
	}
	self, _ := p2p.ID(own)
	cluster, by, sign, at := w.check.clusterID(), j.Order.By, x.stranger, time.Now().UnixMilli()
	j.ID = taskstate.JobID(fmt.Sprintf("lie%07d", x.rng.IntN(1e7)))
	j.Name, j.Count, j.After, j.Outputs, j.KeepLogs = string(j.ID), 1, nil, nil, 0
	kind := x.rng.IntN(lieKinds)
	switch kind {
	case lieUnsigned:
		j.Order = nil
		return j
	case lieChanged:
		return j
	case lieElsewhere:
		cluster, by, sign = "another", self, own.Sign
	case lieBare:
		by, sign = self, own.Sign
	case lieExpired:
		by, sign, at = self, own.Sign, at-2*taskstate.BatchOrder.Milliseconds()
	}
	if err := taskstate.SignOrder(&j, cluster, by, at, nil, sign); err != nil {
		w.fail("bug", "a lie cannot be signed: %v", err)
	}
	if kind == lieBare {
		return j.Bare()
	}
	return j
}

// twist adds to a frame for a worker a task that nobody asked for, or one that it was given before.
func (x *crook) twist(peer string, frame []byte) []byte {
	var d session.Down
	if wire.Unmarshal(frame[4:], &d) != nil || d.Assignments == nil || len(d.Assignments.Grants) == 0 || len(d.Assignments.Jobs) == 0 {
		return frame
	}
	a := d.Assignments
	x.mu.Lock()
	defer x.mu.Unlock()
	index := a.Grants[0].Index
	before := len(x.given)
	for _, g := range a.Grants {
		for i := range a.Jobs {
			if a.Jobs[i].ID == g.Job {
				x.given = append(x.given, gift{peer, a.Jobs[i], g})
			}
		}
	}
	if !x.lies.Load() || a.Complete || x.rng.IntN(3) > 0 {
		return frame
	}
	w := x.l.p.w
	old, given := x.pick(peer, before)
	switch n := x.rng.IntN(6); {
	case given && n < 2:
		a.Jobs, a.Grants = append(a.Jobs, old.job), append(a.Grants, old.grant)
		if w.cfg.Break == BreakRunAgain {
			w.check.again(peer, old)
		}
	case given && n < 3:
		x.give(a, peer, old.job, ledger.Slots{First: old.grant.Slots[0].First, N: 1, Attempt: unasked + x.rng.IntN(unasked)})
	case n < 4:
		x.give(a, peer, x.moment(a.Jobs[0]), ledger.Slots{First: 1, N: 1, Attempt: 1})
	case n < 5:
		x.give(a, peer, x.service(a.Jobs[0]), ledger.Slots{First: unasked + x.rng.IntN(unasked), N: 1, Attempt: 1})
	default:
		j := x.job(a.Jobs[0])
		a.Jobs = append(a.Jobs, j)
		a.Grants = append(a.Grants, session.Grant{Job: j.ID, Index: index, Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}})
	}
	w.count(func(s *Stats) { s.Lies++ })
	b, err := wire.Marshal(d)
	if err != nil || len(b) > wire.MaxFrame {
		return frame
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// unasked is a number that no attempt and no slot of these lives comes to by itself.
const unasked = 1 << 20

// give adds to what a worker is given what somebody has signed, and the ledger says nothing of.
func (x *crook) give(a *session.Assignments, peer string, j taskstate.Job, s ledger.Slots) {
	a.Jobs = append(a.Jobs, j)
	a.Grants = append(a.Grants, session.Grant{Job: j.ID, Version: j.Version, Index: a.Grants[0].Index, Slots: []ledger.Slots{s}})
	x.l.p.w.check.lied(peer, j, taskstate.Task(j.ID, s.First, s.Attempt))
}

// own has this peer's own person sign a job, under an id of its own.
func (x *crook) own(j taskstate.Job, change func(*taskstate.Job)) taskstate.Job {
	w := x.l.p.w
	own, err := p2p.LoadIdentity(filepath.Join(x.l.dir, "identity.key"))
	if err != nil {
		w.fail("bug", "no key of %s: %v", x.l.session, err)
		return j
	}
	self, _ := p2p.ID(own)
	j.ID = taskstate.JobID(fmt.Sprintf("lie%07d", x.rng.IntN(1e7)))
	j.Name, j.Count, j.After, j.Outputs, j.KeepLogs, j.Submitter = string(j.ID), 1, nil, nil, 0, self
	change(&j)
	if err := taskstate.SignOrder(&j, w.check.clusterID(), self, time.Now().UnixMilli(), nil, own.Sign); err != nil {
		w.fail("bug", "a lie cannot be signed: %v", err)
	}
	return j
}

// moment is a run of a schedule that somebody signed, for a moment that it names and that has
// passed, or has yet to come.
func (x *crook) moment(j taskstate.Job) taskstate.Job {
	j = x.own(j, func(j *taskstate.Job) { j.Schedule = &taskstate.Schedule{Cron: "* * * * *"} })
	return j.RunAt(time.Now().Truncate(time.Minute).Add(time.Duration(x.rng.IntN(200)-100) * time.Minute).UnixMilli())
}

// service is one that somebody signed.
func (x *crook) service(j taskstate.Job) taskstate.Job {
	return x.own(j, func(j *taskstate.Job) {
		j.Type, j.Version, j.Unreachable = taskstate.ServiceJob, 1, taskstate.Unreachable{ReplaceAfter: 1000}
		j.Restart = &taskstate.Restart{Condition: taskstate.RestartAny}
	})
}

// pick draws something that a worker was given before, among the first n.
func (x *crook) pick(peer string, n int) (g gift, ok bool) {
	for range 10 {
		if n == 0 {
			return g, false
		}
		if g = x.given[x.rng.IntN(n)]; g.peer == peer {
			return g, true
		}
	}
	return g, false
}
