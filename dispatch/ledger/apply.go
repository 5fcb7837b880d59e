package ledger

import (
	"covey/taskstate"
)

// Limits of what a State keeps. They are constants because every replica must forget the same things at the same entry.
const (
	KeepFinished = 1000                    // finished jobs, by count, unless Set says otherwise
	KeepFor      = 7 * 24 * 60 * 60 * 1000 // finished jobs, by age in milliseconds of ledger stamps, unless Set says otherwise
	KeepBytes    = 32 << 20                // what finished jobs may weigh together; the newest one always stays
	KeepGone     = 10_000                  // ids of forgotten jobs, so that a late repetition of Submit does not run them again
	KeepInvites  = 1000                    // invites; of those that admit nobody any more the oldest go first
	MaxAfter     = 100                     // jobs that one waits for
	MaxLabels    = 100                     // labels that people give or take from one peer
	MaxSlots     = 1 << 20                 // slots of one job; as many elements as a decoded list may have
)

// Apply carries out one entry and answers each of its commands, in order. It reads no clock and draws no randomness: everybody
// who applies the same entries holds the same state. Entries come in order of Index; an entry of an older epoch than has been
// applied changes nothing, and all its commands are answered CodeStale.
func (s *State) Apply(e Entry) []Result {
	results := s.carryOut(&e)
	s.link(&e, results)
	return results
}

func (s *State) carryOut(e *Entry) []Result {
	s.index, s.ending, s.forgotten = e.Index, nil, nil
	results := make([]Result, len(e.Commands))
	if e.Epoch.Less(s.epoch) {
		for i := range results {
			results[i].Refused = CodeStale
		}
		return results
	}
	if s.epoch.Less(e.Epoch) {
		s.epoch, s.coordinator = e.Epoch, e.By
	}
	s.stamp = max(s.stamp, e.Stamp)
	for i := range e.Commands {
		s.effects = effects{}
		results[i] = s.apply(e, &e.Commands[i])
		s.effects.into(&results[i])
	}
	s.forget()
	return results
}

func (s *State) apply(e *Entry, c *Command) Result {
	switch {
	case c.Settle != nil:
		return s.settle(c.Settle)
	case c.Assign != nil:
		return s.assign(c.Assign)
	case c.Supersede != nil:
		return s.supersede(c.Supersede)
	case c.Submit != nil:
		return s.submit(c.Submit)
	case c.Cancel != nil:
		return s.cancel(c.Cancel)
	case c.Register != nil:
		return s.register(c.Register)
	case c.Lead != nil:
		s.coordinator = e.By
		return Result{}
	case c.Admit != nil:
		return s.admit(c.Admit)
	case c.Remove != nil:
		return s.remove(c.Remove)
	case c.Depart != nil:
		return s.depart(c.Depart)
	case c.Invite != nil:
		return s.invite(c.Invite)
	case c.Revoke != nil:
		return s.revoke(c.Revoke)
	case c.Found != nil:
		return s.found(c.Found)
	}
	return s.applyLasting(c)
}

func (s *State) applyLasting(c *Command) Result {
	switch {
	case c.Renew != nil:
		return s.renew(c.Renew)
	case c.Retire != nil:
		return s.retire(c.Retire)
	case c.Grow != nil:
		return s.grow(c.Grow)
	case c.Update != nil:
		return s.update(c.Update)
	case c.Rollout != nil:
		return s.rollout(c.Rollout)
	case c.Avail != nil:
		return s.avail(c.Avail)
	case c.Label != nil:
		return s.label(c.Label)
	case c.Set != nil:
		return s.set(c.Set)
	case c.Skip != nil:
		return s.skip(c.Skip)
	}
	return Result{Refused: CodeInvalid}
}

// forget drops the finished jobs that are too many, too old or too heavy, the ones that ended first first.
func (s *State) forget() {
	keep := s.settings.Full()
	for len(s.finished) > 0 {
		j := s.finished[0]
		many := len(s.finished) > keep.KeepJobs
		old := s.stamp-j.ended > keep.KeepFor
		heavy := s.kept > KeepBytes && len(s.finished) > 1
		if !many && !old && !heavy {
			return
		}
		s.finished = s.finished[1:]
		s.kept -= j.weight
		s.drop(j)
	}
}

func (s *State) drop(j *JobRecord) {
	delete(s.jobs, j.job.ID)
	for i, x := range s.order {
		if x == j {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	s.gone.add(j.job.ID)
	s.forgotten = append(s.forgotten, Forgotten{Job: j.job.ID, State: j.State()})
}

// goneJobs remembers the ids of forgotten jobs, the newest KeepGone of them.
type goneJobs struct {
	ids  []taskstate.JobID
	have map[taskstate.JobID]bool
}

func newGoneJobs() goneJobs { return goneJobs{have: map[taskstate.JobID]bool{}} }

func (g *goneJobs) add(id taskstate.JobID) {
	if len(g.ids) >= KeepGone {
		delete(g.have, g.ids[0])
		g.ids = g.ids[1:]
	}
	g.ids = append(g.ids, id)
	g.have[id] = true
}
