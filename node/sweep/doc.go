// Package sweep keeps what ended tasks leave on this peer's disk within bounds: it removes the
// files of jobs the ledger has forgotten, and, when those of finished jobs take too much room
// together, the files of those that ended first; pinned ones go last. What is on the disk and the
// time are given to a pure core. It removes nothing of a job that goes on, and nothing at first
// sight.
package sweep
