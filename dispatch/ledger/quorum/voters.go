package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/taskstate"
)

// Voter is one server of the ledger's configuration. The server is a life of a peer, not the peer:
// a peer that comes back with another incarnation lost its disk, and inherits no vote.
type Voter struct {
	Peer        taskstate.PeerID      `cbor:"1,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"2,keyasint"`
	Voting      bool                  `cbor:"3,keyasint,omitempty"` // false while it catches up
}

// server is the name of a voter inside raft: PEER/INCARNATION, id and address at once. The address
// carries the incarnation too, so that a stream meant for a lost disk is refused by its successor.
func (v Voter) server() string { return v.Peer + "/" + string(v.Incarnation) }

// String writes the server, and whether it only listens.
func (v Voter) String() string {
	if v.Voting {
		return v.server()
	}
	return v.server() + " (not voting)"
}

// parseServer reads what server writes.
func parseServer(s string) (taskstate.PeerID, taskstate.Incarnation, error) {
	peer, inc, ok := strings.Cut(s, "/")
	if !ok || peer == "" || inc == "" {
		return "", "", fmt.Errorf("raft server %q: want PEER/INCARNATION", s)
	}
	return peer, taskstate.Incarnation(inc), nil
}

// Candidate is a peer as the voters' rules see it: an observation, handed in by what watches the
// cluster.
type Candidate struct {
	Peer        taskstate.PeerID
	Incarnation taskstate.Incarnation // the life that was seen last
	Alive       bool                  // false also while it is only suspected
	Since       time.Time             // since when Alive is what it is
	Eligible    bool                  // admitted with the role voter, and has not left
	RTT         time.Duration         // the round trip to it, 0 if it was never measured
}

// MaxVoters is the largest number of voters: more would cost more per decision than they save.
const MaxVoters = 5

// targetVoters is how many voters a cluster of n eligible peers has: the largest odd number that is
// not above n or MaxVoters.
func targetVoters(n int) int {
	n = min(n, MaxVoters)
	if n%2 == 0 {
		n--
	}
	return max(n, 1)
}

// majority of n voters.
func majority(n int) int { return n/2 + 1 }

// seatView is a server of the configuration together with what was seen of it.
type seatView struct {
	Voter
	Ready bool // it answered just now, and its log has caught up
}

// planInput is all that the voters' rules look at.
type planInput struct {
	Self       taskstate.PeerID // the coordinator, which asks
	Servers    []seatView       // the committed configuration
	Candidates []Candidate
	Now        time.Time
	Replace    time.Duration // a voter dead for so long is replaced by a live peer
	Shrink     time.Duration // five voters of which one is dead for so long become three
}

// changeKind is what to do to the configuration.
type changeKind string

const (
	changeNone    changeKind = ""
	changeAdd     changeKind = "add"     // servers that listen, to catch up
	changePromote changeKind = "promote" // all of Servers, back to back, only if all answer now
	changeReplace changeKind = "replace" // remove Old, promote Servers
	changeRemove  changeKind = "remove"
)

// change is one step of the plan. After each the plan is made anew.
type change struct {
	Kind    changeKind
	Servers []Voter
	Old     Voter
	Why     string
}

// planVoters says what to do next so that the largest odd number ≤ min(5, eligible peers) of live
// peers votes. It is a pure function of what the coordinator sees; it proposes at most one step,
// and none that would leave the living without a majority.
func planVoters(in planInput) change {
	p := newPlanner(in)
	for _, step := range []func() change{p.dropListeners, p.dropVoters, p.promote, p.add, p.shrink} {
		if c := step(); c.Kind != changeNone {
			return c
		}
	}
	return change{}
}

// planner sorts the servers into the groups the rules speak of.
type planner struct {
	planInput
	by       map[taskstate.PeerID]Candidate
	target   int
	voters   []seatView // all that vote
	bad      []seatView // voters that are lost or long dead: to be replaced
	learners []seatView // live servers that do not vote yet
	pool     []Voter    // live peers that could be added, best first
	replace  int        // how many of bad have somebody to take their place
	grow     int        // how many more voters there can be, keeping the number odd
}

func newPlanner(in planInput) *planner {
	p := &planner{planInput: in, by: make(map[taskstate.PeerID]Candidate, len(in.Candidates))}
	eligible := 0
	for _, c := range in.Candidates {
		p.by[c.Peer] = c
		if c.Eligible || c.Peer == in.Self {
			eligible++
		}
	}
	p.target = targetVoters(eligible)
	for _, s := range in.Servers {
		switch {
		case s.Voting:
			p.voters = append(p.voters, s)
			if !p.gone(s.Voter) && (p.lost(s.Voter) || p.deadFor(s.Voter, in.Replace)) {
				p.bad = append(p.bad, s)
			}
		case p.answers(s.Voter) && !p.gone(s.Voter):
			p.learners = append(p.learners, s)
		}
	}
	p.pool = p.spare()
	free := len(p.learners) + len(p.pool)
	p.replace = min(len(p.bad), free)
	for k := min(p.target-len(p.voters), free-p.replace); k > 0; k-- {
		if (len(p.voters)+k)%2 == 1 {
			p.grow = k
			break
		}
	}
	return p
}

// spare lists live eligible peers whose present life has no server, those that have been here
// longest first.
func (p *planner) spare() []Voter {
	var cs []Candidate
	for _, c := range p.Candidates {
		has := slices.ContainsFunc(p.Servers, func(s seatView) bool { return s.Peer == c.Peer && s.Incarnation == c.Incarnation })
		if c.Alive && c.Eligible && c.Incarnation != "" && !has {
			cs = append(cs, c)
		}
	}
	slices.SortFunc(cs, func(a, b Candidate) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Peer, b.Peer)) })
	out := make([]Voter, len(cs))
	for i, c := range cs {
		out[i] = Voter{Peer: c.Peer, Incarnation: c.Incarnation}
	}
	return out
}

// gone: no longer admitted as a voter.
func (p *planner) gone(v Voter) bool {
	c, ok := p.by[v.Peer]
	return v.Peer != p.Self && (!ok || !c.Eligible)
}

// lost: the peer lives, with another disk. This life will never answer again.
func (p *planner) lost(v Voter) bool {
	c, ok := p.by[v.Peer]
	return ok && v.Peer != p.Self && c.Alive && c.Incarnation != "" && c.Incarnation != v.Incarnation
}

// answers: this very life of it is here, whether it should vote or not.
func (p *planner) answers(v Voter) bool {
	c, ok := p.by[v.Peer]
	return v.Peer == p.Self || ok && c.Alive && c.Incarnation == v.Incarnation
}

func (p *planner) deadFor(v Voter, d time.Duration) bool {
	c, ok := p.by[v.Peer]
	return v.Peer != p.Self && (!ok || !c.Alive && p.Now.Sub(c.Since) >= d)
}

// dropListeners removes servers that listen and are of no use: gone, lost, long dead, or more than
// are wanted.
func (p *planner) dropListeners() change {
	for _, s := range p.Servers {
		if !s.Voting && (p.gone(s.Voter) || p.lost(s.Voter) || p.deadFor(s.Voter, p.Replace)) {
			return change{Kind: changeRemove, Servers: []Voter{s.Voter}, Why: "it will not catch up"}
		}
	}
	if n := p.replace + p.grow; len(p.learners) > n {
		return change{Kind: changeRemove, Servers: []Voter{p.learners[len(p.learners)-1].Voter}, Why: "more servers than voters are wanted"}
	}
	return change{}
}

// dropVoters removes voters that are no longer admitted.
func (p *planner) dropVoters() change {
	for _, s := range p.voters {
		if !p.gone(s.Voter) {
			continue
		}
		if v, ok := planLeave(p.seats(), s.Voter, p.answers); ok {
			return change{Kind: changeRemove, Servers: []Voter{v}, Why: "no longer admitted as a voter"}
		}
	}
	return change{}
}

func (p *planner) seats() []Voter {
	out := make([]Voter, len(p.voters))
	for i, s := range p.voters {
		out[i] = s.Voter
	}
	return out
}

// promote gives a vote to those that have caught up: in place of a lost one, or two at once so that
// the number stays odd.
func (p *planner) promote() change {
	var ready []Voter
	for _, s := range p.learners {
		if s.Ready {
			ready = append(ready, s.Voter)
		}
	}
	if len(p.bad) > 0 && len(ready) > 0 {
		return change{Kind: changeReplace, Old: p.bad[0].Voter, Servers: ready[:1], Why: "the old one does not answer any more"}
	}
	n := min(p.grow, 2-(1-len(p.voters)%2))
	if n > 0 && len(ready) >= n {
		return change{Kind: changePromote, Servers: ready[:n], Why: "caught up"}
	}
	return change{}
}

// add brings in as many listeners as can become voters.
func (p *planner) add() change {
	if n := p.replace + p.grow - len(p.learners); n > 0 {
		return change{Kind: changeAdd, Servers: p.pool[:min(n, len(p.pool))], Why: "to catch up and vote"}
	}
	return change{}
}

// shrink leaves fewer voters: when fewer are eligible, when one of five stays dead, and whenever
// the number is even and cannot grow.
func (p *planner) shrink() change {
	n := len(p.voters)
	why := ""
	switch {
	case n > p.target:
		why = "more voters than the cluster needs"
	case n%2 == 0 && p.grow == 0:
		why = "an even number of voters survives no more than one less"
	case n >= MaxVoters && p.replace == 0 && slices.ContainsFunc(p.voters, func(s seatView) bool { return p.deadFor(s.Voter, p.Shrink) }):
		why = "nobody can take the place of a dead voter"
	default:
		return change{}
	}
	for _, v := range shrinkOrder(p.seats(), p.Self, p.answers) {
		if w, ok := planLeave(p.seats(), v, p.answers); ok {
			return change{Kind: changeRemove, Servers: []Voter{w}, Why: why}
		}
	}
	return change{}
}

// shrinkOrder lists whom to take the vote from first: the dead, then the living in reverse order of
// name, never the coordinator.
func shrinkOrder(voters []Voter, self taskstate.PeerID, alive func(Voter) bool) []Voter {
	out := slices.DeleteFunc(slices.Clone(voters), func(v Voter) bool { return v.Peer == self })
	slices.SortFunc(out, func(a, b Voter) int {
		if da, db := alive(a), alive(b); da != db {
			if db {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.Peer, a.Peer)
	})
	return out
}

// planLeave names the next voter to remove so that leaving can go and the living keep a majority
// all the way: leaving itself, or first somebody dead. ok is false if nothing may be removed:
// leaving is alone, or the others could not decide.
func planLeave(voters []Voter, leaving Voter, alive func(Voter) bool) (next Voter, ok bool) {
	living, dead := others(voters, leaving, alive)
	if living > 0 && living >= majority(len(voters)-1) {
		return leaving, true
	}
	if len(dead) > 0 && living > 0 {
		return dead[0], true
	}
	return Voter{}, false
}

// planHandover names the next voter to remove before leaving stops: none (done) while those who
// stay are a majority of the configuration as it is. The dead go first: a peer that leaves may be
// back soon.
func planHandover(voters []Voter, leaving Voter, alive func(Voter) bool) (next Voter, ok bool) {
	living, dead := others(voters, leaving, alive)
	switch {
	case living == 0 || living >= majority(len(voters)):
		return Voter{}, false
	case len(dead) > 0:
		return dead[0], true
	}
	return leaving, true
}

// others counts who lives among the voters but for one, and lists the dead.
func others(voters []Voter, leaving Voter, alive func(Voter) bool) (living int, dead []Voter) {
	for _, v := range voters {
		switch {
		case v == leaving:
		case alive(v):
			living++
		default:
			dead = append(dead, v)
		}
	}
	return living, dead
}

// peersOf lists the peers of voters.
func peersOf(vs []Voter) []taskstate.PeerID {
	out := make([]taskstate.PeerID, len(vs))
	for i, v := range vs {
		out[i] = v.Peer
	}
	return out
}

// votersOf translates raft's configuration.
func votersOf(c raft.Configuration) []Voter {
	out := make([]Voter, 0, len(c.Servers))
	for _, s := range c.Servers {
		if peer, inc, err := parseServer(string(s.ID)); err == nil {
			out = append(out, Voter{Peer: peer, Incarnation: inc, Voting: s.Suffrage == raft.Voter})
		}
	}
	return out
}
