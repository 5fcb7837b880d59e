package membership

import (
	"cmp"
	"slices"
	"time"
)

// table joins what is known about each peer into one verdict: what memberlist says, worsened by own
// evidence. It is pure: no clock, no lock, no I/O. Methods that can change a verdict tell whether
// they did.
type table struct {
	self    string
	entries map[string]*entry
}

type entry struct {
	meta     meta
	addrs    []string
	gossip   Verdict // memberlist's opinion, or Dead for a peer of the book that nobody answers for
	evidence Verdict // 0, or Suspect or Dead by refused dials
	since    time.Time
	lives    uint64        // counts signs of life, so that a slow claim is known to be outdated
	refused  time.Time     // when a dial was last refused and no sign of life came after it
	last     time.Time     // of the signs of life that came from itself
	silent   bool          // it did not answer when another claimed it gone, and no sign of life came after that
	parted   bool          // it said goodbye
	asked    bool          // memberlist holds it dead though it spoke a moment before: it is asked first
	rtt      time.Duration // smoothed
	rumour   uint64        // the newest of memberlist's rumours about it, see rumoured
}

func newTable(self string) *table { return &table{self: self, entries: map[string]*entry{}} }

func (e *entry) verdict() Verdict {
	if e.asked {
		return max(Suspect, e.evidence)
	}
	return max(e.gossip, e.evidence)
}

// change applies f and stamps the verdict if it is another one afterwards.
func (t *table) change(id string, now time.Time, f func(*entry)) bool {
	e := t.entries[id]
	if e == nil {
		e = &entry{}
		t.entries[id] = e
	}
	was := e.verdict()
	f(e)
	if e.verdict() == was {
		return false
	}
	e.since = now
	return true
}

// joined: memberlist has the peer alive, with these words about itself. They may be new though the
// verdict is not.
func (t *table) joined(id string, m meta, now time.Time) {
	t.change(id, now, func(e *entry) {
		e.meta, e.addrs = m, m.Addrs
		e.gossip, e.evidence, e.refused = Alive, 0, time.Time{}
		e.lives++
		e.rumour, e.silent, e.parted, e.asked = 0, false, false, false
	})
}

// rumoured: memberlist believes a suspicion or a refutation. It repeats itself, so only what is
// newer counts (see rank). suspicion tells that a suspicion is a new one.
func (t *table) rumoured(r rumour, now time.Time) (changed, suspicion bool) {
	e := t.entries[r.node]
	if e == nil || e.gossip != Alive && e.gossip != Suspect || r.rank() <= e.rumour {
		return false, false
	}
	e.rumour = r.rank()
	v := Alive
	if r.suspect {
		v = Suspect
	}
	return t.change(r.node, now, func(e *entry) { e.gossip = v }), r.suspect
}

// suspected: memberlist goes on from this suspicion, whatever was heard of the peer since. It calls
// the peer dead unless it is refuted.
func (t *table) suspected(r rumour) bool {
	e := t.entries[r.node]
	return e != nil && (e.gossip == Alive || e.gossip == Suspect) && r.suspect && e.rumour == r.rank()
}

// parting: it said goodbye, and memberlist is about to hear of it.
func (t *table) parting(id string) {
	if e := t.entries[id]; e != nil {
		e.parted = true
	}
}

// gone: memberlist holds it dead, or it said goodbye. It is only suspect while it is asked.
func (t *table) gone(id string, now time.Time, asked bool) bool {
	if t.entries[id] == nil {
		return false
	}
	return t.change(id, now, func(e *entry) { e.gossip, e.evidence, e.asked = Dead, 0, asked })
}

// spoke tells whether a peer that has not said goodbye spoke a moment ago.
func (t *table) spoke(id string, now time.Time, moment time.Duration) bool {
	e := t.entries[id]
	return e != nil && !e.parted && now.Sub(e.last) < moment
}

// asked tells whether it is asked and has shown no life that memberlist believes.
func (t *table) asked(id string) bool {
	e := t.entries[id]
	return e != nil && e.asked
}

// missed: a peer of the book that nobody in the cluster speaks of did not answer. A peer that is
// already known is left alone.
func (t *table) missed(id string, m meta, now time.Time) bool {
	if e := t.entries[id]; e != nil && e.gossip != 0 {
		return false
	}
	return t.change(id, now, func(e *entry) { e.meta, e.addrs, e.gossip = m, m.Addrs, Dead })
}

// heard: a sign of life came from the peer itself. dead tells that memberlist holds it dead or does
// not know it: it has to be told.
func (t *table) heard(id string, now time.Time) (changed, dead bool) {
	e := t.entries[id]
	if e == nil {
		return false, true
	}
	e.lives++
	e.last, e.silent = now, false
	changed = t.change(id, now, func(e *entry) {
		e.evidence, e.refused = 0, time.Time{}
		if e.gossip == Suspect {
			e.gossip = Alive
		}
	})
	return changed, e.gossip == Dead || e.gossip == 0
}

// claimGone adds evidence, unless the peer showed life since lives was read.
func (t *table) claimGone(id string, v Verdict, lives uint64, now time.Time) bool {
	e := t.entries[id]
	if e == nil || e.lives != lives || e.gossip == 0 {
		return false
	}
	e.refused = now
	return t.change(id, now, func(e *entry) { e.evidence = max(e.evidence, v) })
}

// judgement says what to do with a claim.
type judgement uint8

const (
	unheard   judgement = iota // look into it
	pointless                  // nobody here holds the peer alive
	borneOut                   // what this peer saw itself bears it out
	lively                     // the peer spoke a moment ago
)

// judge says what a claim of a peer is worth, before anything is done about it.
func (t *table) judge(id string, now time.Time, moment time.Duration) judgement {
	e := t.entries[id]
	switch {
	case e == nil || e.gossip == 0 || e.gossip == Dead:
		return pointless
	case e.evidence != 0 || e.silent:
		return borneOut
	case now.Sub(e.last) < moment:
		return lively
	}
	return unheard
}

// silence notes that a peer claimed gone did not answer, unless it showed life since lives was
// read.
func (t *table) silence(id string, lives uint64) bool {
	e := t.entries[id]
	if e == nil || e.lives != lives {
		return false
	}
	e.silent = true
	return true
}

// pinged records a round trip; it is a sign of life too (see heard).
func (t *table) pinged(id string, rtt time.Duration) {
	e := t.entries[id]
	if e == nil || rtt <= 0 {
		return
	}
	e.rtt = cmp.Or(e.rtt, rtt)
	e.rtt += (rtt - e.rtt) / 8
}

func (t *table) forget(id string) bool {
	_, ok := t.entries[id]
	delete(t.entries, id)
	return ok
}

// view makes the immutable picture.
func (t *table) view(self Member) *View {
	v := &View{Self: t.self, Members: make([]Member, 0, len(t.entries)+1)}
	v.Members = append(v.Members, self)
	for id, e := range t.entries {
		if e.gossip == 0 {
			continue
		}
		v.Members = append(v.Members, Member{
			ID: id, Name: e.meta.Name, Incarnation: e.meta.Incarnation, Seat: e.meta.Seat, Start: e.meta.Start, Addrs: slices.Clone(e.addrs),
			Roles: unpackRoles(e.meta.Roles), Version: e.meta.Version, Recipient: e.meta.Recipient, Dialect: e.meta.Dialect, Verdict: e.verdict(), Since: e.since, RTT: e.rtt,
			Parted: e.parted && e.verdict() == Dead,
		})
	}
	slices.SortFunc(v.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return v
}
