package care

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/taskstate"
)

// inputsOf names what the tasks of a job need, as a thing.
func inputsOf(job taskstate.JobID) taskstate.TaskID { return taskstate.TaskID{Job: job} }

// saved is what is kept of one task, if anything is.
func saved(j *ledger.JobRecord, slot int) (t FileSet, ok bool) {
	r := j.Slot(slot)
	if r.Final == nil || r.Final.Saved == nil || len(refs(&FileSet{Saved: r.Final.Saved})) == 0 {
		return t, false
	}
	return FileSet{
		ID: r.Final.Task, Order: j.Index(), Owner: j.Job().Submitter, Saved: r.Final.Saved,
		Partial: r.Final.State != taskstate.Complete,
	}, true
}

// needed is what the tasks of a job need, if this peer submitted it.
func needed(j *ledger.JobRecord, self taskstate.PeerID) (t FileSet, ok bool) {
	t = FileSet{ID: inputsOf(j.Job().ID), Order: j.Index(), Owner: j.Job().Submitter, Job: j.Job()}
	return t, t.Owner == self && len(refs(&t)) > 0
}

// refs are the files and folders of a thing.
func refs(t *FileSet) (out []tree.Ref) {
	if s := t.Saved; s != nil {
		for _, r := range []tree.Ref{{Root: s.Root, Dir: true}, {Root: s.Logs, Dir: true}} {
			if r.Root != (tree.Ref{}).Root {
				out = append(out, r)
			}
		}
		return out
	}
	if t.Job != nil {
		for _, in := range t.Job.Inputs {
			if r, err := tree.ParseRef(in.Ref); err == nil {
				out = append(out, r)
			}
		}
	}
	return out
}

// LedgerState is what the ledger says of something that is pinned.
type LedgerState int

// All fates.
const (
	IsUnknown LedgerState = iota // it has no such job, or not yet
	IsOpen                       // it may come to be kept
	IsKept
	IsOver // nothing came of it, and something else did
)

// LedgerStateOf is what a ledger says of what a task left, or of what the tasks of a job need.
func LedgerStateOf(s *ledger.State, id taskstate.TaskID, self taskstate.PeerID) (FileSet, LedgerState) {
	j, ok := s.Job(id.Job)
	if !ok {
		if _, was := s.Forgotten(id.Job); was {
			return FileSet{}, IsOver
		}
		return FileSet{}, IsUnknown
	}
	if id.Slot == 0 {
		if t, ok := needed(j, self); ok {
			return t, IsKept
		}
		return FileSet{}, IsOver
	}
	t, is := saved(j, id.Slot)
	r := j.Slot(id.Slot)
	_, _, _, known := s.Assigned(id)
	switch {
	case is && t.ID == id:
		return t, IsKept
	case r.Final != nil && (r.Attempt >= id.Attempt || known == taskstate.Retired) && (r.Final.State == taskstate.Complete || !unheard(j, id)):
		return t, IsOver
	}
	return t, IsOpen // also if the attempt was given up: as long as its slot has no end, its late success is that
}

// unheard tells whether an attempt was given up and its worker has not said how it ended: though
// its slot has come to nothing, a person may have it begun anew, and then a late success counts.
func unheard(j *ledger.JobRecord, id taskstate.TaskID) bool {
	return slices.ContainsFunc(j.Past(id.Slot), func(p ledger.PastAttempt) bool {
		return p.Attempt == id.Attempt && p.End == nil && p.Late == nil
	})
}
