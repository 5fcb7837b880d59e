// Package ledger is the ordered, durable log of decisions: who is admitted, which job is accepted, which task goes where, which
// attempt is given up, what a task's final status was. It says who the coordinator is and in which epoch.
//
// State is the pure machine: Apply(entry) → results, no clock, no randomness, the same everywhere. A Replica holds one State
// for a peer and hands out reads and applied entries. Three things feed a Replica: a Voter (raft), a Follower (a stream from a
// voter: snapshot, then entries) and Memory (the twin that tests of other packages use). Whoever reads a Replica does not see which.
package ledger
