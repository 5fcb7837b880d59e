package calls

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

const (
	maxWord       = 128                          // bytes of an id
	MaxReason     = 1024                         // bytes
	ticketKeyLen  = 32                           // an ed25519 public key
	MaxLabelValue = 128                          // bytes
	maxLasts      = 100 * 366 * 24 * 3600 * 1000 // milliseconds that a ticket may be good: more would overflow
)

// Check refuses a call that no honest peer makes: the roles it needs are judged by the one thing it
// asks for, and what it brings goes into the ledger of all. Only what came from another peer can
// fail here.
func (c *Call) Check() *api.Error {
	asked := 0
	for _, set := range append(append(c.changes(), c.NextCall.asks()...),
		c.Submit != nil, c.Cancel != nil, c.Invite != nil, c.Revoke != nil, c.Remove != nil, c.Leave != nil, c.Join != nil, c.Cluster != nil,
		c.Thaw != nil, c.Avail != nil, c.Label != nil, c.Set != nil, c.SetTime != nil, c.Roles != nil,
	) {
		if set {
			asked++
		}
	}
	if asked != 1 {
		return api.Errorf(api.Usage, "a call asks for one thing, this one for %d", asked)
	}
	if c.Act != nil && c.Act.By != c.From {
		return api.Errorf(api.Refused, "peer %s may not ask in the name of %s", c.From, c.Act.By)
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

func (c *Call) checkJob() *api.Error {
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
func (c *Call) checkWords() *api.Error {
	word := func(what, s string, limit int) *api.Error {
		if len(s) > limit || !utf8.ValidString(s) {
			return api.Errorf(api.Usage, "the %s is no text of at most %d bytes", what, limit)
		}
		return nil
	}
	switch {
	case c.Cancel != nil:
		return cmp.Or(word("job's id", string(c.Cancel.Job), maxWord), word("reason", c.Cancel.Reason, MaxReason))
	case c.Remove != nil:
		return cmp.Or(word("peer's id", c.Remove.Peer, maxWord), word("reason", c.Remove.Reason, MaxReason))
	case c.Leave != nil:
		return word("peer's id", c.Leave.Peer, maxWord)
	case c.Avail != nil:
		return cmp.Or(word("peer's id", c.Avail.Peer, maxWord), word("reason", c.Avail.Reason, MaxReason))
	case c.Label != nil:
		return cmp.Or(word("peer's id", c.Label.Peer, maxWord), CheckLabels(c.Label.Set, c.Label.Unset))
	case c.Roles != nil:
		return c.Roles.Check()
	case c.Revoke != nil:
		return word("ticket's id", c.Revoke.ID, maxWord)
	case c.Join != nil:
		return word("peer's id", c.Join.Peer, maxWord)
	case c.Cluster != nil:
		return word("job's id", string(c.Cluster.Job), maxWord)
	case c.Invite == nil:
		return nil
	}
	if len(c.Invite.Secret) != ticketKeyLen || c.Invite.Uses < 0 || c.Invite.Lasts < 0 || c.Invite.Lasts > maxLasts {
		return api.Errorf(api.Usage, "an invite has a key, and uses from 0")
	}
	if err := admission.CheckRoles(c.Invite.Roles); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return word("ticket's id", c.Invite.ID, maxWord)
}

// Check refuses roles that no peer has.
func (q *RolesCall) Check() *api.Error {
	if q.Peer == "" || len(q.Peer) > maxWord {
		return api.Errorf(api.Usage, "this is no peer's id")
	}
	if len(q.Roles) == 0 {
		return api.Errorf(api.Usage, "a peer has at least one role; to end its membership: `peer remove`")
	}
	if err := admission.CheckRoles(q.Roles); err != nil {
		return api.Errorf(api.Usage, "%v", err)
	}
	return nil
}

// OfItself tells whether a peer asks for something about itself that is its owner's to say,
// whatever roles it was given.
func (c *Call) OfItself() bool {
	return c.Kept != nil || c.Avail != nil && c.Avail.Peer == c.From || c.Label != nil && c.Label.Peer == c.From || c.Remove != nil && c.Remove.Peer == c.From
}

// CheckLabels refuses labels that no constraint could ask for.
func CheckLabels(set map[string]string, unset []string) *api.Error {
	if len(set)+len(unset) == 0 {
		return api.Errorf(api.Usage, "no label to set or to take away")
	}
	for _, k := range slices.Concat(slices.Sorted(maps.Keys(set)), unset) {
		if err := constraint.CheckLabel(k); err != nil {
			return api.Errorf(api.Usage, "label %.40q: %v", k, err)
		}
	}
	for _, k := range unset {
		if _, both := set[k]; both {
			return api.Errorf(api.Usage, "label %s is to be set and taken away at once", k)
		}
	}
	for k, v := range set {
		if len(v) > MaxLabelValue || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\r") {
			return api.Errorf(api.Usage, "the value of label %s is no line of text of at most %d bytes", k, MaxLabelValue)
		}
	}
	return nil
}
