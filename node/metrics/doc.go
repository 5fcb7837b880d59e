// Package metrics tells numbers about this peer, and about the cluster as this peer sees it, in the
// text format of Prometheus.
//
//	ledger.Event ──Decided──┐
//	a commit ──Committed────┤                        ┌─ what counts up is kept here
//	a flush ──Synced────────┼──▶  Meter  ──Metrics──▶┤
//	a call ──Answered───────┘                        └─ what goes up and down is asked for now: Sources
//
// Each series is one of two kinds, and its help says which. Of this peer: what its own worker ran,
// its disk, its links; sums over peers mean something. Of the cluster, as this peer sees it: every
// peer tells nearly the same; take the maximum over peers, not the sum. Counters begin at 0 with
// the peer, and do not count what was decided while it was away.
//
// No series is named after a job or a task: their number would grow without end.
//
// # Bounds
//
// Labels are states, reasons, kinds, routes and codes, which are all of small closed sets; what is
// none of them counts as "other". A scrape asks the coordinator twice, each for at most a second,
// and without an answer tells what this peer knows.
package metrics
