// Package logreplica keeps a second copy of what tasks of batch jobs printed, on another peer.
//
//	a task ends ──▶ Replicator ──▶ Core: which peer?     Store ──▶ package tasklog reads
//	                    │                                  ▲
//	                    └── keep.Send ── /covey/keep/1 ── Take, at the second keeper
//
// The bytes travel only on that stream, and on the stream of package tasklog when the keeper reads
// what is too large to send along. Neither the ledger nor any status names output or its keepers:
// a reader asks those that may have it (Replicator.Holders).
//
// # Which peer
//
// The peer that submitted the job; if that ran the task or is away, another that may read the job,
// in the order of keep.Order, which is the same for all tasks of a job. Each is here and not
// drained. No task waits for its copy, and nothing is flushed for it: what ended meanwhile goes in
// one request, failed tasks first, then the smallest.
//
// What is here and has no second copy, as far as this peer knows, is in the Core. After a start,
// and when a peer is drained, leaves or is away for care.LostAfter, that is all output here: it is
// offered, and only what the others lack is sent. A copy counts as the original once the peer that
// ran the task is gone.
//
// # Leaving
//
// A peer that is drained or leaves offers everything to the peers that are here then, which flush
// it before they answer. It says of tasks that printed nothing that they did, so that a reader does
// not take their output for lost.
//
// # Bounds
//
// A Store has a budget, and a job a tenth of it. Half of both is for small output and for that of
// failed tasks. What a leaving peer hands over may take all of the budget. A request that finds no
// room goes to the next peer; without one there is one copy, which Sole says.
// Copies go with their job (package sweep). The Core holds some 50 bytes for each task whose output
// has one copy.
package logreplica
