// Package guard has no task start that this machine's owner does not allow, or that nobody signed:
// it stands between the worker and what runs tasks.
//
//	               Start, Stop, Adopt                  runs it, under Launch.Confinement
//	worker.Loop ──────────────────────▶ Guard ──────────────────────────▶ saver, runner
//	     ▲                               │  ▲                                │
//	     └── REJECTED (policy) ──────────┘  └── Running, its end ────────────┘
//
// What the coordinator says is not believed: the signature of the job is looked at here
// (Config.Asks), and the policy of this machine decides (package policy). What is refused has not
// run, and says by which rule. What is let in runs under what its rule names, and for no longer.
//
// Three cases are neither:
//
//   - The policy limits what one key may have here at once: what is above that waits here, in
//     order, until something of that key has ended.
//   - This peer's copy of the ledger has not come to where the task was given: who asks may have
//     been admitted there. What would be refused is looked at again when it has, or after
//     BehindFor.
//   - A key is no longer let in: what runs of it is stopped, unless the policy says
//     `on_revoke: finish`.
//
// File is the policy's file. It is read again when it changes; one that cannot be read leaves the
// last good one in force.
//
// # Bounds
//
// What waits, and what is known of what runs, are no more tasks than the worker holds.
package guard
