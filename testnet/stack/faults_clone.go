package stack

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// clone starts a copy of a peer's whole folder on another machine, as one does that was made from
// an image of the first. A peer that sees both says so: neither votes nor takes tasks. After a
// while the copy goes for good, and the peer is started again, as a person does who was told.
func (w *world) clone() {
	p := w.anyone()
	l := p.usable()
	if l == nil || w.twin != nil || len(w.peers) < 3 || w.hurting() {
		return
	}
	x := &peer{
		w: w, n: p.n, name: p.name, ip: newAddr(100 + p.n), offer: p.offer, lives: 100, pains: 1, rebooted: true, cuts: w.cuts.Load(), dir: filepath.Join(w.cfg.Dir, p.name+"-clone"),
		procs: map[taskstate.TaskID]*proc{}, said: map[taskstate.TaskID]taskstate.RunReport{}, begun: map[taskstate.TaskID]bool{}, heard: map[string]time.Duration{},
	}
	w.twin = x
	w.cfg.Settle()
	if err := copyFolder(l.dir, x.dir); err != nil {
		w.fail("bug", "copy the folder of %s: %v", p.name, err)
		return
	}
	heal := w.hurt(p)
	w.tellf("%s is cloned", p.name)
	w.count(func(s *Stats) { s.Clones++ })
	x.boot()
	if w.cfg.Break == BreakTwoOfOne {
		tasks, _ := p.running()
		for _, t := range tasks {
			p.mu.Lock()
			r := p.procs[t]
			p.mu.Unlock()
			w.check.started(&proc{p: x, launch: r.launch, since: w.now()})
		}
	}
	w.until(w.ms(8000, 30_000), func() {
		w.tellf("the clone of %s goes", p.name)
		if p.usable() == l && x.usable() != nil && !w.apart(p, x) && !copied(l) {
			w.fail("I8", "%s and its clone ran side by side, and it does not say so", l.session)
		}
		x.kill(true)
		x.downs++
		p.kill(false)
		heal()
		p.boot()
	})
}

func copied(l *life) bool {
	st, err := l.node.Backend().Status(context.Background())
	return err == nil && slices.ContainsFunc(st.Troubles, func(t api.Trouble) bool { return t.Code == api.TroubleCopied })
}

func (w *world) hurting() bool {
	for _, p := range w.peers {
		p.mu.Lock()
		pains := p.pains
		p.mu.Unlock()
		if pains > 0 {
			return true
		}
	}
	return false
}

// apart tells whether one of two processes with one key may have been out of everybody's reach who
// saw the other.
func (w *world) apart(a, b *peer) bool {
	for _, p := range []*peer{a, b} {
		if p.lives >= 100 && p.cuts != w.cuts.Load() {
			return true
		}
	}
	return false
}

func (p *peer) session() string {
	if p.lives >= 100 {
		return fmt.Sprintf("the clone of %s", p.name)
	}
	return fmt.Sprintf("%s, life %d", p.name, p.lives)
}
