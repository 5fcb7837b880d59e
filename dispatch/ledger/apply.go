package ledger

import "github.com/coveyproject/covey/taskstate"

// Apply carries out one entry and answers each of its commands, in order. It reads no clock and
// draws no randomness: everybody who applies the same entries holds the same state. Entries come in
// order of Index; an entry of an older epoch than has been applied changes nothing, and all its
// commands are answered CodeStale. A command with an Act is carried out only if whoever asks for it
// signed it, has the role for it and asked for it only now (CodeUnsigned, CodeForbidden, CodeLate),
// and counts once: what is asked for again is Existed.
func (s *State) Apply(e Entry) []Result {
	results := s.carryOut(&e)
	s.public = publicForm(&e, results)
	public := s.public.Data
	if public == nil {
		public = e.raw
	}
	s.chain.extend(&e, public, results, uint64(s.stamp), uint64(len(s.book.order)), uint64(len(s.book.finished.list)), uint64(len(s.roster.members)), uint64(len(s.roster.invites)), uint64(len(s.book.finished.gone.ids)))
	return results
}

func (s *State) carryOut(e *Entry) []Result {
	s.index, s.book.ending, s.book.finished.forgotten = e.Index, nil, nil
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
	s.advance(e.Stamp)
	for i := range e.Commands {
		c := &e.Commands[i]
		if r, over := s.warrants.judge(c); over {
			results[i] = r
			continue
		}
		s.book.effects = effects{}
		results[i] = s.apply(e, c)
		s.warrants.spend(c, &results[i])
		s.book.effects.into(&results[i])
		if id := c.member(); id != "" && results[i].Refused == CodeNone && !results[i].Existed {
			m, _ := s.Member(id)
			results[i].Member = &m
		}
	}
	s.book.forget()
	return results
}

// member is the peer whose membership a command changes and does not end; "" for other commands.
func (c *Command) member() taskstate.PeerID {
	switch {
	case c.Register != nil:
		return c.Register.Peer
	case c.Avail != nil:
		return c.Avail.Peer
	case c.Label != nil:
		return c.Label.Peer
	case c.Depart != nil:
		return c.Depart.Peer
	case c.Admit != nil:
		return c.Admit.Entry.Peer
	case c.Found != nil:
		return c.Found.Founder.Peer
	}
	return ""
}

func (s *State) apply(e *Entry, c *Command) Result {
	switch {
	case c.Settle != nil:
		return s.book.settle(c.Settle)
	case c.Assign != nil:
		return s.book.assign(c.Assign, s.roster.members[c.Assign.Peer])
	case c.Supersede != nil:
		return s.book.supersede(c.Supersede)
	case c.Submit != nil:
		return s.book.submit(c.Submit, &s.warrants)
	case c.Cancel != nil:
		return s.book.cancel(c.Cancel)
	case c.Register != nil:
		r, gone := s.roster.register(c.Register, s.stamp)
		return s.lost(c.Register.Peer, r, gone)
	case c.Lead != nil:
		s.coordinator = e.By
		s.timeSet.Waits = false
		return Result{}
	case c.Admit != nil:
		return s.roster.admit(c.Admit, c.Act, s.stamp)
	case c.Remove != nil:
		return s.remove(c.Remove)
	case c.Depart != nil:
		r, gone := s.roster.depart(c.Depart, s.stamp)
		return s.lost(c.Depart.Peer, r, gone)
	case c.Invite != nil:
		return s.roster.invite(c.Invite, c.Act, s.stamp)
	case c.Revoke != nil:
		return s.roster.revoke(c.Revoke)
	case c.Found != nil:
		return s.found(c.Found)
	}
	return s.applyLasting(c)
}

func (s *State) applyLasting(c *Command) Result {
	switch {
	case c.Renew != nil:
		return s.book.renew(c.Renew, &s.warrants)
	case c.Retire != nil:
		return s.book.retire(c.Retire)
	case c.Grow != nil:
		return s.book.grow(c.Grow)
	case c.Update != nil:
		return s.book.update(c.Update, &s.warrants)
	case c.Rollout != nil:
		return s.book.rollout(c.Rollout)
	case c.Avail != nil:
		return s.roster.avail(c.Avail, s.stamp)
	case c.Label != nil:
		return s.roster.label(c.Label)
	case c.Set != nil:
		return s.settings.set(c.Set)
	case c.Skip != nil:
		return s.book.skip(c.Skip)
	case c.Pin != nil:
		return s.book.pin(c.Pin)
	case c.Kept != nil:
		return s.book.kept(c.Kept)
	case c.Reads != nil:
		return s.roster.reads(c.Reads)
	case c.SetTime != nil:
		return s.setTime(c.SetTime)
	}
	return s.next.apply(c)
}
