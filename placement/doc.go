// Package placement decides how many tasks of one job go to which peer: a pure function of what a task needs, the peers, what
// they carry and a seed. The same arguments give the same plan on every machine.
//
// It works in two steps. Filters, in a fixed order, refuse peers; each counts whom it refused, so that a plan that comes up short
// says why in one line. A strategy then spreads the tasks over the peers that are left. Constraints will be one more filter (in
// filters.go, after resources), binpack and random two more strategies (one file each, chosen in Place).
//
// The package decides counts, not slots: which slots of a job make up a count is for the caller, who can then hand out long
// contiguous runs. It does no I/O, reads no clock and keeps nothing between calls.
package placement
