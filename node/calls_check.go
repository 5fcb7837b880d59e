package node

import (
	"cmp"
	"unicode/utf8"

	"covey/node/api"
	"covey/p2p/admission"
	"covey/taskstate/jobfile"
)

const (
	maxCallWord   = 128                          // bytes of an id
	maxCallReason = 1024                         // bytes
	secretHashLen = 32                           // a SHA-256
	maxLasts      = 100 * 366 * 24 * 3600 * 1000 // milliseconds that a ticket may be good: more would overflow
)

// check refuses a call that no honest peer makes: the roles it needs are judged by the one thing it asks for, and what it brings goes
// into the ledger of all. Only what came from another peer can fail here.
func (c *call) check() *api.Error {
	asked := 0
	for _, set := range append(c.changes(),
		c.Submit != nil, c.Cancel != nil, c.Invite != nil, c.Revoke != nil, c.Remove != nil, c.Leave != nil, c.Join != nil, c.Flock != nil,
		c.Thaw != nil, c.Avail != nil, c.Label != nil, c.Set != nil, c.Roles != nil,
	) {
		if set {
			asked++
		}
	}
	if asked != 1 {
		return api.Errorf(api.Usage, "a call asks for one thing, this one for %d", asked)
	}
	if err := cmp.Or(c.checkWords(), c.checkJob(), c.checkChange()); err != nil {
		return err
	}
	if c.Join != nil {
		if err := c.Join.Request.Check(); err != nil {
			return api.Errorf(api.Usage, "%v", err)
		}
	}
	return nil
}

func (c *call) checkJob() *api.Error {
	switch {
	case c.Submit == nil:
		return nil
	case c.Submit.ID == "":
		return api.Errorf(api.Usage, "a job without an id")
	case c.Submit.Submitter != c.From && c.Submit.Submitter != "":
		return api.Errorf(api.Refused, "peer %s may not submit in the name of %s", c.From, c.Submit.Submitter)
	}
	if err := jobfile.Validate(c.Submit); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return nil
}

// checkWords bounds the texts that would stay in the ledger.
func (c *call) checkWords() *api.Error {
	word := func(what, s string, limit int) *api.Error {
		if len(s) > limit || !utf8.ValidString(s) {
			return api.Errorf(api.Usage, "the %s is no text of at most %d bytes", what, limit)
		}
		return nil
	}
	switch {
	case c.Cancel != nil:
		return cmp.Or(word("job's id", string(c.Cancel.Job), maxCallWord), word("reason", c.Cancel.Reason, maxCallReason))
	case c.Remove != nil:
		return cmp.Or(word("peer's id", c.Remove.Peer, maxCallWord), word("reason", c.Remove.Reason, maxCallReason))
	case c.Leave != nil:
		return word("peer's id", c.Leave.Peer, maxCallWord)
	case c.Avail != nil:
		return cmp.Or(word("peer's id", c.Avail.Peer, maxCallWord), word("reason", c.Avail.Reason, maxCallReason))
	case c.Label != nil:
		return cmp.Or(word("peer's id", c.Label.Peer, maxCallWord), checkLabels(c.Label.Set, c.Label.Unset))
	case c.Roles != nil:
		return c.Roles.check()
	case c.Revoke != nil:
		return word("ticket's id", c.Revoke.ID, maxCallWord)
	case c.Join != nil:
		return word("peer's id", c.Join.Peer, maxCallWord)
	case c.Flock != nil:
		return word("job's id", string(c.Flock.Job), maxCallWord)
	case c.Invite == nil:
		return nil
	}
	if len(c.Invite.Secret) != secretHashLen || c.Invite.Uses < 0 || c.Lasts > maxLasts {
		return api.Errorf(api.Usage, "an invite has the hash of a secret, and uses from 0")
	}
	if err := admission.CheckRoles(c.Invite.Roles); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return word("ticket's id", c.Invite.ID, maxCallWord)
}
