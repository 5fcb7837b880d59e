package quorum

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/taskstate"
)

// Node is a peer's part in the ledger: as a voter it runs raft, otherwise it follows a voter; its
// Replica is current either way. Open, then Found or Follow if the folder is new, then Run, then
// Close. It puts the parts together, serves the protocols, and is what others see of this package;
// no part knows it.
type Node struct {
	cfg        Config
	place      *ownSeat
	feed       *feed
	wakes      *wakes
	folder     folder
	identity   *identity
	dir        *directory
	authority  *authority
	marks      *seenMarks
	seating    *seating
	terms      *terms
	clocks     *clockTable
	stale      *staleness
	asides     *asides
	call       *caller
	prober     *prober
	electorate *electorate
	compared   *comparison
	follower   *follower

	served         *limit.Limit // followers
	snapshots      snapshotLimits
	snapshotsTaken atomic.Int64 // from others so far

	mu       sync.Mutex // of handlers: none begins after the life has ended
	handlers sync.WaitGroup
	life     context.Context // until Close
	end      context.CancelFunc
}

// Replica is this peer's copy of what was decided.
func (n *Node) Replica() *ledger.Replica { return n.place.rep }

// Propose implements Ledger. Calls that arrive while others are under way share the next entry.
// Beyond the errors of Ledger it fails with ErrOutcomeUnknown and ErrTooLarge.
func (n *Node) Propose(ctx context.Context, commands []ledger.Command) (uint64, []ledger.Result, error) {
	return n.terms.propose(ctx, commands)
}

// Coordinator is who decides now and in which epoch, as far as this peer knows: certain when it is
// this peer itself, the word of a voter otherwise. ok is false while nobody is known to decide.
func (n *Node) Coordinator() (taskstate.PeerID, taskstate.Epoch, bool) { return n.dir.coordinator() }

// Changed is closed when coordinator or epoch change after the call.
func (n *Node) Changed() <-chan struct{} { return n.wakes.changed.wait() }

// Distance is how long a decision is on its way: the round trip to the coordinator or, if that is
// longer, to a majority of the voters. It is 0 where none was measured.
func (n *Node) Distance() time.Duration {
	var trips []time.Duration
	for _, v := range n.dir.list() {
		if v.Voting && v.Peer != n.cfg.Self {
			trips = append(trips, far.RTT(n.cfg.Net, v.Peer))
		} else if v.Voting {
			trips = append(trips, 0)
		}
	}
	var most time.Duration
	if slices.Sort(trips); len(trips) > 0 {
		most = trips[len(trips)/2]
	}
	if coord, _, ok := n.dir.coordinator(); ok && coord != n.cfg.Self {
		most = max(most, far.RTT(n.cfg.Net, coord))
	}
	return most
}

// InSync tells whether this peer's copy is current: it coordinates itself, or follows somebody and
// has caught up. at is when it last was known to be (zero: never).
func (n *Node) InSync() (ok bool, at time.Time) { return n.follower.inSync() }

// Generation of the ledger this peer belongs to; 0 before it knows one.
func (n *Node) Generation() uint64 { return n.place.generation() }

// Foreign is the highest generation this peer has heard of that is above its own, 0 if none:
// somebody recovered the ledger elsewhere.
func (n *Node) Foreign() uint64 { return n.dir.newerGeneration() }

// Voters is the committed configuration, as far as this peer knows.
func (n *Node) Voters() []Voter { return n.dir.list() }

// Missing lists the voters that do not answer, for messages. It goes by what membership says, and
// by name.
func (n *Node) Missing() []taskstate.PeerID { return n.electorate.missing() }

// Seated tells whether a peer holds a seat in the ledger, as far as this peer knows.
func (n *Node) Seated(peer taskstate.PeerID) bool { return n.authority.seated(peer) }

// SeatIncarnation is that of this peer's seat, or of the one it would take: others must know it to
// make this peer a voter. Reseated is closed when it changes.
func (n *Node) SeatIncarnation() taskstate.Incarnation { return n.identity.server().Incarnation }

// Reseated is closed when SeatIncarnation or Lost change after the call.
func (n *Node) Reseated() <-chan struct{} { return n.wakes.reseated.wait() }

// Lost is the seat this peer had to give up and has not got back yet; nil if there is none.
func (n *Node) Lost() *LostSeat { return n.identity.loss() }

// Losses are the voters that had to give up their seats, because their disks lost what they had
// acknowledged, and have no other yet; this peer's own among them. Without them too few may be left
// to decide.
func (n *Node) Losses() []LostSeat { return n.marks.fill(n.identity.losses(n.dir.list())) }

// Marked is the highest entry that any voter of a generation is known here to have acknowledged, 0
// if nothing is.
func (n *Node) Marked(generation uint64) uint64 { return n.marks.highest(generation) }

// Covers tells whether a copy has all that a voter which lost its log is known to have
// acknowledged.
func (n *Node) Covers(c Copy, l LostSeat) bool { return n.marks.covers(c, l) }

// Differs says in a sentence how this peer's copy of the ledger, or somebody's, differs from the
// others', or goes further than the coordinator's; "" if nothing is known. called are the names of
// peers.
func (n *Node) Differs(called func(taskstate.PeerID) string) string { return n.compared.said(called) }

// Health is nil, or why this peer, as a voter, cannot write its log now: it takes no part in
// decisions meanwhile. Others go on without it, as long as they are a majority.
func (n *Node) Health() error {
	if s := n.place.seat.Load(); s != nil {
		return s.store.Health()
	}
	return nil
}

// Follow names peers that may be voters: whom a newcomer asks first.
func (n *Node) Follow(voters []taskstate.PeerID) {
	n.authority.seats.Assume(voters)
	if n.dir.addContacts(voters, math.MaxInt) {
		n.seating.remember("cannot remember whom to follow")
		n.wakes.follow.Set()
	}
}

// Hint is news from gossip about who coordinates: it says whom to ask, nothing more.
func (n *Node) Hint(peer taskstate.PeerID, e taskstate.Epoch) { n.authority.hint(peer, e) }

// SuspectLeader says that somebody waits for the coordinator, or has seen a sign of its end. It
// returns at once; if the coordinator is gone there will be an election, about 300 ms
// later on fast links (much sooner if dials to it are refused). If it lives, nothing happens.
func (n *Node) SuspectLeader() { n.wakes.suspect.Set() }

// Reconsider looks at the voters' rules, and at whom to follow, at once: call it when membership
// changed.
func (n *Node) Reconsider() {
	n.wakes.voters.Set()
	n.wakes.follow.Set()
}

// Handover prepares the cluster for this peer's stop. If those who stay would not be a majority of
// the voters, the configuration shrinks to them, one committed change at a time; if nobody else
// votes, a live peer becomes the voter first. A coordinator then hands leadership over, so that
// there is no gap. It returns when somebody else coordinates or nothing needs doing, and the
// context's error if that takes too long: stopping then is what a crash would be. Run must be
// running.
func (n *Node) Handover(ctx context.Context) error { return n.electorate.handover(ctx) }

// RemoveVoter takes the vote from a peer for good, before it is removed from the cluster: call it
// on the coordinator, before the Remove decision. It fails with ErrSoleVoter, and with
// ErrNotCoordinator here and when the peer is this one: leadership is on its way to another then,
// to whom the caller forwards.
func (n *Node) RemoveVoter(ctx context.Context, peer taskstate.PeerID) error {
	return n.electorate.removeVoter(ctx, peer)
}

// Stale describes this peer's seat if it is stale: it gives no vote and does not lead until its log
// has what the other voters have. nil: it is current, or there is none.
func (n *Node) Stale() *StaleSeat { return n.stale.seat() }

// SetAside lists what this peer set aside and which jobs in it are not known here, until a person
// deletes the file or folder.
func (n *Node) SetAside() []Aside { return n.asides.unknown() }

// AsideJobs reads those jobs, and says of each whether it may be submitted again. While the voters'
// logs contradict each other, the jobs that only the log of this seat has are among them: a
// recovery sets that log aside.
func (n *Node) AsideJobs() []AsideJob {
	out := n.asides.jobs()
	if s := n.place.seat.Load(); s != nil && n.compared.splits() {
		logged, _ := jobsIn(s.store) // what can be read
		for _, j := range n.asides.unknownOf(logged) {
			if !slices.ContainsFunc(out, func(o AsideJob) bool { return o.Job.ID == j.Job.ID }) {
				out = append(out, j)
			}
		}
	}
	enough := (&ledger.Submit{Again: true}).FirstAttempt(n.Generation())
	for i := range out {
		if out[i].First <= enough {
			out[i].First = 0 // a cluster that speaks dialect 1 can write the decision
		}
	}
	return out
}

// Suspend closes this peer's seat, if it has one, until Resume: it gives no vote, leads nothing,
// and follows. What is on disk stays as it is.
func (n *Node) Suspend() error { return n.seating.suspend() }

// Resume ends a suspension: this peer takes its seat again.
func (n *Node) Resume() error { return n.seating.resume() }

var _ ledger.Ledger = (*Node)(nil)

// Unread is why this peer applies no decisions any more, nil if it does.
func (n *Node) Unread() error { return n.place.unread.err() }
