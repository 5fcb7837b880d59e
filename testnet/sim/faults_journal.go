package sim

import (
	"bytes"
	"time"

	"covey/dispatch/coordinator"
	"covey/dispatch/session"
	"covey/membership/digest"
	"covey/taskstate"
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

// strays ends what runs on a machine and what the journal, which is not what it was, does not tell
// of.
func (p *peer) strays() {
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
func (l *life) known(p *peer, inc taskstate.Incarnation) (k coordinator.Known) {
	k.Batch = l.digest.Mark(p.id, string(inc)).Top
	if env, ok := l.digest.Held(p.id, string(inc), k.Batch); ok {
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
