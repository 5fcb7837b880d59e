// Package worker runs what the coordinator assigns to this peer: a pure core, and the loop that drives it with a journal, a session
// and a runner.
package worker
