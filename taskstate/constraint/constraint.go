package constraint

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
)

// Constraint is one condition on a peer. Parse makes them; the zero Constraint holds for no peer.
type Constraint struct {
	key    Key
	op     op
	values []value        // one; any number ≥ 1 for in
	re     *regexp.Regexp // of =~
	text   string         // canonical
}

// value is what a fact is compared with, in the form its key wants.
type value struct {
	text    string       // as it was meant, without quotes
	number  int64        // of numeric keys, in the unit of Facts
	network netip.Prefix // of peer.addr
}

// Facts is what constraints can ask about a peer. It is immutable once it is shown to anybody: a
// change is a new Facts, so that a caller that remembers an answer can tell by the pointer whether
// it is still good.
type Facts struct {
	ID, Name, OS, Arch string
	MilliCPU, Memory   int64             // offered in all: thousandths of a cpu, bytes
	Offers             map[string]int64  // other things it has a number of, by name: gpus
	Labels             map[string]string // its own, overlaid with those people put on it
	Addrs              []netip.Addr      // where it can be reached
}

// String is the constraint in its canonical form, which Parse reads back as the same constraint.
func (c Constraint) String() string { return c.text }

// Key is what the constraint asks about.
func (c Constraint) Key() Key { return c.key }

// Holds tells whether a peer meets the constraint. Nothing is allocated. Without facts nothing
// holds.
func (c Constraint) Holds(f *Facts) bool {
	if f == nil || len(c.values) == 0 {
		return false
	}
	switch c.key.what.class() {
	case textual, label:
		return c.holdsText(f)
	case cpus, memory, count:
		return c.holdsNumber(c.key.number(f))
	case address:
		return c.holdsAddress(f.Addrs)
	}
	return false
}

func (c *Constraint) holdsText(f *Facts) bool {
	have, ok := c.key.Value(f)
	switch c.op {
	case equal:
		return ok && have == c.values[0].text
	case differs:
		return !ok || have != c.values[0].text
	case in:
		return ok && slices.ContainsFunc(c.values, func(v value) bool { return v.text == have })
	case matches:
		return ok && c.re.MatchString(have)
	}
	return ok && decimal(have) && c.op.ordered(compareDecimals(have, c.values[0].text))
}

func (c *Constraint) holdsNumber(have int64) bool {
	if c.op == in {
		return slices.ContainsFunc(c.values, func(v value) bool { return v.number == have })
	}
	return c.op.ordered(cmp.Compare(have, c.values[0].number))
}

func (c *Constraint) holdsAddress(have []netip.Addr) bool {
	within := false
	for _, a := range have {
		a = a.Unmap().WithZone("")
		for i := range c.values {
			within = within || c.values[i].network.Contains(a)
		}
	}
	return within == (c.op != differs)
}

// AllHold tells whether a peer meets all of them.
func AllHold(cs []Constraint, f *Facts) bool { return FirstBroken(cs, f) < 0 }

// FirstBroken is the position of the first constraint that a peer does not meet, -1 if it meets
// all.
func FirstBroken(cs []Constraint, f *Facts) int {
	for i := range cs {
		if !cs[i].Holds(f) {
			return i
		}
	}
	return -1
}
