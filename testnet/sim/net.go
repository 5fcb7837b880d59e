package sim

import (
	"time"
)

// network says which link passes what, and how slowly. Links have a direction.
type network struct {
	w      *world
	cuts   [][]int       // how many faults cut the link
	slow   []int         // how many faults slow a peer's links down
	lossy  int           // how many faults make gossip lossy
	double int           // and how many make it say things twice
	healed time.Duration // when one of these faults of gossip ended last
}

func (n *network) init(w *world, peers int) {
	n.w = w
	n.cuts = make([][]int, peers)
	for i := range n.cuts {
		n.cuts[i] = make([]int, peers)
	}
	n.slow = make([]int, peers)
}

// passes tells whether what a sends reaches b's machine.
func (n *network) passes(a, b *peer) bool { return a == b || n.cuts[a.n][b.n] == 0 }

// both tells whether a and b can talk.
func (n *network) both(a, b *peer) bool { return n.passes(a, b) && n.passes(b, a) }

// delay draws how long one message takes.
func (n *network) delay(a, b *peer) time.Duration {
	w := n.w
	switch {
	case a == b:
		return w.ms(0, 1) / 10
	case n.slow[a.n]+n.slow[b.n] > 0:
		return w.ms(20, 1500)
	case w.chance(0.02):
		return w.ms(5, 400)
	}
	return w.ms(0, w.temper.link)
}

// link is one end of a stream: ordered, without loss, but for what was under way when it breaks.
type link struct {
	w     *world
	peer  *peer
	life  *life
	other *link
	open  bool
	in    []parcel // on its way here
	busy  bool
	last  time.Duration // when the newest parcel arrives
	recv  func(any)
	lost  func() // the stream is gone; not called for what this end did itself
}

type parcel struct {
	at    time.Duration
	what  any
	close bool
}

// connect makes a stream between two lives.
func (w *world) connect(a, b *life) (*link, *link) {
	x := &link{w: w, peer: a.p, life: a, open: true}
	y := &link{w: w, peer: b.p, life: b, open: true}
	x.other, y.other = y, x
	a.links[x], b.links[y] = a.count(), b.count()
	return x, y
}

func (l *link) send(v any) {
	if l.open {
		l.other.put(parcel{what: v})
	}
}

func (l *link) put(p parcel) {
	p.at = max(l.last, l.w.now()+l.w.net.delay(l.other.peer, l.peer))
	l.last = p.at
	l.in = append(l.in, p)
	l.pump()
}

func (l *link) pump() {
	if l.busy || len(l.in) == 0 {
		return
	}
	l.busy = true
	l.w.sched.at(max(l.in[0].at, l.w.now()), l.deliver)
}

// deliver hands the next parcel over. What cannot pass waits, as TCP would try again.
func (l *link) deliver() {
	l.busy = false
	if len(l.in) == 0 {
		return
	}
	w := l.w
	switch {
	case !w.net.passes(l.other.peer, l.peer) || l.peer.off:
		l.again(w.ms(50, 300))
		return
	case !l.open || l.life.dead:
		l.in = nil
		if l.other.open { // a reset
			l.other.put(parcel{close: true})
		}
		return
	case l.peer.frozen > w.now():
		l.again(l.peer.frozen - w.now() + w.ms(0, 5))
		return
	}
	p := l.in[0]
	l.in[0] = parcel{}
	l.in = l.in[1:]
	if p.close {
		l.in = nil
		l.shut()
		if l.lost != nil {
			l.lost()
		}
		return
	}
	if l.recv != nil {
		l.recv(p.what)
	}
	l.pump()
}

func (l *link) again(d time.Duration) {
	l.busy = true
	l.w.after(d, l.deliver)
}

func (l *link) shut() {
	l.open = false
	delete(l.life.links, l)
}

// close ends the stream after what was sent on it.
func (l *link) close() {
	if l.open {
		l.shut()
		l.other.put(parcel{close: true})
	}
}

// abort ends the stream at once: of what was under way only the first part arrives.
func (l *link) abort() {
	if !l.open {
		return
	}
	l.shut()
	o := l.other
	if k := len(o.in); k > 0 {
		o.in = o.in[:l.w.rng.IntN(k+1)]
	}
	o.put(parcel{close: true})
}

// vanish ends this end without a word, as when the power goes.
func (l *link) vanish() {
	if l.open {
		l.shut()
		o := l.other
		if k := len(o.in); k > 0 {
			o.in = o.in[:l.w.rng.IntN(k+1)]
		}
	}
}

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
