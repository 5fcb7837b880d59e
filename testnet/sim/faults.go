package sim

import (
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// fault is one way to hurt, and how often it comes.
type fault struct {
	name   string
	weight int
	f      func(*world)
}

func faultKinds() []fault {
	return []fault{
		{"kill", 14, (*world).killOne},
		{"power", 6, (*world).cutPower},
		{"kill the coordinator", 6, (*world).killCoordinator},
		{"kill coordinator and another", 3, (*world).killTwo},
		{"kill many", 1, (*world).killMany},
		{"lose the disk", 3, (*world).loseDisk},
		{"lose the journal", 3, (*world).loseJournal},
		{"turn the journal back", 3, (*world).turnBackJournal},
		{"terminate", 4, (*world).terminate},
		{"leave", 1, (*world).leave},
		{"die for good", 1, (*world).dieForGood},
		{"offer", 3, (*world).changeOffer},
		{"partition", 8, (*world).partition},
		{"one way", 8, (*world).oneWay},
		{"one link", 6, (*world).oneLink},
		{"slow links", 6, (*world).slowLinks},
		{"slow disk", 5, (*world).slowDisk},
		{"bad disk", 4, (*world).badDisk},
		{"full disk", 4, (*world).fullDisk},
		{"freeze", 6, (*world).freeze},
		{"idle", 6, (*world).idle},
		{"clock", 4, (*world).stepClock},
		{"forge", 4, (*world).forge},
		{"mislead", 3, (*world).mislead},
		{"election", 5, (*world).election},
		{"gossip lost", 3, func(w *world) { w.gossip(&w.net.lossy) }},
		{"gossip repeated", 3, func(w *world) { w.gossip(&w.net.double) }},
	}
}

// faults plans the next one, as long as there are to be any. Some lives are rough, some quiet, some
// know only few kinds.
func (w *world) faults() {
	mean := pick(w, 2, 4, 8, 16, 30) * 1000
	kinds := faultKinds()
	if w.withFiles {
		kinds = append(kinds, fault{"rot", 4, (*world).rot})
	}
	if w.chance(0.3) {
		w.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		kinds = kinds[:w.between(1, 4)]
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	var next func()
	next = func() {
		if w.calm {
			return
		}
		n := w.rng.IntN(total)
		for _, k := range kinds {
			if n -= k.weight; n < 0 {
				w.stats.Faults++
				w.tracef("-- fault: %s", k.name)
				k.f(w)
				break
			}
		}
		w.after(w.ms(0, 2*mean), next)
	}
	w.after(w.ms(3000, 6000), next)
}

// hurt marks peers as touched by a fault until heal is called.
func (w *world) hurt(ps ...*peer) (heal func()) {
	for _, p := range ps {
		p.pains++
	}
	return func() {
		for _, p := range ps {
			p.pains--
			p.trouble = max(p.trouble, w.now())
		}
	}
}

// until undoes a fault after a while, or at the end of all faults.
func (w *world) until(d time.Duration, undo func()) {
	done := false
	once := func() {
		if !done {
			done = true
			undo()
		}
	}
	w.after(d, once)
	if left := w.cfg.Length - w.now(); left < d {
		w.after(max(0, left), once)
	}
}

func (w *world) anyone() *peer { return w.peers[w.rng.IntN(len(w.peers))] }

// spell draws how long a fault lasts: mostly seconds, sometimes a minute or two.
func (w *world) spell() time.Duration {
	if w.chance(0.2) {
		return w.ms(20_000, 120_000)
	}
	return w.ms(50, 15_000)
}

func (p *peer) down(power bool, d time.Duration) {
	if p.life == nil {
		return
	}
	w := p.w
	heal := w.hurt(p)
	p.kill(power)
	w.until(d, func() { heal(); p.boot() })
}

func (w *world) killOne()  { w.anyone().down(false, w.spell()) }
func (w *world) cutPower() { w.anyone().down(true, w.spell()) }

func (w *world) killCoordinator() {
	if l := w.quorum.leader; l != nil {
		l.p.down(w.chance(0.3), w.spell())
	}
}

func (w *world) killTwo() {
	w.killCoordinator()
	w.killOne()
}

func (w *world) killMany() {
	d := w.spell()
	for _, p := range w.peers {
		if w.chance(0.6) {
			p.down(w.chance(0.3), d+w.ms(0, 3000))
		}
	}
}

// loseDisk makes a peer come back with nothing.
func (w *world) loseDisk() {
	p := w.anyone()
	if p.life == nil {
		return
	}
	w.stats.Incarnations++
	p.down(true, w.spell())
	p.newDisk()
	w.tracef("%s loses its disk", p.id)
}

// terminate asks a peer to stop, for good or for a while, and ends it when it has given everything
// back, or a while later.
func (w *world) terminate() {
	p := w.anyone()
	l := p.life
	if l == nil || l.stopping {
		return
	}
	heal := w.hurt(p)
	l.stopping = true
	if w.chance(0.5) {
		l.worker.Detach(p.wall())
	} else {
		l.worker.Stop(p.wall())
	}
	end := func() {
		if !l.dead {
			p.kill(false)
		}
	}
	l.after(w.ms(0, 8000), end)
	w.until(8*time.Second+w.spell(), func() { end(); heal(); p.boot() })
}

// leave says goodbye for a peer, which then goes, and comes back.
func (w *world) leave() {
	p := w.anyone()
	if p.life == nil || w.quorum.leader == nil || w.quorum.leader.dead {
		return
	}
	w.quorum.propose(w.quorum.leader, []ledger.Command{{Depart: &ledger.Depart{Peer: p.id}}}, func([]ledger.Result, bool) {})
	w.after(w.ms(0, 1500), func() { p.down(false, w.spell()) })
}

// dieForGood ends a peer that nobody will see again; somebody removes it, in the end.
func (w *world) dieForGood() {
	p := w.anyone()
	if p.voter || p.life == nil || w.dead >= 2 || !w.quorum.isMember(p) {
		return
	}
	w.dead++
	p.kill(w.chance(0.5))
	p.gone = true
	for _, id := range p.running() {
		p.lose(p.procs[id])
	}
	w.until(w.ms(0, 600_000), func() {
		w.quorum.order(ledger.Command{Remove: &ledger.Remove{Peer: p.id}}, func() bool { return !w.quorum.isMember(p) })
	})
}

// changeOffer lets a peer give more or less to tasks from now on. In the end it is again what it
// was.
func (w *world) changeOffer() {
	p := w.anyone()
	if p.full == nil {
		was := p.offer
		p.full = &was
		w.after(max(0, w.cfg.Length-w.now()), func() { p.setOffer(was) })
	}
	p.setOffer(taskstate.Resources{MilliCPU: p.full.MilliCPU * int64(w.between(0, 4)) / 4, Memory: p.full.Memory})
}

func (p *peer) setOffer(o taskstate.Resources) {
	l := p.life
	p.sells = o
	if l == nil || p.w.calm {
		p.offer = o
	}
	if l != nil {
		l.after(0, func() {
			o := p.sells // what a frozen peer was told to sell before may come to it after
			p.offer = o
			p.w.tracef("%s offers %+v", p.id, o)
			l.worker.Offer(session.Offer{Resources: p.w.sold(p), Name: p.id}, p.wall())
		})
	}
}

func (w *world) slowDisk() {
	p := w.anyone()
	heal := w.hurt(p)
	p.slowDisk++
	w.until(w.spell(), func() { p.slowDisk--; heal() })
}

func (w *world) badDisk() {
	p := w.anyone()
	heal := w.hurt(p)
	p.badDisk++
	w.until(w.spell(), func() { p.badDisk--; heal() })
}

// freeze stops a process for a while (SIGSTOP, a swapping machine); its tasks go on.
func (w *world) freeze() {
	p := w.anyone()
	if l := w.quorum.leader; l != nil && w.chance(0.4) {
		p = l.p
	}
	if p.life == nil {
		return
	}
	d := min(w.spell(), w.cfg.Length-w.now())
	heal := w.hurt(p)
	p.frozen = max(p.frozen, w.now()+d)
	w.tracef("%s freezes for %v", p.id, d)
	w.until(d, heal)
}

// idle has a worker lie: it keeps its session and starts nothing of what it is given, for a while,
// or until nothing hurts any more.
func (w *world) idle() {
	p := w.anyone()
	heal, d := w.hurt(p), w.spell()
	if w.chance(0.5) { // most spells are shorter than what it may keep
		d = w.cfg.Length
	}
	p.idles++
	w.tracef("%s starts nothing for %v", p.id, d)
	w.until(d, func() {
		p.idles--
		p.lied = w.now()
		heal()
		if l := p.life; l != nil && l.client.link != nil && p.idles == 0 { // it says anew what it has, and hears what it missed
			l.client.over(sessionEnd{why: "it starts what it gets again", again: true})
		}
	})
}

func (w *world) stepClock() {
	p := w.anyone()
	w.clocks = true
	p.clock += time.Duration(w.between(-3600, 3600)) * time.Second
}

// election moves the coordination on, with nobody dead.
func (w *world) election() {
	for _, p := range w.peers {
		if p.voter && p.up() && w.chance(0.4) {
			w.quorum.want = p
		}
	}
}

func (w *world) gossip(n *int) {
	*n++
	w.until(w.spell(), func() { *n--; w.net.healed = w.now() })
}

// end is the end of all faults: each peer that is to come back does.
func (w *world) end() {
	w.calm = true
	w.tracef("-- the faults are over")
	// What undoes them was planned for this moment, too; a little later it is done.
	w.after(time.Millisecond, func() {
		for _, p := range w.peers {
			p.trouble = w.now()
			p.boot()
		}
		w.load.mend(true)
		w.check.settle()
	})
}
