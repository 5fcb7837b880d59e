package ledger

import "covey/taskstate"

// turn is what a job may know of the entry that is being applied, and where it notes what it did
// beyond what the command says.
type turn struct {
	index   uint64
	stamp   int64
	effects *effects
}

// effects is what a command did beyond what it says.
type effects struct {
	again    []Again
	released []taskstate.JobID
	cut      []taskstate.JobID
}

func (f *effects) into(r *Result) { r.Again, r.Released, r.Cut = f.again, f.released, f.cut }

// waits notes that a slot waits, in one run with the slot before if that waits alike.
func (f *effects) waits(j *JobRecord, n, attempt int, x slotExtras) {
	a := Again{Job: j.job.ID, Slots: Slots{First: n, N: 1, Attempt: attempt}, Version: j.slots.version(x), NotBefore: x.NotBefore}
	if k := len(f.again) - 1; k >= 0 {
		l := &f.again[k]
		next := Again{Job: l.Job, Slots: Slots{First: l.Slots.First + l.Slots.N, N: 1, Attempt: l.Slots.Attempt}, Version: l.Version, NotBefore: l.NotBefore}
		if a == next {
			l.Slots.N++
			return
		}
	}
	f.again = append(f.again, a)
}
