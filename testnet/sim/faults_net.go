package sim

func (w *world) cut(a, b *peer, n int) {
	if a != b {
		w.net.cuts[a.n][b.n] += n
	}
}

// partition splits the peers into two or three groups.
func (w *world) partition() {
	k := w.between(2, 3)
	group := make([]int, len(w.peers))
	for i := range group {
		group[i] = w.rng.IntN(k)
	}
	set := func(n int) {
		for _, a := range w.peers {
			for _, b := range w.peers {
				if group[a.n] != group[b.n] {
					w.cut(a, b, n)
				}
			}
		}
	}
	w.tracef("groups %v", group)
	w.cutFor(w.peers, set)
}

func (w *world) cutFor(ps []*peer, set func(int)) {
	heal := w.hurt(ps...)
	set(1)
	w.until(w.spell(), func() { set(-1); heal(); w.tracef("a cut heals") })
}

// oneWay makes one peer deaf or mute.
func (w *world) oneWay() {
	p, deaf := w.anyone(), w.chance(0.5)
	w.tracef("%s, deaf %t", p.id, deaf)
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

// oneLink cuts one link, one way or both.
func (w *world) oneLink() {
	a, b, both := w.anyone(), w.anyone(), w.chance(0.5)
	if l := w.quorum.leader; l != nil && w.chance(0.5) {
		b = l.p
	}
	w.tracef("%s to %s, both %t", a.id, b.id, both)
	w.cutFor([]*peer{a, b}, func(n int) {
		w.cut(a, b, n)
		if both {
			w.cut(b, a, n)
		}
	})
}

func (w *world) slowLinks() {
	p := w.anyone()
	heal := w.hurt(p)
	w.net.slow[p.n]++
	w.until(w.spell(), func() { w.net.slow[p.n]--; heal() })
}
