// Package entry brings a starting peer into its cluster: it founds one, joins one with a ticket or
// by hand, or resumes where the last start ended.
//
//	e := entry.New(entry.Config{…})
//	err := e.Begin(ctx)      // once, before the peer's parts run; then e.How and e.Warnings
//
//	roster empty, no ticket ──► found: the ledger first, then the roster
//	roster empty, ticket    ──► join: ask door after door until one lets this peer in, refuses for good, or nobody is there
//	roster                  ──► resume: follow the voters it names; a ticket must be of the same cluster
//
// Who answers "not now", or is reached and too busy, is waited for, at growing pauses and for a
// bounded time. It opens nothing and closes nothing: folder, ledger and network are the node's.
package entry
