package quorum

import (
	"cmp"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
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
	// Lacks: of some jobs the follower does not know what they run. If it may, it needs a snapshot.
	Lacks bool `cbor:"7,keyasint,omitempty"`
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

// VoterProtocol is how a coordinator asks a peer to take a seat, and how a voter asks to be let go:
// one question, one answer.
const VoterProtocol = "/covey/voter/1"

// voterAsk is a question: one field is set, or none but Marks.
type voterAsk struct {
	Prepare *seatAsk  `cbor:"1,keyasint,omitempty"` // start raft, with an empty log, to be brought up to date
	Status  *seatAsk  `cbor:"2,keyasint,omitempty"` // how far is your log
	Leave   *Voter    `cbor:"3,keyasint,omitempty"` // I am about to stop; see that those who stay can decide
	Copy    *copyAsk  `cbor:"4,keyasint,omitempty"` // how new is your copy of the ledger
	Probe   *probeAsk `cbor:"5,keyasint,omitempty"` // do you lead, or hear who does

	Marks []mark.Signed `cbor:"6,keyasint,omitempty"` // what this voter can prove of others, and of itself

	Chain *ledger.ChainMark `cbor:"8,keyasint,omitempty"` // what was your chain after this entry; mine was this

	Clock int64     `cbor:"11,keyasint,omitempty" dialect:"2"` // what the asker's clock shows, milliseconds since 1970
	Log   *logPoint `cbor:"12,keyasint,omitempty" dialect:"2"` // what is your log's entry of this index
}

// seatAsk names the seat: this life of the peer, in this ledger.
type seatAsk struct {
	Generation uint64 `cbor:"1,keyasint"`
	Server     string `cbor:"2,keyasint"`
}

// voterAnswer answers. Last is the end of the peer's log.
type voterAnswer struct {
	OK    bool         `cbor:"1,keyasint,omitempty"`
	Why   string       `cbor:"2,keyasint,omitempty"`
	Last  uint64       `cbor:"3,keyasint,omitempty"`
	None  bool         `cbor:"4,keyasint,omitempty"` // there is no such seat here
	Copy  *Copy        `cbor:"5,keyasint,omitempty"`
	Probe *probeAnswer `cbor:"6,keyasint,omitempty"`

	Chain *ledger.ChainMark `cbor:"9,keyasint,omitempty"`              // nil: not known
	Marks []mark.Signed     `cbor:"10,keyasint,omitempty"`             // as in voterAsk
	Lost  *LostSeat         `cbor:"7,keyasint,omitempty"`              // the seat this peer lost, whatever was asked
	Clock int64             `cbor:"13,keyasint,omitempty" dialect:"2"` // as in voterAsk
	Log   *logPoint         `cbor:"14,keyasint,omitempty" dialect:"2"` // nil: not there
}

const (
	voterTimeout = 3 * time.Second  // for an answer
	leaveTimeout = 20 * time.Second // for the answer to Leave, which takes several decisions
)

// copyAsk asks for a Copy.
type copyAsk struct{}

// Copy tells how new one peer's copy of the ledger is. Copies of one generation are beginnings of
// the same history.
type Copy struct {
	Generation  uint64           `cbor:"1,keyasint"`
	Epoch       taskstate.Epoch  `cbor:"2,keyasint"`           // of the newest decision
	Index       uint64           `cbor:"3,keyasint"`           // of the newest decision; 0: there is none
	Stamp       int64            `cbor:"4,keyasint"`           // of the newest decision, milliseconds since 1970
	Seat        string           `cbor:"5,keyasint,omitempty"` // the server this peer runs, if it has a place among the voters
	Coordinator taskstate.PeerID `cbor:"6,keyasint,omitempty"` // who decides now as far as this peer knows
	Voters      []Voter          `cbor:"7,keyasint,omitempty"` // as far as this peer knows
	VotersIndex uint64           `cbor:"8,keyasint,omitempty"`
	Stale       bool             `cbor:"9,keyasint,omitempty" dialect:"2"` // the server gives no vote: its log may be an old copy, or contradicts those of others
}

// Compare orders copies by how new they are, as raft orders logs: the generation first, then the
// epoch of the newest decision, then its index.
func (c Copy) Compare(o Copy) int {
	switch {
	case c.Generation != o.Generation:
		return cmp.Compare(c.Generation, o.Generation)
	case c.Epoch != o.Epoch:
		return c.Epoch.Compare(o.Epoch)
	}
	return cmp.Compare(c.Index, o.Index)
}

// probeAsk asks a voter about the leader of a generation.
type probeAsk struct {
	Generation uint64 `cbor:"1,keyasint"`
	Direct     bool   `cbor:"2,keyasint,omitempty"` // say only whether it is you
	Look       bool   `cbor:"3,keyasint,omitempty"` // the same, and look for yourself: somebody without a vote waits for the leader
	Permit     string `cbor:"4,keyasint,omitempty"` // this server wants to stand for election: say whether you permit it
	Term       uint64 `cbor:"5,keyasint,omitempty"` // after this term
}

// probeAnswer is what a voter answers.
type probeAnswer struct {
	Leads   bool   `cbor:"1,keyasint,omitempty"` // it is I
	Hears   bool   `cbor:"2,keyasint,omitempty"` // I do not lead, but heard the leader since you asked
	Last    uint64 `cbor:"3,keyasint,omitempty"` // the end of my log
	Permits bool   `cbor:"4,keyasint,omitempty"` // it may stand; I do not, and I permit no other for a while
}

// Loss is a seat that was given up, because what its disk holds cannot be believed.
type LostSeat struct {
	Server     string `cbor:"1,keyasint"`           // PEER/INCARNATION
	Generation uint64 `cbor:"2,keyasint"`           // of the ledger it voted in
	Held       uint64 `cbor:"3,keyasint,omitempty"` // the log had reached this entry, as far as is known
	Left       uint64 `cbor:"4,keyasint,omitempty"` // what is left of it ends at this one
	Why        string `cbor:"5,keyasint,omitempty"`
	At         int64  `cbor:"6,keyasint,omitempty"` // milliseconds since 1970
	Folder     string `cbor:"7,keyasint,omitempty"` // where what is left was put, on that peer
}

// Peer is who lost the seat.
func (l LostSeat) Peer() taskstate.PeerID {
	peer, _, _ := parseServer(l.Server)
	return peer
}

// RaftProtocol carries raft's own messages between voters.
const RaftProtocol = "/covey/raft/1"

// raftHello comes before raft's bytes on every stream. It names both servers, so that nobody
// answers for a disk that was lost, and the generation, so that ledgers of two generations never
// exchange a vote.
type raftHello struct {
	Generation uint64 `cbor:"1,keyasint"`
	From       string `cbor:"2,keyasint"`
	To         string `cbor:"3,keyasint"`

	Marks []mark.Signed `cbor:"5,keyasint,omitempty"`             // how far From had acknowledged, and what it saw of others
	Log   *logPoint     `cbor:"6,keyasint,omitempty" dialect:"2"` // the newest entry of From's log
}

// raftAnswer accepts a hello, or says why not.
type raftAnswer struct {
	OK         bool   `cbor:"1,keyasint,omitempty"`
	Generation uint64 `cbor:"2,keyasint,omitempty"`
	Why        string `cbor:"3,keyasint,omitempty"`

	Marks []mark.Signed `cbor:"4,keyasint,omitempty"`             // as in raftHello
	Log   *logPoint     `cbor:"5,keyasint,omitempty" dialect:"2"` // the newest entry here that is not after the one in the hello
}

const (
	raftHelloCap     = 8 << 10
	raftHelloTimeout = 3 * time.Second
)

// maxContacts bounds the peers remembered to ask.
const maxContacts = 32

// item is one entry on its way to a follower, or a part of one.
type item struct {
	Index uint64 `cbor:"1,keyasint"`
	Data  []byte `cbor:"2,keyasint"`
	More  bool   `cbor:"3,keyasint,omitempty"` // the next item goes on with the same entry

	public ledger.Public // of it; not on the wire
}
