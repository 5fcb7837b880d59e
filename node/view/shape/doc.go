// Package shape makes pictures of a job out of its tasks, of which there may be a million: a grid
// of cells, lanes of bars, groups of failures, one page of rows. Each is a few kilobytes, whatever
// the size of the job.
//
// # How it is driven
//
//	f := shape.New(job.Slots(), now)         // all that the pictures are made of, in 32 bytes a task
//	f.Add(record, 1, 5000, reported)         // some slots at a time, so that no lock is held long
//	f.Grid(4000), f.Timeline(1200), …        // pure functions of it
//
//	cache.Look(id, stamp, scan, "grid 4000", func(f *shape.Facts) any { … })
//
// # State, and its bounds
//
// Facts are written by New, Add and Wait only. A Cache holds those of the jobs that were looked at
// within the last minute, at most two million tasks in all and always the newest, and eight
// pictures of each. Whoever looks at the same job meanwhile waits for the one scan there is. A scan
// that took d, with its pictures, stands for 25 d even if something changed: however many look, and
// however fast the ledger moves, a job costs four percent of one processor.
//
// # What it does not do
//
// It reads no clock but to pay for scans, asks nobody, and knows no names of peers.
package shape
