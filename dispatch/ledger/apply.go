package ledger

import (
	"slices"

	"covey/taskstate"
)

// Limits of what a State keeps. They are constants because every replica must forget the same things at the same entry.
const (
	KeepFinished = 1000                    // finished jobs, by count, of those that ended more than KeepSure ago, or of all if Set says so
	KeepSure     = 7 * 24 * 60 * 60 * 1000 // nothing that ended so lately goes by a count that nobody has set: milliseconds of ledger stamps
	KeepFor      = 7 * 24 * 60 * 60 * 1000 // finished jobs, by age in milliseconds of ledger stamps, unless Set says otherwise
	KeepBytes    = 32 << 20                // what finished jobs may weigh together; the newest one always stays
	KeepGone     = 10_000                  // ids of forgotten jobs, so that a late repetition of Submit does not run them again
	KeepInvites  = 1000                    // invites; of those that admit nobody any more the oldest go first
	MaxPins      = 100                     // jobs that are kept because somebody said so
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
	case c.Pin != nil:
		return s.pin(c.Pin)
	}
	return Result{Refused: CodeInvalid}
}

// forget drops the finished jobs that are too many, too old or too heavy, the ones that ended first first. Those that are pinned go last, and only
// because all together are too heavy.
func (s *State) forget() {
	for {
		i := s.due()
		if i < 0 {
			return
		}
		j := s.finished[i]
		s.finished = slices.Delete(s.finished, i, i+1)
		s.kept -= j.weight
		s.drop(j)
	}
}

// due is the finished job that is to be forgotten now, -1 if none is.
func (s *State) due() int {
	if len(s.finished) == 0 {
		return -1
	}
	heavy := s.kept > KeepBytes && len(s.finished) > 1
	i := slices.IndexFunc(s.finished, func(j *JobRecord) bool { return !j.pinned })
	if i < 0 || heavy && i == len(s.finished)-1 { // the newest one always stays
		if heavy {
			return 0
		}
		return -1
	}
	keep, age := s.settings.Full(), s.stamp-s.finished[i].ended
	many := len(s.finished)-i > keep.KeepJobs && (s.settings.KeepJobs != 0 || age > KeepSure)
	if many || age > keep.KeepFor || heavy {
		return i
	}
	return -1
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

// Forgotten tells whether a job was here once and is forgotten, as far as that is remembered.
func (s *State) Forgotten(id taskstate.JobID) bool { return s.gone.have[id] }

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
