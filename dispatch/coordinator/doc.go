// Package coordinator decides which peer runs which task: a pure core, Core, and Loop, which drives
// it while this peer coordinates.
//
// # How to drive it
//
// A peer makes one Loop at its start, with NewLoop, and keeps it for its life. Three parties call
// it:
//
//   - The ledger calls Run when this peer has begun a term and has applied all that was decided
//     before it, and ends its context when the term is over. Only within Run is there a Core.
//   - The network calls ServeSession for every stream of session.Protocol. Outside Run it refuses,
//     with a hint whom to ask.
//   - The node passes on what gossip says, with Verdict, and asks: Standings, Peers, Waiting, Whys,
//     Waited, Frozen, Preview. Thaw and Balance carry a person's word.
//
// Core is built from the ledger's state at the start of a term, by NewCore. From then on whoever
// drives it – Loop, or a simulation –
//
//	effects := core.StepAll(events, now)   // what has gathered, in order
//	for each effect: carry it out          // in order; outcomes become events
//	wait for an event, but not beyond core.Wake()
//
// and feeds it every entry of the ledger that is applied, as LedgerApplied, whether the core
// proposed it or not. A core decides nothing by itself: it proposes (ProposeCommands), and what it
// holds to be true changes when the decision comes back applied. When it meets something it cannot
// place, it answers StartOver, and Loop builds another from the ledger.
//
// # States
//
// A Loop:
//
//	idle ──Run──▶ a core ──StartOver, or a proposal of unknown fate──▶ pause ──▶ the next core
//	 ▲               │
//	 └─the term ends─┘   all sessions are closed
//
// A session, as the core sees it:
//
//	opened ──▶ registering ──Register applied──▶ welcomed ──reports done──▶ in sync ──▶ released
//	  │        its incarnation is new                            Complete set │  Goodbye
//	  ▼                                                                       ▼
//	refused              silent for a grace, or replaced: ended       incremental sets
//
// A peer's standing is derived, never stored (StandingOf):
//
//	           verdict of gossip
//	session    alive      suspect    dead
//	up         ready      suspect    suspect       ready again at the next sign of life
//	none       detached   suspect    unreachable   unknown early in a term, see StandingOf
//
// A slot's attempt, as the core sees it:
//
//	waits ──Assign──▶ assigned ──an end is told──▶ settling ──Settle──▶ over
//	  ▲                  │                             │
//	  │                  │ unreachable for too long    │ it runs again
//	  └──── Supersede ◀──┴─────────────────────────────┘
//
// # Bounds
//
// Tasks on one peer (CoreConfig.Outstanding), proposals under way (Pipeline), bytes of a frame
// (FrameBudget), frames that wait for a slow worker (Config.SendQueue), verdicts about strangers,
// attempts given up whose end may still come. A worker that does not read loses its session.
//
// # What it does not do
//
// It does not know raft, gossip or how a worker works: the ledger, the envelope's check and the
// probe are ports. It chooses no peer itself (placement), has no rule of its own for jobs that last
// (replicas, rollout, cron), and keeps nothing that the next coordinator could not find in the
// ledger, but for what it has observed.
package coordinator
