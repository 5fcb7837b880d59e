package placement

import "github.com/coveyproject/covey/taskstate/constraint"

// Matcher remembers which constraints the peers meet, so that asking again costs a comparison per
// peer. It only saves work: a peer's facts are immutable, so an answer is good as long as the
// pointer to them is the same. It pays when the peers are given in the same order from call to
// call. The zero Matcher is ready for use, by one goroutine at a time, best by one class of jobs.
type Matcher struct {
	of    []constraint.Constraint
	peers []answer // by position
}

type answer struct {
	facts *constraint.Facts
	first int // constraint that is broken, -1 = none
}

// serve forgets everything if the constraints are others than last time.
func (m *Matcher) serve(cs []constraint.Constraint) {
	if len(m.of) != len(cs) || len(cs) > 0 && &m.of[0] != &cs[0] {
		m.of, m.peers = cs, m.peers[:0]
	}
}

// broken is constraint.FirstBroken for the peer at a position.
func (m *Matcher) broken(at int, f *constraint.Facts) int {
	for len(m.peers) <= at {
		m.peers = append(m.peers, answer{})
	}
	if known := &m.peers[at]; f == nil || known.facts != f {
		known.facts, known.first = f, constraint.FirstBroken(m.of, f)
	}
	return m.peers[at].first
}
