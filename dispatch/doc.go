// Package dispatch is the coordinator's loop, the worker's loop, and the session between them.
//
// Both loops are a pure core – Step(event) → effects, with time as an argument – inside a shell of one goroutine that owns the
// core, carries out its effects and turns their outcomes into events again. The cores do no I/O and start nothing, so that
// thousands of cluster lives can be simulated on one deterministic scheduler.
//
// A session is one stream from a worker to the coordinator. The worker says Hello, the coordinator Welcome; then assignments,
// stops, recalls and acknowledgements flow down, signed batches of statuses, beats and answers flow up. Any error ends the
// session; the worker backs off and dials whoever coordinates then. A worker that stops gives back what it has not started, says
// Goodbye and waits until it is Released: nothing is left on its way to a peer that is gone.
package dispatch
