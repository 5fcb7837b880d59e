package ledger

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// lastingSnapshot is what a job that lasts, waits for others, restarts or starts others has beyond
// that.
type lastingSnapshot struct {
	Why       taskstate.Reason  `cbor:"16,keyasint,omitempty"`
	Blocked   []taskstate.JobID `cbor:"17,keyasint,omitempty"`
	Grown     int               `cbor:"19,keyasint,omitempty"` // slots of a lasting job
	Extras    []extrasSnapshot  `cbor:"20,keyasint,omitempty"` // by slot
	Versions  []taskstate.Job   `cbor:"21,keyasint,omitempty"` // ascending, without the wanted one
	Previous  int               `cbor:"22,keyasint,omitempty"`
	Rollout   RolloutRecord     `cbor:"23,keyasint,omitzero"`
	Submitted []byte            `cbor:"24,keyasint,omitempty"`
	Forgiven  int               `cbor:"26,keyasint,omitempty"`
	Starts    starts            `cbor:"27,keyasint,omitzero"` // of a schedule
	Revised   uint64            `cbor:"28,keyasint,omitempty"`
	Moved     uint64            `cbor:"29,keyasint,omitempty"`
	Pinned    bool              `cbor:"30,keyasint,omitempty"`
	Turned    int64             `cbor:"32,keyasint,omitempty"`
}

// extrasSnapshot is the slotExtras of a slot in a snapshot.
type extrasSnapshot struct {
	Slot int `cbor:"1,keyasint"`
	slotExtras
}

func (j *JobRecord) packLasting() lastingSnapshot {
	out := lastingSnapshot{Why: j.why, Blocked: j.blocked, Starts: j.starts, Forgiven: j.forgiven, Submitted: j.origin}
	for _, n := range slices.Sorted(maps.Keys(j.slots.extras)) {
		out.Extras = append(out.Extras, extrasSnapshot{Slot: int(n), slotExtras: *j.slots.extras[n]})
	}
	out.Pinned = j.pinned
	l := j.long
	if l == nil {
		return out
	}
	out.Grown, out.Previous, out.Rollout, out.Revised, out.Moved, out.Turned = j.slots.count, l.previous, l.rollout, l.revised, l.moved, l.turned
	for _, v := range j.Versions() {
		if v != j.job.Version {
			out.Versions = append(out.Versions, *l.versions[v])
		}
	}
	return out
}

var errLasting = errors.New("its versions or slots are garbled")

// unpackLasting comes before the cells, which say less.
func (j *JobRecord) unpackLasting(in *lastingSnapshot) error {
	j.why, j.blocked, j.starts, j.origin, j.forgiven = in.Why, in.Blocked, in.Starts, in.Submitted, in.Forgiven
	if !j.starts.valid() || len(j.blocked) > MaxAfter || len(j.blocked) > 0 && j.cancelled || j.why != "" && !j.cancelled || j.forgiven < 0 || j.forgiven > MaxSlots {
		return errLasting
	}
	j.pinned = in.Pinned
	if j.long == nil && in.lasts() {
		return errLasting
	}
	if j.long != nil {
		if err := j.long.unpack(in, j.job); err != nil {
			return err
		}
		j.slots.count = in.Grown
	}
	last := 0
	for _, x := range in.Extras {
		if x.Slot <= last || x.Slot > j.slots.count || x.slotExtras == (slotExtras{}) || x.Version == 1 {
			return errLasting
		}
		if err := x.History.Check(); err != nil {
			return err
		}
		last = x.Slot
		j.slots.putExtras(x.Slot, x.slotExtras)
	}
	return nil
}

// unpack is for a job with this wanted spec.
func (l *long) unpack(in *lastingSnapshot, job *taskstate.Job) error {
	if in.Grown < 0 || in.Grown > MaxSlots || job.Version < 1 || job.Version > math.MaxInt32 {
		return errLasting
	}
	l.rollout, l.revised, l.moved, l.turned = in.Rollout, in.Revised, in.Moved, in.Turned
	last := 0
	for i := range in.Versions {
		spec := &in.Versions[i]
		if spec.Version <= last || spec.Version >= job.Version || spec.ID != job.ID || spec.Type != job.Type || !submittable(spec) {
			return errLasting
		}
		last = spec.Version
		l.versions[last] = spec
	}
	l.previous = in.Previous
	if l.previous != 0 && (l.previous == job.Version || l.versions[l.previous] == nil) {
		return errLasting
	}
	if _, ok := rolloutMoves()[l.rollout.State]; !ok && l.rollout.State != taskstate.RolloutNone {
		return fmt.Errorf("no rollout is %q", l.rollout.State)
	}
	return nil
}

// lasts tells whether it says anything that only a job that lasts has.
func (in *lastingSnapshot) lasts() bool {
	return in.Grown != 0 || in.Previous != 0 || in.Rollout != (RolloutRecord{}) || len(in.Versions) > 0 || in.Revised != 0 || in.Moved != 0
}

// checkExtras holds what slots have beyond their cells against their cells, and finds the pins.
func (j *JobRecord) checkExtras() error {
	for _, n := range slices.Sorted(maps.Keys(j.slots.extras)) {
		x, open := j.slots.extras[n], j.slots.get(int(n)).kind == kindOpen
		known := j.long == nil && x.Version == 0 && x.Next == 0 && x.Pin == "" ||
			j.long != nil && j.JobOf(j.slots.version(*x)) != nil && (x.Next == 0 || j.JobOf(int(x.Next)) != nil)
		switch {
		case !known, x.Leaving && !open, open && x.Retired && !x.Leaving, x.Next != 0 && (!x.Leaving || x.Retired):
			return errLasting
		case j.long != nil && x.Leaving && !x.Retired && x.Next == 0:
			return errLasting
		case x.Pin == "":
			continue
		case j.long.pins[x.Pin] != 0:
			return errors.New("a peer has two slots")
		}
		j.long.pins[x.Pin] = int(n)
	}
	return nil
}

// enlist enters a restored job among the names and the waiting. What it waits for comes before it
// and goes on.
func (b *jobTable) enlist(j *JobRecord) error {
	for i, id := range j.blocked {
		before := b.jobs[id]
		if before == nil || before == j || before.over || slices.Contains(j.blocked[:i], id) {
			return errors.New("waits for what cannot be")
		}
		b.waiters[id] = append(b.waiters[id], j)
	}
	if j.over || j.cancelled {
		return nil
	}
	if b.names.holder(j) != nil {
		return errors.New("has a name that another job has")
	}
	b.names.claim(j)
	return nil
}

// split cuts a run into what is retired and what is not, in order.
func (t *slotTable) split(x Slots, yield func(run Slots, retired bool)) {
	if len(t.extras) == 0 {
		yield(x, false)
		return
	}
	var retired []int
	if x.N < len(t.extras) {
		for n := range x.All() {
			if t.extrasOf(n).Retired {
				retired = append(retired, n)
			}
		}
	} else {
		for n, s := range t.extras {
			if i := int(n); s.Retired && i >= x.First && i < x.First+x.N {
				retired = append(retired, i)
			}
		}
		slices.Sort(retired)
	}
	next := x.First
	for _, n := range retired {
		if n > next {
			yield(Slots{First: next, N: n - next, Attempt: x.Attempt}, false)
		}
		yield(Slots{First: n, N: 1, Attempt: x.Attempt}, true)
		next = n + 1
	}
	if rest := x.First + x.N - next; rest > 0 {
		yield(Slots{First: next, N: rest, Attempt: x.Attempt}, false)
	}
}
