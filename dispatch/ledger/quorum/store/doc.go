// Package store is what a seat in the ledger has on disk: raft's log and its few stable values
// (Log), raft's snapshots (Snapshots), and the mark of how far both have acknowledged.
//
// A peer that takes a seat calls Open, OpenSnapshots, then Log.Sound, which reads all there is, and
// Log.Check, which holds it against its mark. Only then does raft get Log.Guarded and Log.Marked.
// An Unsound error, now or later, says that the seat must not vote any more: Log.Bar sees to it,
// and Close ends it. A caller that only wants to read what is left of a log calls Open and Close.
//
// # What it holds up
//
// What raft was told is written is on disk, its mark included, and what it was told is not is never
// there later. What is read is what was written, or an error: every entry and every snapshot
// carries a checksum. Nothing is taken out of the log that is known to be decided. A disk that
// refuses is an error that passes; one that is stuck shows in Stuck and Health, while raft waits.
//
// # What it does not do
//
// It does not know what entries and snapshots mean: their owner says whether one makes sense. It
// does not decide what becomes of a seat that is unsound, nor who is told.
package store
