package stack

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// Scene is a life in which its author, not fate, says what happens and when. All its methods are
// called by the function given to Play, in the bubble; peers are counted from 0.
type Scene struct {
	w     *world
	heals map[int]func()    // of the peers that are down
	jobs  []taskstate.JobID // handed in, accepted or held
}

// Play founds a cluster of cfg.Peers peers, waits until each of them lists all as ready, and lets f
// say what happens. The checks of every life look on: the first that is broken is in the result.
func Play(cfg Config, f func(*Scene)) Result {
	w := &world{cfg: cfg, birth: time.Now(), rng: rand.New(rand.NewPCG(cfg.Seed, 0x7363656e65)), wires: memnet.NewWires()}
	w.stats.Lives, w.stats.Peers = 1, cfg.Peers
	w.check.init(w)
	for i := range cfg.Peers {
		p := newPeer(w, i)
		p.offer = taskstate.Resources{MilliCPU: 4000, Memory: 4 << 30}
		w.peers = append(w.peers, p)
		for j := range cfg.Peers {
			w.lag(i, j)
		}
	}
	w.people.init(w)
	s := &Scene{w: w, heals: map[int]func(){}}
	if w.found() {
		if _, why := s.Await(time.Minute+60*cfg.Far, s.Apart); why != "" {
			w.fail("bug", "a new cluster does not find itself: %s", why)
		} else {
			f(s)
		}
	}
	w.end()
	return Result{Violation: w.violation, Stats: w.stats}
}

// lag draws how much later arrives what one peer writes to another.
func (w *world) lag(from, to int) {
	d := w.ms(0, 20)
	if from != to {
		d += w.cfg.Far
	}
	w.wires.Lag(newAddr(from), newAddr(to), d)
}

// Now is the time since the cluster's founding began.
func (s *Scene) Now() time.Duration { return s.w.now() }

// Sleep lets time pass.
func (s *Scene) Sleep(d time.Duration) { s.w.runUntil(s.w.now() + d) }

// lookEvery is how exactly a scene measures.
const lookEvery = 20 * time.Millisecond

// Await lets time pass until what says that nothing is missing, and returns how long that took. If
// limit passes first, it returns also what was missing last.
func (s *Scene) Await(limit time.Duration, what func() string) (took time.Duration, missing string) {
	begin := s.w.now()
	for !s.w.broken() {
		missing = what()
		took = s.w.now() - begin
		if missing == "" || took >= limit {
			return took, missing
		}
		s.Sleep(lookEvery)
	}
	return s.w.now() - begin, "an invariant is broken"
}

// Kill ends a peer without warning: by kill -9, after which its machine resets what the process had
// open and refuses its ports, or with power, by a cut of it, after which nothing answers any more.
func (s *Scene) Kill(k int, power bool) {
	p := s.w.peers[k]
	heal := s.w.hurt(p)
	p.kill(power)
	p.downs++
	s.heals[k] = func() { p.downs--; heal() }
}

// Far makes what any peer writes to another arrive d later.
func (s *Scene) Far(d time.Duration) {
	for i := range s.w.peers {
		for j := range s.w.peers {
			if i != j {
				s.w.wires.Lag(newAddr(i), newAddr(j), d)
			}
		}
	}
}

// Boot starts a peer again that was killed.
func (s *Scene) Boot(k int) {
	s.heals[k]()
	delete(s.heals, k)
	s.w.peers[k].boot()
}

// Join starts another peer, which asks to be let in with the cluster's ticket, and returns its
// number.
func (s *Scene) Join() int {
	w := s.w
	p := newPeer(w, len(w.peers))
	p.offer = taskstate.Resources{MilliCPU: 4000, Memory: 4 << 30}
	w.peers = append(w.peers, p)
	for j := range w.peers {
		w.lag(p.n, j)
		w.lag(j, p.n)
	}
	p.boot()
	return p.n
}

// Cut keeps everything from getting from one side to the other, both ways, until the returned
// function is called.
func (s *Scene) Cut(one, other []int) (heal func()) {
	w := s.w
	set := func(n int) {
		for _, a := range one {
			for _, b := range other {
				w.cut(w.peers[a], w.peers[b], n)
				w.cut(w.peers[b], w.peers[a], n)
			}
		}
	}
	w.tellf("-- %v and %v are cut apart", one, other)
	undo := w.hurt(w.peers...)
	set(1)
	return func() {
		w.tellf("-- %v and %v are together again", one, other)
		set(-1)
		undo()
	}
}

// Submit hands a job in at a peer, which accepts it or, if it finds no coordinator, holds it.
func (s *Scene) Submit(k int, j taskstate.Job) (held bool) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	s.w.signed.wants(&j)
	got, err := s.node(k).Submit(ctx, api.Submit{Job: j})
	if err != nil {
		s.w.fail("bug", "job %s is not taken at p%d: %v", j.ID, k, err)
	}
	s.w.tellf("job %s is handed in at p%d, held %t", j.ID, k, got.Held)
	s.jobs = append(s.jobs, j.ID)
	return got.Held
}
