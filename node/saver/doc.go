// Package saver keeps what tasks leave: it stands between the worker and what runs tasks, and lets
// a task end only when its files are safe.
//
//	                Start, Stop, Adopt               runs it
//	worker.Loop ──────────────────────▶ Saver ──────────────────▶ runner
//	     ▲                                │  ▲                       │
//	     └── Running, Saving, its end ────┘  └── Running, its end ───┘
//
// Tasks of jobs that keep nothing (taskstate.Job.Saves) pass through. Of the others, when the
// process has ended by itself:
//
//	ended ──Saving is reported──▶ collected ──▶ copied ──▶ its end is reported, with Saved
//	                                │                          ▲
//	                                └── nothing to copy ───────┘
//
// Collected: what the job's globs match below the task's work folder, and stdout and stderr, are in
// the store, whole and synced, as two trees, under one pin (keep.PinName) that has no end. What
// several tasks left is synced together. Copied: other peers have said that they have it on disk
// (package keep) – the submitter first, then the others in an order that is drawn from the task's
// name. What a task was given and has not changed – its inputs, its script – is left out. What
// matches and cannot be in a tree, or be read for want of permission, fails the task; the rest is
// kept, as of one that failed.
//
// What becomes of a task is decided in end.go, from how its process ended and what was found. A
// task that failed keeps what matches as well, without copies. One that is stopped meanwhile ends
// as it was asked to, with what had been collected.
//
// One that is cancelled while it runs keeps what matches like one that failed, so that what was
// written until then is not lost; it goes on counting as running until that is collected. One that
// is stopped for another reason ends at once: it runs again elsewhere, or its files are not wanted.
//
// Close breaks off what is under way, and reports nothing of it: the worker's journal says that the
// task was being saved, and Adopt of the next life begins again, from the folder on disk. A task is
// not run again for that.
//
// # What a runner has to do with it
//
// Files are looked for where the executor of processes makes them: JOB/SLOT.ATTEMPT/work below Dir,
// and stdout and stderr beside work. A runner that makes no folder leaves nothing, which is what
// the job's Missing is for; one of a simulation may put files there.
//
// # Bounds
//
// MaxCollecting tasks are collected at once, MaxCopying copied; the others wait, as many as the
// worker holds. Memory of one: 32 bytes for each file it left.
package saver
