// Package rollout decides the next step of an update: which slots of a service or global job get
// the new version now, and when the update is complete, paused or rolled back. It is a pure
// function of what the slots do, asked again whenever that changes.
//
// A slot is in flux from the moment it is told to take the new version until its task has run for
// the monitor time, and the delay after that. At most Parallelism slots are in flux, so that a
// version which cannot run takes down no more of them before the update notices. A slot on which
// the new version failed within the monitor time is in flux no more, whether or not it is
// restarted: it counts as failed, and once the delay is over the update goes on, as long as no more
// of them failed than it bears.
//
// On the way back that limit is for what runs: slots on which the version failed, or that are down,
// are changed first, Parallelism of them at a time, whatever is being watched.
//
// An update whose order is start-first first raises the number of slots by Parallelism (the surge);
// once the extra ones run it goes on as if the order were stop-first, and once it is complete as
// many are given up: but for slots that failed, never fewer than wanted, never more than wanted and
// Parallelism.
//
// It does not: talk to the ledger, know how a task failed, choose peers, or know why a slot is
// down.
package rollout
