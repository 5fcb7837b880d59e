package stack

import (
	"time"
)

type fault struct {
	name   string
	weight int
	f      func(*world)
}

func faultKinds() []fault {
	return []fault{
		{"kill", 12, func(w *world) { w.anyone().down(false, w.spell()) }},
		{"power", 8, func(w *world) { w.anyone().down(true, w.spell()) }},
		{"kill the coordinator", 8, (*world).killCoordinator},
		{"kill many", 2, (*world).killMany},
		{"stop in order", 6, (*world).stopOne},
		{"lose the disk", 3, (*world).loseDisk},
		{"rot", 4, (*world).rot},
		{"empty", 3, (*world).empty},
		{"turn back", 3, (*world).turnBack},
		{"put back", 3, (*world).putBack},
		{"full disk", 4, (*world).fillDisk},
		{"clone", 3, (*world).clone},
		{"partition", 8, (*world).partition},
		{"one way", 8, (*world).oneWay},
		{"one link", 6, (*world).oneLink},
		{"slow", 6, (*world).slow},
		{"slow line", 5, (*world).slowLine},
		{"bad hands", 5, (*world).badHands},
		{"crook", 6, (*world).crooked},
	}
}

// temper is how slow every way is when nothing is the matter.
func (w *world) temper(n int) {
	most := [...]int{1, 1, 5, 40}[w.rng.IntN(4)]
	for i := range n {
		for j := range n {
			if i != j {
				w.wires.Lag(newAddr(i), newAddr(j), w.ms(0, most))
			}
		}
	}
}

// faults plans the first fault and what must be looked after. Some lives are rough, some quiet,
// some know only few kinds.
func (w *world) faults() {
	mean := [...]int{2, 5, 5, 12, 30}[w.rng.IntN(5)] * 1000
	kinds := faultKinds()
	if w.chance(0.3) && w.cfg.Break.shows() == "" {
		w.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		kinds = kinds[:w.between(1, 4)]
	}
	total := 0
	for i, k := range kinds {
		if k.name == w.cfg.Break.shows() {
			kinds[i].weight *= 10
		}
		total += kinds[i].weight
	}
	over := w.now() + w.cfg.Length
	var next func()
	next = func() {
		n := w.rng.IntN(total)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				w.count(func(s *Stats) { s.Faults++ })
				w.tellf("-- fault: %s", k.name)
				k.f(w)
				break
			}
		}
		if at := w.now() + w.ms(0, 2*mean); at < over {
			w.at(at, next)
		}
	}
	w.at(w.now()+w.ms(500, 4000), next)
	w.tend()
}

// tend starts again who could not join, now and then.
func (w *world) tend() {
	for _, p := range w.peers {
		p.boot()
	}
	w.at(w.now()+time.Second, w.tend)
}

// until undoes a fault after a while, or when all faults end.
func (w *world) until(d time.Duration, undo func()) {
	done := false
	once := func() {
		if !done {
			done = true
			undo()
		}
	}
	w.at(w.now()+d, once)
	w.undo = append(w.undo, once)
}

// heal ends all faults: each peer that is to come back does.
func (w *world) heal() {
	w.tellf("-- the faults are over")
	for _, f := range w.undo {
		f()
	}
	for _, p := range w.peers {
		p.boot()
	}
}

func (w *world) anyone() *peer { return w.peers[w.rng.IntN(len(w.peers))] }

// spell draws how long a fault lasts: mostly seconds, sometimes most of a minute.
func (w *world) spell() time.Duration {
	if w.chance(0.2) {
		return w.ms(10_000, 50_000)
	}
	return w.ms(50, 8000)
}

func (p *peer) down(power bool, d time.Duration) {
	heal := p.w.hurt(p)
	p.kill(power)
	p.downs++
	p.w.until(d, func() { p.downs--; heal(); p.boot() })
}

func (w *world) killCoordinator() {
	for _, p := range w.peers {
		if p.name == w.check.coordinator() {
			p.down(w.chance(0.3), w.spell())
			return
		}
	}
}

func (w *world) killMany() {
	d := w.spell()
	for _, p := range w.peers {
		if w.chance(0.6) {
			p.down(w.chance(0.3), d+w.ms(0, 2000))
		}
	}
}

// stopOne ends a peer as SIGTERM does, and kills it if it takes too long.
func (w *world) stopOne() {
	p := w.anyone()
	l := p.alive()
	if l == nil {
		return
	}
	heal := w.hurt(p)
	w.tellf("%s is told to stop", l.session)
	p.downs++
	l.cancel()
	w.until(15*time.Second+w.spell(), func() {
		p.kill(false)
		p.downs--
		heal()
		p.boot()
	})
}

// loseDisk makes a peer come back with nothing but its key. It happens once in a life.
func (w *world) loseDisk() {
	p := w.badDisk()
	if p == nil || w.wiped {
		return
	}
	other := w.peers[(p.n+1)%len(w.peers)]
	if other.usable() == nil {
		return
	}
	k, err := other.invite() // one that does not lead to itself alone
	if err != nil {
		return
	}
	w.mu.Lock()
	w.ticket = k
	w.mu.Unlock()
	heal := w.hurt(p)
	p.kill(true)
	if err := p.wipe(); err != nil {
		w.fail("bug", "wipe %s: %v", p.name, err)
	}
	w.wiped, w.orphaned = true, true
	w.tellf("%s loses its disk", p.name)
	w.people.lost(p)
	w.count(func(s *Stats) { s.Wipes++ })
	p.downs++
	w.until(w.spell(), func() { p.downs--; heal(); p.boot() })
}
