package quorum

import (
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/ledger/quorum/mark"
	"covey/p2p/admission"
	"covey/taskstate"
)

// FollowProtocol feeds a peer's replica from a voter: a snapshot if it must be, then entries as
// they are applied.
const FollowProtocol = "/covey/follow/1"

// followHello opens a stream: what the follower has. Generation 0 has nothing.
type followHello struct {
	Generation uint64 `cbor:"1,keyasint"`
	Index      uint64 `cbor:"2,keyasint"`
	Cluster    string `cbor:"3,keyasint,omitempty"`
	Copy       bool   `cbor:"4,keyasint,omitempty"` // only a snapshot, of whatever this peer has: to recover the ledger from it
	// Seats is the newest record of who holds a seat the follower knows: the voter it asks may lack
	// the proof of its own.
	Seats []admission.Seats `cbor:"5,keyasint,omitempty"`
	Marks []mark.Signed     `cbor:"6,keyasint,omitempty"` // how far the voters had acknowledged, as this follower can prove
}

// followFrame is what a voter sends: one field is set.
type followFrame struct {
	Part   *snapshotPart `cbor:"1,keyasint,omitempty"`
	Items  []item        `cbor:"2,keyasint,omitempty"`
	Synced bool          `cbor:"3,keyasint,omitempty"` // everything this voter had when asked has been sent
	Mark   *bookmark     `cbor:"4,keyasint,omitempty"`
	Refuse *followRefuse `cbor:"5,keyasint,omitempty"`
	// Seats comes with the first frame, which has nothing else: the proof that who sends it holds a
	// seat.
	Seats []admission.Seats `cbor:"6,keyasint,omitempty"`
}

// snapshotPart is a piece of an encoded State.
type snapshotPart struct {
	Data  []byte `cbor:"1,keyasint"`
	Total int    `cbor:"2,keyasint"`
	Last  bool   `cbor:"3,keyasint,omitempty"`
}

// bookmark says where the voter stands: sent on every change of coordinator or voters, and at least
// every bookmarkEvery.
type bookmark struct {
	Index       uint64           `cbor:"1,keyasint"`
	Coordinator taskstate.PeerID `cbor:"2,keyasint,omitempty"` // "" while this voter knows of none
	Epoch       taskstate.Epoch  `cbor:"3,keyasint"`           // of Coordinator, or the last one known
	Voters      []Voter          `cbor:"4,keyasint,omitempty"`
	VotersIndex uint64           `cbor:"5,keyasint,omitempty"`
	// Seats proves Voters to others; it comes when they have changed.
	Seats []admission.Seats `cbor:"6,keyasint,omitempty"`
	Marks []mark.Signed     `cbor:"8,keyasint,omitempty"` // of the voters
	Chain *ledger.ChainMark `cbor:"7,keyasint,omitempty"` // of what this voter has applied
}

func (b bookmark) same(o bookmark) bool {
	return b.Coordinator == o.Coordinator && b.Epoch == o.Epoch && b.VotersIndex == o.VotersIndex
}

// followRefuse says why not, and whom to ask.
type followRefuse struct {
	Code        string             `cbor:"1,keyasint"`
	Coordinator taskstate.PeerID   `cbor:"2,keyasint,omitempty"`
	Voters      []taskstate.PeerID `cbor:"3,keyasint,omitempty"`
	Generation  uint64             `cbor:"4,keyasint,omitempty"`
}

// Codes of followRefuse.
const (
	refuseNotVoter = "not-a-voter"
	refuseOlder    = "older-ledger" // the follower has a higher generation than this voter
	refuseForeign  = "other-cluster"
	refuseAhead    = "less-than-you" // the follower has decisions that this leader does not have
	refuseBusy     = "busy"
	refuseTooSlow  = "too-slow" // the follower fell behind what is kept; it comes back and gets a snapshot
)

const (
	followTimeout = 10 * time.Second // for one write, and for a frame before the follower has caught up
	greetTimeout  = 3 * time.Second  // until the first frame, which says nothing but that there is somebody
	partBytes     = 512 << 10        // of snapshots and large entries, per frame
	maxSnapshot   = 512 << 20        // a follower refuses to gather more
	maxFollowers  = 128              // streams one voter serves; a cluster has more voters by then
	seatsShown    = 4                // records of seats in a bookmark, and in a hello
	maxFollowing  = 4                // of them to one peer: one, and some whose end was not noticed yet
)

// mark is this peer's bookmark now.
func (n *Node) mark() bookmark {
	index := n.feed.ring.end()
	chain, ok := n.place.rep.ChainAt(0)
	b := n.dir.bookmark()
	if b.Index = index; ok {
		b.Chain = &chain
	}
	return b
}
