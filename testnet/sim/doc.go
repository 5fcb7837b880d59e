// Package sim lives through whole lives of a cluster in virtual time: the pure cores of
// coordinator, worker, ledger state, status tables and digests on one deterministic scheduler, with
// a simulated network, simulated disks, clocks and processes, and faults drawn from a seed. While
// it runs, and when the faults have ended, it checks the invariants of ARCHITECTURE.md.
//
// The same Config gives the same life, event by event: a seed that breaks something breaks it
// again. Nothing here reads a clock, starts a goroutine or ranges over a map where the order could
// matter.
//
// What is real: coordinator.Core, worker.Core, ledger.State and Replica, taskstate.Table,
// digest.Store, placement, care.Core and keep.Search, highwater.Inquiry, orders and acts with their
// checks, policy.Decide, and the encodings of frames, batches and snapshots. What is played: keys
// (whoever lies has its own, and what others have signed), files and their transfer, in two lives
// of three, and raft (a log with elections, lost and late proposals), memberlist (views that doubt
// and bury), gossip (a topic that loses, repeats and delays), streams, the session's shells,
// runners and their processes.
//
// A Break makes one thing wrong on purpose, to prove that the checks would see it.
package sim
