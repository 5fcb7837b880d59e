package sim

import (
	"bytes"
	"errors"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/taskstate"
)

// loseJournal makes a peer come back without what its worker wrote down. Its processes may run on
// meanwhile.
func (w *world) loseJournal() {
	p := w.anyone()
	if p.life == nil {
		return
	}
	p.down(w.chance(0.3), w.spell())
	w.tracef("%s loses its journal", p.id)
	if p.astray = true; w.cfg.Break == BreakBlankJournal {
		p.heedless = true
		p.blankJournal()
		return
	}
	p.newJournal()
}

// turnBackJournal has a peer come back with a copy of its worker's journal that was made a while
// before. The copy is of the same start: nothing here tells that it is old. One from before that
// would be known by the number of the start in it, and is as good as none.
func (w *world) turnBackJournal() {
	p := w.anyone()
	l := p.life
	if l == nil {
		return
	}
	old, inc, made := p.disk.Clone(), p.inc, w.now()
	w.after(w.ms(100, 30_000), func() {
		if p.life != l || p.inc != inc || w.calm || !w.heardAll(p, made) {
			return
		}
		p.down(w.chance(0.3), w.spell())
		w.tracef("the journal of %s is turned back", p.id)
		p.disk, p.older, p.astray = old, old.Clone(), true
		w.check.files.forgetTold(p)
		p.heedless = p.heedless || w.cfg.Break == BreakOldJournal
	})
}

// heardAll tells whether all others who are there have heard of what a machine started since a
// moment. What nobody has heard of nobody can tell the worker.
func (w *world) heardAll(p *peer, since time.Duration) bool {
	others := 0
	for _, o := range w.peers {
		if o == p || !o.up() {
			continue
		}
		others++
		for id := range p.begun {
			rec, ok := w.quorum.truth.Job(id.Job)
			if !ok || w.check.starts[id].since < since {
				continue
			}
			if s := rec.Slot(id.Slot); !s.Open || s.Attempt != id.Attempt {
				continue // nobody gives it to anybody any more
			}
			if _, heard := o.life.table.Get(id); !heard {
				return false
			}
		}
	}
	return others > w.size/2
}

// endUnknown ends what runs on a machine and what the journal, which is not what it was, does not
// tell of.
func (p *peer) endUnknown() {
	if !p.astray {
		return
	}
	p.astray = false
	for _, id := range p.running() {
		if r := p.procs[id]; r.life != p.life {
			p.w.tracef("%s ends %s, of which it knows nothing", p.id, id)
			p.lose(r)
		}
	}
}

// renew begins another incarnation in place of one that has found out that its journal is not all
// of its past.
func (l *life) renew() {
	w, p := l.w, l.p
	why, over := l.worker.Lost()
	if !over || l.stopping {
		return
	}
	w.tracef("%s begins anew: %s", p.id, why)
	if l.client.link != nil {
		l.client.over(sessionEnd{why: "it begins anew", again: true})
	}
	p.newJournal()
	w.stats.Incarnations++
	l.journal = journalWriter{}
	l.digest.Current(p.id, string(p.inc))
	l.work()
}

// known is what is held here of a worker's incarnation.
func (l *life) known(p *peer, inc taskstate.Incarnation) (k highwater.Remembered) {
	k.Number = max(l.digest.Mark(p.id, string(inc)).Top, l.p.shown.of[digest.Stream{Author: p.id, Incarnation: string(inc)}].top)
	if env, ok := l.digest.Held(p.id, string(inc), k.Number); ok {
		if raw, err := env.Encode(); err == nil {
			k.Sum = session.EnvelopeSum(raw)
		}
	}
	return k
}

// hearOwn tells the worker which batch in its name came from elsewhere. held: one of that number
// was here before.
func (l *life) hearOwn(env digest.Envelope) {
	p := l.p
	if env.Author != p.id || p.heedless {
		return
	}
	held, ok := l.digest.Held(env.Author, env.Incarnation, env.Number)
	l.worker.Seen(taskstate.Incarnation(env.Incarnation), env.Number, ok && !bytes.Equal(held.Body, env.Body), p.wall())
	l.renew()
}

var errFull = errors.New("the disk is full")

// fullDisk fills up a peer's disk: it takes nothing more, and what tasks write there may be lost.
func (w *world) fullDisk() {
	p := w.anyone()
	heal := w.hurt(p)
	p.filled++
	p.sayFull()
	w.until(w.spell(), func() {
		p.filled--
		p.sayFull()
		heal()
	})
}

// sayFull tells the worker how the disk stands.
func (p *peer) sayFull() {
	l := p.life
	if l == nil || l.worker == nil || p.w.cfg.Break == BreakFill {
		return
	}
	if p.filled > 0 {
		l.worker.Refrain(errFull, p.wall())
	} else {
		l.worker.Refrain(nil, p.wall())
	}
}

// maxLost is how often a slot is tried again because its output was lost: by one coordinator.
const maxLost = 3

// output takes from a task's end what a full disk took of its output, and tells whether it did.
func (p *peer) output(id taskstate.TaskID, rep *taskstate.RunReport) bool {
	w := p.w
	if p.filled == 0 || !w.chance(0.7) {
		return false
	}
	rep.State, rep.Reason = taskstate.Failed, taskstate.ReasonOutputLost
	if w.cfg.Break == BreakBlame {
		rep.Reason = taskstate.ReasonExit
	}
	w.check.lost[slotOf(id)]++
	return true
}

// outputLost is I1 for such an end: it stands if the task must not run twice, or if it was tried
// often enough. One that left nothing to keep has failed by itself, whatever befell those before
// it.
func (c *check) outputLost(j *work, id taskstate.TaskID, final *taskstate.Status) {
	n := c.lost[slotOf(id)]
	if n == 0 || final.Reason == taskstate.ReasonNoOutput || final.State != taskstate.Failed || j.job.Unreachable.Wait {
		return
	}
	if rep := c.outcomes[id]; rep.Exit == 0 && n <= maxLost {
		c.w.fail("I1", "%s ended as failed (%s): its peer's disk was full, %d times, and that is no fault of its own", id, final.Reason, n)
	}
}

// heard is a peer's file of how many batches every worker has signed. It is written after a
// batch was shown, so that what came in the last moment before a peer ended may not be in it.
type heard struct {
	of map[digest.Stream]shown
}

// shown is one line of it.
type shown struct {
	top    uint64
	at     time.Duration // when that came
	before uint64        // what the file said before
}

// Longest times until a batch is in the file, at a peer that may coordinate and at any other: the
// pauses between two writes, and a slow disk.
const (
	shownVoter = 100 * time.Millisecond
	shownOther = 1500 * time.Millisecond
)

func (p *peer) shownAfter() time.Duration {
	if p.voter {
		return shownVoter
	}
	return shownOther
}

// show notes that a batch is here.
func (p *peer) show(s digest.Stream, number uint64) {
	now := p.w.now()
	h := p.shown.of[s]
	if number <= h.top {
		return
	}
	if now-h.at >= p.shownAfter() {
		h.before = h.top
	}
	h.top, h.at = number, now
	if p.shown.of == nil {
		p.shown.of = map[digest.Stream]shown{}
	}
	p.shown.of[s] = h
}

// unshow forgets what had not come to the disk when the peer ended.
func (p *peer) unshow() {
	now := p.w.now()
	for s, h := range p.shown.of {
		if now-h.at < p.shownAfter() {
			h.top = h.before
		}
		p.shown.of[s] = shown{top: h.top, before: h.top}
	}
}
