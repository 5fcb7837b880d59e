package worker

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// bodies owns the job bodies that are known here: those that frames need, and idle ones that a
// grant of this session may need again. Only the core calls it.
type bodies struct {
	of        map[session.BodyID]*ownJob
	idle      int // without a frame
	idleBytes int
}

// keep remembers a body. Jobs are immutable: what is known stays, but for a body whose order was
// signed later. It takes the place of the one before for whatever has not been started.
func (b *bodies) keep(j *taskstate.Job) *ownJob {
	id := session.BodyOf(j)
	h := b.of[id]
	if h == nil {
		h = &ownJob{job: j}
		b.of[id] = h
		b.idle++
		b.idleBytes += h.size()
	} else if newer(j.Order, h.job.Order) {
		if h.frames == 0 {
			b.idleBytes -= h.size()
		}
		h.job, h.renewed = j, true
		if h.frames == 0 {
			b.idleBytes += h.size()
		}
	}
	return h
}

// newer tells whether an order was signed after another one, or where there was none.
func newer(o, than *taskstate.Order) bool {
	return o != nil && (than == nil || o.At > than.At)
}

// lacks keeps the bodies of a frame, and tells whether one is missing that was dropped to stay
// within bounds: a Complete set brings it again.
func (b *bodies) lacks(a *session.Assignments) bool {
	for i := range a.Jobs {
		b.keep(&a.Jobs[i])
	}
	return slices.ContainsFunc(a.Grants, func(g session.Grant) bool { return b.of[g.Body()] == nil })
}

// need ties a body to a frame.
func (b *bodies) need(f *ownFrame, j *ownJob) {
	if slices.Contains(f.jobs, j) {
		return
	}
	f.jobs = append(f.jobs, j)
	if j.frames++; j.frames == 1 {
		b.idle--
		b.idleBytes -= j.size()
	}
}

// release is called when a frame needs its bodies no more.
func (b *bodies) release(f *ownFrame) {
	for _, j := range f.jobs {
		if j.frames--; j.frames == 0 {
			b.idle++
			b.idleBytes += j.size()
			j.staging = notAsked // nobody keeps its inputs for it any more
		}
	}
}

// trim forgets the idle bodies when there are more, or larger, than that. Should a grant need one
// again, a Complete set is asked for, which brings it.
func (b *bodies) trim(keep, size int) {
	if b.idle <= keep && b.idleBytes <= size {
		return
	}
	for id, j := range b.of {
		if j.frames == 0 && !j.onDisk {
			delete(b.of, id)
			b.idle--
			b.idleBytes -= j.size()
		}
	}
}
