// Package ledger is the ordered, durable log of decisions: who is admitted, which job is accepted, which task goes where, which
// attempt is given up, what a task's final status was.
//
// State is the pure machine: Apply(entry) → results, no clock, no randomness, the same everywhere. A Replica holds one State
// for a peer and hands out reads and applied entries. Two things feed a Replica: package quorum, from a majority of voters, and Memory
// (the twin that tests of other packages use). Whoever reads a Replica does not see which.
//
// # What a slot costs
//
// A slot that was never assigned costs nothing: it is part of a run. One that was assigned costs 40 bytes, for good: whom it was
// given to is a number, its final status is a number too, because most slots of a job end alike. Counts are kept, not computed;
// open slots are found by scanning the chunks that have any, which only a lost peer or a new coordinator asks for.
//
// # Jobs that go on
//
// A service or global job is one record through all its updates. What only few slots have – a version, a pin, that they leave or are
// retired, when they may start, how often they were restarted – is kept beside the cells, so that batch slots stay as they are. Slots
// are renewed, retired and added by commands: how many and which, the coordinator's steps say. What follows from an end by the job's own
// rules is decided in the same Apply: another attempt (restart policy, a slot that leaves), the cut after too many failures, jobs
// that waited for this one. Results say what followed, so that nobody has to compare states.
//
// # What is kept
//
// Finished jobs go by count, age and weight (Keep… constants), oldest end first, at the same entry on every peer. The id of a
// forgotten job stays longer, so that a late repetition of its Submit does not run it again. A removed peer's tombstone stays.
//
// # What Apply does not do
//
// It does not place, cap or pace: Job.Parallel, Job.MaxPerPeer, resources, constraints, the pace of a rollout and the moment of a
// scheduled run are the coordinator's business. A slot that is assigned before its NotBefore is assigned: clocks differ. It does not verify
// signatures: whoever proposes has. It knows no reachability: that is an observation.
package ledger
