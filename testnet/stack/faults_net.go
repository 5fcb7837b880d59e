package stack

import (
	"math"
	"net/netip"
	"time"
)

func newAddr(n int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, byte(10 + n)}) }

func (w *world) cut(a, b *peer, n int) {
	if a != b {
		w.wires.Cut(a.ip, b.ip, n)
	}
}

// cutFor cuts for a while; set(1) cuts, set(-1) heals.
func (w *world) cutFor(ps []*peer, set func(n int)) {
	heal := w.hurt(ps...)
	w.cuts.Add(1)
	sever(ps, math.MaxInt64)
	set(1)
	w.until(w.spell(), func() {
		if w.cfg.Break == BreakStillCut {
			w.at(w.now()+2*healsWithin, func() { set(-1) })
		} else {
			set(-1)
		}
		heal()
		sever(ps, w.now())
		w.tellf("a cut heals")
		w.check.healed()
	})
}

func sever(ps []*peer, until time.Duration) {
	for _, p := range ps {
		p.mu.Lock()
		p.severed = until
		p.mu.Unlock()
	}
}

func (w *world) partition() {
	k := w.between(2, 3)
	group := make([]int, len(w.peers))
	for i := range group {
		group[i] = w.rng.IntN(k)
	}
	w.tellf("groups %v", group)
	w.cutFor(w.peers, func(n int) {
		for _, a := range w.peers {
			for _, b := range w.peers {
				if group[a.n] != group[b.n] {
					w.cut(a, b, n)
				}
			}
		}
	})
}

func (w *world) oneWay() {
	p, deaf := w.anyone(), w.chance(0.5)
	w.tellf("%s, deaf %t", p.name, deaf)
	w.cutFor([]*peer{p}, func(n int) {
		for _, o := range w.peers {
			if deaf {
				w.cut(o, p, n)
			} else {
				w.cut(p, o, n)
			}
		}
	})
}

func (w *world) oneLink() {
	a, b, both := w.anyone(), w.anyone(), w.chance(0.5)
	w.tellf("%s to %s, both %t", a.name, b.name, both)
	w.cutFor([]*peer{a, b}, func(n int) {
		w.cut(a, b, n)
		if both {
			w.cut(b, a, n)
		}
	})
}

func (w *world) slow() {
	p, d := w.anyone(), w.ms(50, 600)
	w.tellf("%s is slow by %v", p.name, d)
	heal := w.hurt(p)
	set := func(d time.Duration) {
		for _, o := range w.peers {
			if o != p {
				w.wires.Lag(p.ip, o.ip, d)
				w.wires.Lag(o.ip, p.ip, d)
			}
		}
	}
	set(d)
	w.until(w.spell(), func() { set(time.Millisecond); heal() })
}

// slowLine lets a peer's line carry little.
func (w *world) slowLine() {
	p, rate := w.anyone(), [...]int64{125_000, 1_250_000}[w.rng.IntN(2)]
	w.tellf("%s has a line of %d bytes per second", p.name, rate)
	heal := w.hurt(p)
	w.wires.Slow(p.ip, rate)
	w.until(w.spell(), func() { w.wires.Slow(p.ip, 0); heal() })
}
