package readers

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// index says who submitted the jobs that name a file or folder. Names of forgotten jobs stay until
// it is made anew.
type index struct {
	peers numbers[taskstate.PeerID]
	jobs  numbers[taskstate.JobID]
	first map[short]newestUse
	more  map[short][]newestUse // of further submitters
	kept  map[short][]uint32    // who keeps it for older tasks of the same submitter that name it too
	made  int                   // names when it was made
}

// short is enough of a name to tell names apart: of two that are alike, who may read one may read
// the other.
type short [12]byte

// place is the newest task of a submitter that names something; slot 0: the inputs of its job.
type newestUse struct{ by, job, slot uint32 }

// numbers are short names for long ones.
type numbers[T comparable] struct {
	of   map[T]uint32
	list []T
}

func (x *numbers[T]) number(id T) uint32 {
	n, ok := x.of[id]
	if !ok {
		if x.of == nil {
			x.of = map[T]uint32{}
		}
		n = uint32(len(x.list))
		x.of[id] = n
		x.list = append(x.list, id)
	}
	return n
}

func newIndex() index {
	return index{first: map[short]newestUse{}, more: map[short][]newestUse{}, kept: map[short][]uint32{}}
}

// full tells whether it holds so much that is forgotten that it is to be made anew.
func (x *index) full() bool { return len(x.first) > 2*x.made+maxNotes }

func (x *index) add(s *ledger.State, root piece.Root, p newestUse) {
	if root.IsZero() {
		return
	}
	key := short(root[:])
	was, ok := x.first[key]
	if !ok {
		x.first[key] = p
		return
	}
	if was.by == p.by {
		x.keep(s, key, was)
		x.first[key] = p
		return
	}
	at := slices.IndexFunc(x.more[key], func(q newestUse) bool { return q.by == p.by })
	if at < 0 {
		x.more[key] = append(x.more[key], p)
		return
	}
	x.keep(s, key, x.more[key][at])
	x.more[key][at] = p
}

// keep remembers who keeps something for a task whose place another one takes.
func (x *index) keep(s *ledger.State, key short, p newestUse) {
	if p.slot == 0 {
		return
	}
	for _, peer := range keepers(s, taskstate.TaskID{Job: x.jobs.list[p.job], Slot: int(p.slot)}) {
		if n := x.peers.number(peer); !slices.Contains(x.kept[key], n) {
			x.kept[key] = append(x.kept[key], n)
		}
	}
}

// keeps tells whether a peer keeps something for a task that has no place of its own.
func (x *index) keeps(root piece.Root, peer taskstate.PeerID) bool {
	return slices.ContainsFunc(x.kept[short(root[:])], func(n uint32) bool { return x.peers.list[n] == peer })
}

// places are those that name something.
func (x *index) places(root piece.Root) []newestUse {
	key := short(root[:])
	p, ok := x.first[key]
	if !ok {
		return nil
	}
	return append([]newestUse{p}, x.more[key]...)
}

// addJob adds all that a job names.
func (x *index) addJob(s *ledger.State, j *ledger.JobRecord) {
	x.addInputs(s, j)
	if !j.Job().Saves() {
		return
	}
	for n := 1; n <= j.Slots(); n++ {
		x.addSaved(s, j, n)
	}
}

func (x *index) addInputs(s *ledger.State, j *ledger.JobRecord) {
	roots := inputs(j.Job())
	if len(roots) == 0 {
		return
	}
	p := newestUse{by: x.peers.number(j.Job().Submitter), job: x.jobs.number(j.Job().ID)}
	for _, r := range roots {
		x.add(s, r, p)
	}
}

func (x *index) addSaved(s *ledger.State, j *ledger.JobRecord, slot int) {
	end := j.Slot(slot).Final
	if end == nil || end.Saved == nil {
		return
	}
	p := newestUse{by: x.peers.number(j.Job().Submitter), job: x.jobs.number(j.Job().ID), slot: uint32(slot)}
	x.add(s, end.Saved.Root, p)
	x.add(s, end.Saved.Logs, p)
}
