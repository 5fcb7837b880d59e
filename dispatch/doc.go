// Package dispatch holds no code. Its folders bring tasks to peers:
//
//	coordinator     decides who runs what, while this peer coordinates
//	worker          runs what was decided for this peer
//	worker/journal  what a worker must not forget
//	session         what the two say to each other
//	ledger          the log of decisions, and ledger/quorum, which keeps it
//	replicas, rollout, cron   rules for jobs that last
//
// Coordinator and worker are a pure core each – Step(event) → effects, with time as an argument –
// inside a loop of one goroutine that owns the core, carries out its effects and turns their
// outcomes into events again. The cores do no I/O and start nothing, so that thousands of cluster
// lives can be simulated on one deterministic scheduler. Neither imports the other: the tests of
// both together are in this folder.
//
// A session is one stream from a worker to the coordinator. The worker says Hello, the coordinator
// Welcome; then assignments, stops, recalls and acknowledgements flow down, signed batches of
// statuses, beats and answers flow up. Any error ends the session; the worker backs off and dials
// the coordinator then. A worker that stops gives back what it has not started, says Goodbye
// and waits until it is Released: nothing is left on its way to a peer that is gone.
package dispatch
