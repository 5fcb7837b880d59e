// Package taskstate holds the words every other package speaks – Job, Task, Status, State – and the
// one rule that joins two reports about the same task.
//
// A task is one attempt of one slot of one job. It is given to exactly one peer and one incarnation
// of that peer, ever, and only that peer writes its statuses, which it numbers. Statuses of one
// task are totally ordered, so merging is taking the maximum: associative, commutative and
// idempotent. Whatever order, loss or repetition the network causes, peers that have seen the same
// statuses hold the same table.
//
// Two pure rules about jobs are here too, because the ledger, the coordinator and the command line
// must agree on them: Restart.Next says whether a slot whose attempt ended gets another one and
// when, Changes and Restarts what an update of a job does to tasks that run.
//
// The package does no I/O, starts no goroutine and reads no clock.
package taskstate
