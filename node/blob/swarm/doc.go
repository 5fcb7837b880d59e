// Package swarm decides which part of which blob is asked of which peer, and how much is under way
// from each. It is a pure core: whoever drives it says what happened and when, and asks what to ask
// for next.
//
//	Want                 a blob is to be brought here, but for the pieces that are here already
//	Join, Holds, Leave   a peer can be asked; what it has; it cannot be asked any more
//	Next                 what to ask of a peer now, if anything
//	Arrived, Refused     the oldest block asked of a peer came, or will not come
//	Checked              whether a whole piece was right
//
// A piece is asked of one peer, in blocks one after the other, so that a piece that is wrong is the
// fault of one. Where nothing else is left to ask for, a piece that is late is asked of a second
// peer: a peer that stalls must not hold up the end. Where several have a piece, fetchers begin at
// different places of a blob, so that they soon have something for each other.
//
// Peers that have a part of a blob fetch it as well, and are its fellows here. Of whoever had all
// of it from the start is asked what no fellow has: a large blob that goes to many leaves it about
// once. What fellows have is left to them, unless they stall or together give less than half of
// what it does.
//
// How much is under way from a peer is what comes from it within Target, beyond the time of the way
// itself: bytes wait in the queue of the slowest link no longer than that, and so does everything
// else on that link. It is sized by the best rate of the last seconds and not by single delays,
// which on a busy machine say little about the link.
//
// Whoever sends a wrong piece gets a strike and is not asked for that piece again; with Strikes
// strikes it is asked for nothing. Memory: a few words for each blob wanted at the moment and two
// bits for each of its pieces, MaxBlocks blocks for each peer.
package swarm
