// Package placement decides how many tasks of one job go to which peer: a pure function of what a
// task needs, the peers, what they carry and a seed. The same arguments give the same plan on every
// machine, in whatever order the peers are given.
//
// It works in two steps. Filters, in a fixed order, refuse peers; each counts whom it refused, so
// that a plan that comes up short says why in one line. A strategy then hands the tasks to the
// peers that are left: spread (spread.go), binpack, random, each in its file. Rebalance is the same
// idea for tasks that run already.
//
// The package decides counts, not slots: which slots of a job make up a count is for the caller,
// who can then hand out long contiguous runs. It does no I/O, reads no clock and keeps nothing
// between calls; a Matcher is memory of the caller's, and changes no answer.
package placement
