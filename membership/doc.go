// Package membership says who is here: which peers of the cluster are alive, suspect or dead, where
// they are dialled and who is said to coordinate.
//
// It is hashicorp/memberlist (SWIM: random probes, indirect probes, suspicion, gossip) spoken over
// streams of the Net port: one long-lived stream per neighbour carries packets, each push/pull has
// a stream of its own. A member's name is its peer id; its memberlist address is a constant made
// from that id, so that a peer that moves is never a conflict; where it really is travels in its
// Meta. There is no second port and no second key: the stream says who speaks, and members that are
// not admitted are refused.
//
// # What is added to memberlist
//
//   - Views: immutable, sorted by peer id; observers hear of the newest one, coalesced.
//   - Evidence. Probe checks a peer at once, because a connection to it broke. If the dial is
//     refused here (nobody listens: the process is gone) and refused to one other peer too, the
//     verdict is Dead at once. A timeout is never evidence: memberlist decides about silence. Any
//     sign of life – a packet, an answered probe, a dial that works, a newer alive message – clears
//     evidence.
//   - Doubts. A refutation is gossiped a few times only, and memberlist at a peer that misses it
//     calls the suspect dead. So members near a suspect exchange everything with it, unless the
//     suspicion has been refuted a moment later. A peer that knew more than LargeCluster others at
//     its start does not: suspicion is slow there. A peer that spoke a moment before memberlist
//     calls it dead is suspect until it was asked: memberlist goes on from a suspicion until it is
//     refuted, and a peer that is just back would be dead by one of its life before.
//   - Members that lie. memberlist takes everybody's word; what stands between (intake) lets only
//     messages through that peers of this program send, and few of one peer at a time. What a
//     member says about itself is signed, with its incarnation: others pass it on and can change
//     nothing of it. A claim is a reason to ping the peer it is about, and is believed if it does not
//     answer. What is dropped is counted by reason (Refused); who sent what honest software never
//     sends is named (Liars) and logged, once a minute.
//   - Neighbours. Above sixteen members memberlist is held to those that are near (neighbourhood):
//     about a dozen, chosen by both ids. Everybody else's probes, news and exchanges are theirs to
//     make; a claim of somebody who is not near waits a while for its refutation. A peer that gets
//     too little time itself leaves those that are not near to others, and is slow to doubt the
//     rest: most of them are only late.
//   - The peer book: who was ever here, with addresses, on disk. A long partition does not heal by
//     itself in memberlist; a loop keeps trying absent peers of the book, quickly while this peer
//     is alone or newly started.
//   - The hint: the highest epoch anybody spoke of and its coordinator. A hint which peer to ask,
//     no more.
//   - A gossiped leave is Dead with a fresh Since. That a peer has left for good is a decision and
//     stands in the ledger.
//
// # How it is driven
//
// New, then Run until its context ends; everything else may be called at any time from any
// goroutine. Callbacks (observers, OnHint) come one at a time from one goroutine of Run and should
// be quick; they may call any method. Probe, Heard, SetHint, Recheck and View never block. When Run
// returns its goroutines have ended, except memberlist's own timers, which end within a few probe
// intervals and touch nothing any more (a test in a synctest bubble lets five seconds pass). A
// crash is what Run without Leave looks like; Leave tells the others first.
//
// # Does not
//
// It keeps no liar from saying of itself what it likes, from vouching for a peer that is dead to
// a peer that asks it for an indirect probe, or from making everybody ping everybody.
//
// It decides nothing: verdicts are input to the coordinator. It does not heal a cluster all of
// whose members changed their addresses at once; discovery on the local network (p2p) or a ticket
// does.
package membership
