// Package sweep keeps what ended tasks leave on this peer's disk within bounds: it removes the
// files of jobs the ledger has forgotten, and, when those that are left take too much room
// together, first the work folders of tasks whose output is safe in the store of files, and then
// all that finished jobs left. Of both, what ended first goes first, and pinned jobs go last. On a
// disk so full that this peer takes no tasks the work folders of all tasks that are over go. What
// is on the disk and the time are given to a pure core. It removes nothing else of a job that goes
// on, and nothing at first sight.
package sweep
