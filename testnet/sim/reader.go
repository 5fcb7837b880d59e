package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/history"
)

// reader is the people who only look: it asks any peer about any job, and keeps what everybody was
// told for the end of the life, when it is held against what was promised. What it draws is drawn
// apart, so that looking changes nothing.
type reader struct {
	w    *world
	rng  *rand.Rand
	told history.History
}

func (r *reader) init(w *world) {
	r.w, r.rng = w, rand.New(rand.NewPCG(w.cfg.Seed, 0x726561646572))
}

// look asks somebody about some job, again and again.
func (r *reader) look() {
	w := r.w
	w.after(time.Duration(r.rng.Int64N(int64(400*time.Millisecond))), r.look)
	p := w.peers[r.rng.IntN(len(w.peers))]
	if len(w.load.jobs) == 0 || p.life == nil || p.frozen > w.now() {
		return
	}
	n := len(w.load.jobs)
	if r.rng.IntN(2) == 0 { // the new ones are of more interest
		n = min(n, 10)
	}
	r.read(p.life, w.load.jobs[len(w.load.jobs)-1-r.rng.IntN(n)].job.ID, false)
}

// read asks one peer about one job. A job that is over may be forgotten, and whether it is says
// nothing.
func (r *reader) read(l *life, id taskstate.JobID, fresh bool) {
	w := r.w
	v := r.view(l.replica, id)
	if !v.Known && w.check.over[id] {
		return
	}
	if w.cfg.Break == BreakAhead && v.Known && v.End == "" && r.rng.IntN(100) == 0 {
		v.End = "complete"
	}
	r.told.Add(history.Op{
		Kind: history.Read, Job: r.job(id, r.w.check.life(id, l.replica.Applied())), View: v, Session: fmt.Sprintf("%s, life %d", l.p.id, l.n), Fresh: fresh,
		Call: w.now(), Return: w.now(),
	})
}

func (r *reader) view(replica *ledger.Replica, id taskstate.JobID) (v history.View) {
	replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			_, _, cancelled := j.Cancelled()
			v = history.View{Known: true, Cancelled: cancelled}
			if _, over := j.Ended(); over {
				v.End = j.State().String()
			}
		}
	})
	return v
}

// answered records what a person was told about a request.
func (r *reader) answered(q *request, res ledger.Result) {
	o := history.Op{Kind: history.Submit, Job: r.now(q.job.job.ID), Content: string(q.job.job.ID), Answer: history.Done, Call: q.since, Return: r.w.now()}
	if q.cancel {
		o.Kind, o.Content = history.Cancel, ""
		switch res.Refused {
		case ledger.CodeNone:
		case ledger.CodeUnknown: // over and forgotten: it may have been cancelled before
			o.Answer = history.Unknown
		default:
			o.Answer = history.Over
		}
	}
	r.told.Add(o)
}

// job names one life of a job: one that is over and is tried again begins another, in which nothing
// is as it was.
func (r *reader) job(id taskstate.JobID, life int) string {
	if life == 0 {
		return string(id)
	}
	return fmt.Sprintf("%s, tried again %d times", id, life)
}

// now names the newest life of a job.
func (r *reader) now(id taskstate.JobID) string { return r.job(id, len(r.w.check.lives[id])) }

// followed records what a decision brought about that nobody asked for: a job that a schedule
// started, or one that was cut short.
func (r *reader) followed(kind history.Kind, id taskstate.JobID) {
	o := history.Op{Kind: kind, Job: r.now(id), Answer: history.Done, Call: r.w.now(), Return: r.w.now()}
	if kind == history.Submit {
		o.Content = string(id)
	}
	r.told.Add(o)
}

// ended records that the end of a job is decided.
func (r *reader) ended(id taskstate.JobID) {
	if j, ok := r.w.quorum.truth.Job(id); ok {
		_, _, cancelled := j.Cancelled()
		v := history.View{Known: true, Cancelled: cancelled, End: j.State().String()}
		r.told.Add(history.Op{Kind: history.End, Job: r.now(id), View: v, Call: r.w.now(), Return: r.w.now()})
	}
}

// judge is called when all is at rest: everybody is asked about everything, and must be up to date.
func (r *reader) judge() {
	w := r.w
	for _, p := range w.peers {
		if p.life == nil {
			continue
		}
		for _, j := range w.load.jobs {
			if j.acked {
				r.read(p.life, j.job.ID, true)
			}
		}
	}
	if b := history.Check(r.told.Ops()); b != nil {
		w.fail("clients", "%v", b)
	}
}
