// Package worker runs what the coordinator assigns to this peer: a pure core, Core, and Loop, which
// drives it with a journal, a session and a runner.
//
// # How to drive it
//
//	w, err := worker.NewLoop(cfg)   // looks whose journal it is; reads only its head
//	go w.Run(ctx)                   // once; reads the journal, keeps a session, runs tasks
//	w.Stop(ctx) or w.Detach(ctx)    // ends Run: with everything stopped, or leaving alone what runs
//
// While Run goes on, the runner reports with Report, and the node says what it learns: News and
// Connected (about coordinators), SetOffer and Refrain (what this peer gives), Seen and Mute
// (what others know of this peer's incarnation). None of them blocks. Loop asks its ports from
// goroutines of Run only: Coordinator whom to dial, Runner to start and stop tasks, Seal and
// Publish for batches of statuses.
//
// Core is Step(event, now) → effects. Loop's owner goroutine – or a simulation – calls it, one
// event at a time, and no later than Wake says; carries out the effects in order; and answers Save
// with Saved, Publish with Published and Adopt with Adopted. At most one transaction and one
// publication are under way: what happens meanwhile gathers for the next.
//
// # States
//
// A task here:
//
//	granted ──its frame is on disk──▶ queued ──its turn──▶ started ──its end──▶ over
//	                                    ▲                     │                  │
//	              a Complete set lists it                     │     acknowledged │
//	                                    │                     │                  ▼
//	from the journal, not begun ──▶ parked ◀──Adopt: never begun             forgotten
//
// From granted, queued and parked a task is over at once when it is stopped, recalled, or needs
// more than the peer offers; one that was started is over when the runner reports its end.
//
// What promises no resources skips the queue. A task whose files are kept is saving between started
// and over: its process has ended, so it uses nothing and never runs again, not even after a
// restart. A status is told only when it is on disk: it waits for a batch, the batch for the
// journal, and then it goes up the session and out on the topic.
//
// The worker:
//
//	reading its journal ──▶ working ◀──▶ sick: the journal cannot be written
//	        │                  │   ◀──▶ refraining: somebody gave a reason
//	        │                  ├──Stop, Detach──▶ stopping ──▶ ended
//	        └── damaged, old ──┴──▶ lost: stops what runs, signs nothing more
//	                                  └──▶ another incarnation, with a journal of its own
//
// Sick or refraining, it takes nothing on and gives back what has not begun; stopping, it gives
// everything back, or all but what runs, and says Goodbye. It ends when it is Released and all is
// acknowledged, and at the latest ackWait after all is published.
//
// A session, from here:
//
//	dial ──Hello──▶ greeted ──Welcome, no older epoch──▶ on disk ──Complete set──▶ in sync
//
// Any error ends it; the next one is dialled after a pause that grows, at once where another peer
// is said to coordinate.
//
// # Parts
//
// What the core knows has owners, each with fields of its own and a few methods that only the core
// calls; none knows the core.
//
//	openStream                      the stream that is open, and how far its set has come
//	tasks                           what is held, and what those that run use
//	queue                           whose turn it is, and of whom it is still to be said that it waits
//	bodies                          job bodies, as long as a task may need them
//	frames, tombstones, tidyList    what the journal is to take, and what it may forget
//	outbox                          statuses, from when they are news until they are acknowledged
//	signing                         when batches may be numbered
//
// # Bounds
//
// Tasks held at once (journal.MaxTasks), tombstones, ends that are remembered after they were
// acknowledged (maxEnds), frames that wait for the fence, statuses and bytes in a batch, batches in
// a transaction, job bodies without a task. A coordinator that keeps to its own limits reaches none
// of them; one that does not loses the session.
//
// # What it does not do
//
// It decides nothing about other peers, runs no process itself (the runner is a port), and believes
// no coordinator whose epoch is older than one it has obeyed.
package worker
