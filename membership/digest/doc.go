// Package digest makes sure that every peer has every signed batch of every author, whatever gossip
// lost.
//
// An author numbers its batches per incarnation of its data folder, without gaps, from 1, and signs
// each: an Envelope. A Store keeps envelopes until everything in them is settled, and a mark per
// author and incarnation: the highest number up to which nothing is missing. An Exchange compares
// marks with one peer at a time and pulls what is missing. Gossip is a hint, this is the truth.
//
// # Marks and holes
//
// A mark passes a number when that envelope was added here, was retired here, or lies below the
// floor that the author itself or another peer gives for what it retired. Another peer's floor is
// believed only up to the highest number whose signature was seen here, so a liar can hide what is
// old, for this peer, and nothing of what comes. A number that is none of these is a hole, and the
// mark stays below it.
//
// The newest envelope of a stream is held even when it is settled, for its author: one whose
// journal is older than what others saw asks for it (Store.Reached), as it learns from it which
// numbers it has used.
//
// # When the store is full
//
// An author has a quarter of the store, and may bring in only so much in a second (Allows),
// whichever way it comes; what is above that is a hole, which exchanges fill later. The
// lowest-numbered envelope of the author that holds the most bytes is dropped. Below the mark that
// costs other peers a source and this one nothing; above the mark it makes a hole again, which a
// later exchange fills. An author has at most maxIncarnations streams, a store at most maxStreams:
// the stream that was silent longest goes, and the one whose incarnation counts (Current) last, as
// its batches may be held nowhere else. An exchange wants no stream of another incarnation for
// which one would have to go.
//
// # The exchange
//
// One stream, strictly in turns, so that nobody waits for a reader that writes: marks, marks,
// wants, envelopes and wants, envelopes. It runs with a random peer on a timer, and at once when
// Meet is called (somebody joined, a connection came back) or an added envelope shows a gap.
//
// # Does not
//
// It does not look into bodies, and does not know what a task is.
package digest
