package placement

import (
	"cmp"
	"slices"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// Move says that N tasks of a job go from one peer to another.
type Move struct {
	From, To taskstate.PeerID
	N        int
}

// Rebalance says which tasks that are there already (OfJob) should move, so that the peers – with
// Over first the values of its key – differ by one task of the job at most, or by as little as
// resources, Room and MaxPerPeer let them. It moves as few as that takes, and only onto what is
// free now. Peers that Place would refuse for good, and those not ready or not available, give and
// take nothing; where the job failed too often takes nothing while there are others. need.Tasks
// does not matter. Binpack and random have no balance: no moves.
func Rebalance(need Need, peers []Peer) []Move {
	if need.Only != "" || need.Strategy == taskstate.Binpack || need.Strategy == taskstate.Random {
		return nil
	}
	a := prepare(need)
	part, others := a.targets(peers)
	sum := 0
	for i := range part {
		sum += part[i].have
	}
	if need.Over == (constraint.Key{}) {
		level(part, sum)
		return pair(part)
	}
	groups := a.group(part, others)
	level(groups, sum)
	part = part[:0]
	for _, g := range groups {
		part = append(part, g.members...)
	}
	return pair(part)
}

// target is a peer or a group of peers that gives or takes tasks.
type target struct {
	*Peer            // nil for a group
	value   string   // of a group
	members []target // of a group
	fixed   int      // tasks of the job that stay there whatever happens
	have    int      // tasks now that can go
	most    int      // it can have besides fixed, ≥ have
	want    int      // it should have besides fixed
}

// targets are the peers that take part, and the tasks of the job on those that do not.
func (a *ask) targets(peers []Peer) (part []target, others []*Peer) {
	var faulty []int
	last := lasting()
	ref := refusals{counts: make([][]int, len(last))}
	for i := range peers {
		c := candidate{Peer: &peers[i], at: i, fits: 1, room: 1}
		if ref.pass(a, last, 0, len(last), &c) < len(last) {
			others = append(others, c.Peer)
			continue
		}
		fits, _ := a.howMany(c.Free)
		most := c.OfJob + max(0, min(fits, c.Room))
		if a.MaxPerPeer > 0 {
			most = max(c.OfJob, min(most, a.MaxPerPeer))
		}
		if c.Faulty {
			faulty = append(faulty, len(part))
		}
		part = append(part, target{Peer: c.Peer, have: c.OfJob, most: most})
	}
	if len(faulty) < len(part) {
		for _, i := range faulty {
			part[i].most = part[i].have
		}
	}
	return part, others
}

// group puts the targets under the values of the key that the job is spread over.
func (a *ask) group(part []target, others []*Peer) []target {
	var groups []target
	index := map[string]int{}
	of := func(p *Peer) *target {
		value := a.overValue(p)
		at, known := index[value]
		if !known {
			at = len(groups)
			index[value] = at
			groups = append(groups, target{value: value})
		}
		return &groups[at]
	}
	for _, s := range part {
		g := of(s.Peer)
		g.members, g.have, g.most = append(g.members, s), g.have+s.have, g.most+s.most
	}
	for _, p := range others {
		of(p).fixed += p.OfJob
	}
	return groups
}

// level says how many of n tasks each target should have: as evenly as they can take them. What
// does not make a whole level goes where it saves most moves, for a move saved is a task that is
// not stopped.
func level(targets []target, n int) {
	if len(targets) == 0 {
		return
	}
	vs := make([]bucket, len(targets))
	for i := range targets {
		vs[i] = bucket{have: targets[i].fixed, room: targets[i].most}
	}
	height := waterLevel(vs, n)
	type rising struct {
		*target
		saves int
	}
	var surface []rising
	for i := range targets {
		s := &targets[i]
		s.want = vs[i].below(height)
		n -= s.want
		if s.fixed+s.want == height && s.want < s.most {
			surface = append(surface, rising{s, s.moves(s.want) - s.moves(s.want+1)})
		}
	}
	slices.SortFunc(surface, func(a, b rising) int {
		if c := cmp.Compare(b.saves, a.saves); c != 0 || a.Peer == nil {
			return cmp.Or(c, cmp.Compare(a.value, b.value))
		}
		return cmp.Or(cmp.Compare(a.Total, b.Total), cmp.Compare(a.ID, b.ID))
	})
	for _, s := range surface[:min(n, len(surface))] {
		s.want++
	}
	for i := range targets {
		level(targets[i].members, targets[i].want)
	}
}

// moves is how many tasks have to leave their peers if s should have n.
func (s *target) moves(n int) int {
	if s.Peer != nil {
		return max(0, s.have-n)
	}
	level(s.members, n)
	sum := 0
	for i := range s.members {
		sum += s.members[i].moves(s.members[i].want)
	}
	return sum
}

// pair lets those that have too many give to those that have too few, in the order of their ids.
func pair(targets []target) []Move {
	slices.SortFunc(targets, func(a, b target) int { return cmp.Compare(a.ID, b.ID) })
	var moves []Move
	to := 0
	for i := range targets {
		for from := &targets[i]; from.have > from.want; {
			for targets[to].have >= targets[to].want {
				to++
			}
			n := min(from.have-from.want, targets[to].want-targets[to].have)
			moves = append(moves, Move{From: from.ID, To: targets[to].ID, N: n})
			from.have -= n
			targets[to].have += n
		}
	}
	return moves
}
