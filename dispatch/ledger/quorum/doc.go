// Package quorum keeps the ledger where a majority of voters has it: what was acknowledged is on
// their disks, in one order, and at most one of them, the coordinator, writes. It runs raft at
// those that hold a seat, feeds everybody else's replica from them, elects, seats and unseats
// voters, notices a disk that lost or changed something, and begins a ledger again from a copy when
// a person says so.
//
// # How to drive it
//
// A peer has one Node. Package node makes it and calls, in this order:
//
//	Open(config)             reads the folder: a voter has its seat again, all have their replica
//	Found(first decision)    only in an empty folder: a new ledger, this peer its only voter
//	Follow(peers)            otherwise, in a new folder: whom to ask for the ledger
//	Run(ctx, lead)           until ctx ends; lead is called for every term of this peer's own
//	Handover(ctx)            before a stop, while Run runs: those who stay can decide
//	Close()                  when Run has returned
//
// Meanwhile, from any goroutine:
//
//   - Propose, Replica and Coordinator are the ledger.Ledger that the coordinator's loop works
//     with. lead(ctx, epoch) is that loop; it ends when ctx does, which is when leadership is lost.
//   - Hint, SuspectLeader and Reconsider bring in what others observe: gossip names a coordinator;
//     a call to it is late, or membership suspects it; membership changed. They return at once.
//   - Changed and Reseated are closed when the coordinator, or this peer's place, are others.
//   - InSync, Missing, Losses, Health, Differs and Foreign say how things are, for people.
//   - RemoveVoter is for the coordinator, before the decision that removes a peer.
//   - Doubt and Stale are for a peer whose data folder may be an old copy.
//   - Suspend and Resume are for a peer that learns of a copy of itself.
//   - Copy, AskCopy, Marked and Recover are for a person who has lost a majority for good.
//
// # The states of a peer
//
//	          Prepare, from        caught up,
//	          the coordinator      promoted           elected
//	follows -----------------> listens --------> votes -------> coordinates
//	   ^                          |               |  ^               |
//	   +--------------------------+---------------+  +---------------+
//	    removed from the configuration, or               no majority, disk stuck,
//	    the seat is unsound, or a newer generation       handed over
//
// Found and Recover begin as the only voter. A seat is a place among raft's servers, named
// PEER/INCARNATION: each seat of a peer has an incarnation of its own, so that nothing that was
// meant for a seat which was lost reaches the next one. The coordinator looks at the voters' rules
// (a pure plan, voters.go) about once a second, every five seconds while all voters live and
// nothing is to be done, and takes one step at a time: the largest odd number up to five of
// eligible live peers votes, and no step leaves the living without a majority.
//
// A seat whose disk has less than was acknowledged, or something else, is unsound: it gives no vote
// from that moment on, what is left of it is put aside, and the peer is seated anew (identity.go).
// How far each seat had acknowledged is known from its own mark on disk and from what others saw of
// it, signed (marks.go). A seat whose folder may be an old copy or a second one is stale: it gives
// no vote until it has heard every other voter (stale.go). What a coordinator has a voter take out
// of its log is kept first (aside.go). Before a vote or an entry passes between two voters they
// show each other a point of their logs: a voter that was put back unnoticed may have voted twice
// in a term (logs.go). Replicas hold a rolling checksum against each other (compare.go).
//
// # Whom a replica is fed by
//
// Everybody who does not coordinate follows the coordinator over one stream, voters too: raft tells
// them late what has been committed. The stream begins with proof that its sender holds a seat;
// then a snapshot if the follower is too far behind what the sender still has in memory, then
// entries, and bookmarks that say who coordinates, who votes, and how far the voters have
// acknowledged. If the coordinator cannot be reached, any voter will do. A ledger of a higher
// generation, which somebody recovered elsewhere, replaces one's own only when it comes from a peer
// that proves its seat.
//
// What jobs run is sent to those only that hold a seat or are to get one, and to those with a role
// that reads (authority.reads); to others only of the jobs they have to do with. Who comes to be
// one of those gets a snapshot, and a seat whose replica lacks something says that it has no log
// yet.
//
// # How a coordinator is replaced
//
// Raft's own timers are slow, because an idle cluster should sleep. Who has a reason to think that
// the coordinator is gone says so (SuspectLeader); the voters probe it, and ask each other
// (probe.go). If a majority does not hear it, the one with the longest log asks for a permit and
// stands (election.go). Raft alone decides who wins.
//
// # Whose clock counts
//
// The coordinator stamps entries by its clock, never before the newest stamp. With three voters or
// more it stamps at most five minutes above the lower median of the voters' clocks, which they tell
// each other with each question and answer, and hands leadership on while its own clock is beyond
// that (clocks.go). Entries that are in a log are never refused for their stamp.
//
// # Its parts
//
// Node puts the parts together; none knows it, and each owns its fields. place and directory: what
// is known of this peer and of others. authority: what of that is believed. folder, identity,
// seating: the seat on disk, what is remembered of it, its opening and giving up. feed: what goes
// into the replica. terms: when this peer coordinates, and what it proposes. timekeeper: by which
// clock. prober: whether the leader is gone. electorate: who votes. seenMarks, comparison: what
// disks lost or changed. staleness: whether the folder may be an old copy. asides: what was taken
// out of the log. follower: which voter feeds the replica.
//
// # What it does not do
//
// It does not know what a decision means: package ledger does. It does not watch peers: Candidates,
// Hint and SuspectLeader are told to it. It does not decide who is admitted, and trusts no role:
// only who holds a seat in the committed configuration is believed (authority.go). It never begins
// a ledger again by itself.
package quorum
