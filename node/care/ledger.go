package care

import (
	"covey/dispatch/ledger"
	"covey/node/blob/tree"
	"covey/taskstate"
)

// inputsOf names what the tasks of a job need, as a thing.
func inputsOf(job taskstate.JobID) taskstate.TaskID { return taskstate.TaskID{Job: job} }

// saved is what is kept of one task, if anything is.
func saved(j *ledger.JobRecord, slot int) (t Thing, ok bool) {
	r := j.Slot(slot)
	if r.Final == nil || r.Final.Saved == nil || len(refs(&Thing{Saved: r.Final.Saved})) == 0 {
		return t, false
	}
	return Thing{
		ID: r.Final.Task, Order: j.Index(), Owner: j.Job().Submitter, Saved: r.Final.Saved,
		Partial: r.Final.State != taskstate.Complete,
	}, true
}

// needed is what the tasks of a job need, if this peer submitted it.
func needed(j *ledger.JobRecord, self taskstate.PeerID) (t Thing, ok bool) {
	t = Thing{ID: inputsOf(j.Job().ID), Order: j.Index(), Owner: j.Job().Submitter, Job: j.Job()}
	return t, t.Owner == self && len(refs(&t)) > 0
}

// refs are the files and folders of a thing.
func refs(t *Thing) (out []tree.Ref) {
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

// fate is what the ledger says of something that is pinned.
type fate int

const (
	unknown fate = iota // it has no such job, or not yet
	open                // it may come to be kept
	kept
	over // nothing came of it, or something else did
)

func fateOf(s *ledger.State, id taskstate.TaskID, self taskstate.PeerID) (Thing, fate) {
	j, ok := s.Job(id.Job)
	if !ok {
		if _, was := s.Forgotten(id.Job); was {
			return Thing{}, over
		}
		return Thing{}, unknown
	}
	if id.Slot == 0 {
		if t, ok := needed(j, self); ok {
			return t, kept
		}
		return Thing{}, over
	}
	t, is := saved(j, id.Slot)
	r := j.Slot(id.Slot)
	switch {
	case is && t.ID == id:
		return t, kept
	case r.Attempt > id.Attempt, r.Attempt == id.Attempt && r.Final != nil:
		return t, over
	}
	return t, open
}
