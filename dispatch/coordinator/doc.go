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
//     with a hint which peer to ask.
//   - The node passes on what gossip says, with Verdict, and asks: Peers, Waiting, Whys,
//     Waited, Frozen, Preview, Rebalance. Thaw and Balance carry a person's word.
//
// Core is built from the ledger's state at the start of a term, by NewCore. From then on its driver
// – Loop, or a simulation –
//
//	effects := core.Step(events, now)      // what has gathered, in order
//	for each effect: carry it out          // in order; outcomes become events
//	wait for an event, but not beyond core.Wake()
//
// and feeds it every entry of the ledger that is applied, as LedgerApplied, whether the core
// proposed it or not. A core decides nothing by itself: it proposes (ProposeCommands), and what it
// holds to be true changes when the decision comes back applied. When it meets something it cannot
// place, it answers StartOver, and Loop builds another from the ledger.
// What was decided is followed in four steps, top down in applied.go: begin, wait, apply, proceed.
// What it means, the ledger's result says.
//
// # Who owns what
//
// Core takes events apart and follows what was decided; each part below owns its fields, and calls
// only those above it. Nobody knows Core.
//
//	clock      the time, by this machine and by the ledger, and when to look again
//	agenda     effects of the step, and what is to be looked at before it ends
//	outbox     what is decided and not proposed
//	peers      members: standing, offer, labels, and with a freeze.Guard who may be replaced
//	jobs       jobs that go on: what waits, in the backlog or for its time, their schedules and faults
//	sessions   streams of workers: frames gathered for each, pace, what is to be stopped or given back
//	tasks      attempts that peers have: their ends, told, settled, late or given up
//	placer     places for what waits, and previews: asked by Core, upkeep and explainer
//	replacer   what peers have that are away, in trouble or do not start it: driven by time
//	recaller   evens out what waits on workers: driven by time
//	upkeep     what services and global jobs need next, and their decisions applied
//	explainer  why something waits, for people
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
//	opened ──its incarnation is known──────────────▶ welcomed
//	  │  │                                            ▲     │
//	  │  └─new──▶ registering ──Register is applied───┘     │ its reports are done
//	  ▼                                                     ▼
//	refused                      released ◀──Goodbye──── in sync
//
// In sync, it is sent a Complete set, and incremental ones from then on. Silent for a grace, or
// replaced by another session of its peer, it ends from any state.
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
// An attempt whose end others have heard from its worker, and this peer from them, is settled and
// not given up when its peer is unreachable, or comes back as another incarnation.
//
// While an assigned attempt is being saved, its process has ended: it uses nothing of its peer and
// of what its job may have at once, but for a place among the tasks that the worker holds. It has
// begun, a drain waits for it, and if its peer vanishes it is lost like any other.
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
