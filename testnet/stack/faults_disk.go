package stack

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// A life has one machine with a bad disk: whatever happens to it, and however often, the disks of
// the other voters are a majority that is whole, and nothing that was accepted may be lost.

// badDisk is that machine, if its disk may be hurt now: others are there to make good what it
// loses, and vote.
func (w *world) badDisk() *peer {
	if len(w.peers) < 3 {
		return nil
	}
	if w.bad == nil {
		w.bad = w.anyone()
	}
	if seated, _ := w.voters(); w.bad.usable() == nil || len(seated) < 3 {
		return nil
	}
	return w.bad
}

// voters are those that hold seats, by the account of the peer that has applied most of the ledger,
// and how much that is; nil if nobody can say.
func (w *world) voters() (ids []string, most uint64) {
	for _, p := range w.peers {
		if l := p.usable(); l != nil {
			if st, err := l.node.Backend().Status(context.Background()); err == nil && st.Index >= most {
				most, ids = st.Index, st.Voters
			}
		}
	}
	return ids, most
}

// beyond lists who has applied a decision after an index, by their ids.
func (w *world) beyond(ctx context.Context, index uint64) map[string]bool {
	ids := map[string]bool{}
	for _, p := range w.peers {
		if l := p.usable(); l != nil {
			if st, err := l.node.Backend().Status(ctx); err == nil && st.Index > index {
				ids[st.ID] = true
			}
		}
	}
	return ids
}

// hurtDisk kills the peer with the bad disk and hurts what is on that while it is down.
func (w *world) hurtDisk(hurt func(p *peer) (what string, err error)) {
	p := w.badDisk()
	if p == nil {
		return
	}
	heal := w.hurt(p)
	p.kill(w.chance(0.5))
	what, err := hurt(p)
	if err != nil {
		w.fail("bug", "hurt the disk of %s: %v", p.name, err)
	}
	if w.cfg.Break == BreakAllDisks {
		w.loseLedgers()
	}
	w.tellf("the disk of %s: %s", p.name, what)
	w.count(func(s *Stats) { s.Damages++ })
	p.downs++
	w.until(w.spell(), func() { p.downs--; heal(); p.boot() })
}

// rot flips a bit in one of the files a peer goes on with by itself, mostly the ledger's.
func (w *world) rot() {
	w.hurtDisk(func(p *peer) (string, error) {
		files, err := rotten(p.dir, w.chance(0.7))
		if err != nil || len(files) == 0 {
			return "no file to rot", err
		}
		path := files[w.rng.IntN(len(files))]
		b, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		bit := flip(b, w.rng)
		rel, _ := filepath.Rel(p.dir, path)
		if rel == "worker.db" {
			w.orphaned, p.forgot = true, true
		}
		return fmt.Sprintf("bit %d of %s flips", bit, rel), os.WriteFile(path, b, 0o600)
	})
}

// rotten lists the files that may rot: of the ledger, or others that no person must mend. A roster
// is one only while a copy of the ledger is there.
func rotten(dir string, ledger bool) (out []string, err error) {
	if !ledger {
		for _, name := range []string{"voter.mark", "seats", "starts", "book", "worker.db"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				out = append(out, filepath.Join(dir, name))
			}
		}
		return out, nil
	}
	err = filepath.WalkDir(filepath.Join(dir, "ledger"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	return out, err
}

// flip turns one bit over, rather one in a byte that says something, and tells which; -1 in an
// empty file.
func flip(b []byte, rng *rand.Rand) int {
	var said []int
	for i, x := range b {
		if x != 0 {
			said = append(said, i)
		}
	}
	if len(said) == 0 {
		return -1
	}
	bit := 8*said[rng.IntN(len(said))] + rng.IntN(8)
	b[bit/8] ^= 1 << (bit % 8)
	return bit
}

// empty takes away what a voter must not vote without.
func (w *world) empty() {
	w.hurtDisk(func(p *peer) (string, error) {
		logs, err := filepath.Glob(filepath.Join(p.dir, "ledger", "raft-*", "*.wal"))
		if err != nil {
			return "", err
		}
		switch n := w.rng.IntN(4); n {
		case 0:
			return "the ledger's folder is gone", os.RemoveAll(filepath.Join(p.dir, "ledger"))
		case 1:
			return "the log is gone", each(logs, os.Remove)
		case 2:
			return "the log is emptied", each(logs, func(path string) error { return os.Truncate(path, 0) })
		default:
			return "the log is cut off", each(logs, func(path string) error {
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				return os.Truncate(path, info.Size()*int64(n)/8)
			})
		}
	})
}

func each(paths []string, f func(string) error) error {
	for _, path := range paths {
		if err := f(path); err != nil {
			return err
		}
	}
	return nil
}

// loseLedgers is for a Break: nobody has a ledger any more, nor what tells that there was one.
func (w *world) loseLedgers() {
	for _, p := range w.peers {
		heal := w.hurt(p)
		p.kill(true)
		for _, name := range []string{"ledger", "voter.mark", "seats"} {
			_ = os.RemoveAll(filepath.Join(p.dir, name))
		}
		heal()
	}
}

// turnBack has a peer come back with a copy of its whole folder that was made a while before. What
// nobody else has heard of since nobody can tell it.
func (w *world) turnBack() {
	p := w.badDisk()
	if p == nil {
		return
	}
	l, made, old := p.alive(), w.now(), p.backup()
	w.at(w.now()+w.ms(1000, 30_000), func() {
		if p.usable() != l || p.troubled(made) || !w.heardAll(p, made, len(w.peers)/2+1) {
			_ = os.RemoveAll(old)
			return
		}
		again := p.startedSince(made)
		w.hurtDisk(func(p *peer) (string, error) {
			_ = os.RemoveAll(p.dir)
			p.dir, p.forgot, w.orphaned = old, true, true
			p.forgetTold()
			w.people.lost(p)
			return fmt.Sprintf("the folder is turned back by %v", w.now()-made), nil
		})
		if w.cfg.Break == BreakOldFolder {
			for _, x := range again {
				w.check.started(&proc{p: p, launch: x.launch, since: w.now()})
			}
		}
	})
}

// backup copies the folder of a peer that runs. Nothing else happens meanwhile.
func (p *peer) backup() (dir string) {
	w := p.w
	p.backups++
	dir = filepath.Join(w.cfg.Dir, fmt.Sprintf("%s-backup-%d", p.name, p.backups))
	w.cfg.Settle()
	if err := copyFolder(p.alive().dir, dir); err != nil {
		w.fail("bug", "copy the folder of %s: %v", p.name, err)
	}
	w.tellf("the folder of %s is copied", p.name)
	return dir
}

// putBack has a voter decide while half of the others are away; then it comes back with a copy of
// its folder from before that, together with those. The peers that know what was decided come last.
func (w *world) putBack() {
	p := w.badDisk()
	if p == nil {
		return
	}
	l, made := p.alive(), w.now()
	seated, _ := w.voters()
	var away, witnesses []*peer
	for _, n := range w.rng.Perm(len(w.peers)) {
		o := w.peers[n]
		x := o.usable()
		switch {
		case o == p:
		case x != nil && len(away) < len(seated)/2 && slices.Contains(seated, x.id()):
			away = append(away, o)
		default:
			witnesses = append(witnesses, o)
		}
	}
	if len(away) < len(seated)/2 || !slices.Contains(seated, l.id()) {
		return
	}
	back := w.fell(away)
	old := p.backup()
	w.until(w.ms(5000, 20_000), func() {
		if p.usable() != l || p.troubled(made) || !w.heardAll(p, made, len(seated)/2) {
			_ = os.RemoveAll(old)
			back()
			return
		}
		late := w.fell(append(witnesses, p))
		_ = os.RemoveAll(p.dir)
		p.dir, p.forgot, w.orphaned = old, true, true
		p.forgetTold()
		if w.cfg.Break != BreakStaleSeat {
			p.moves++
		}
		w.people.lost(p)
		w.tellf("the folder of %s is put back by %v", p.name, w.now()-made)
		w.count(func(s *Stats) { s.Damages++ })
		p.downs--
		p.boot()
		p.downs++
		back()
		w.until(w.ms(15_000, 40_000), late)
	})
}

// forgetTold is for a peer whose folder is put back to a copy: its watchers begin anew, for it does
// not know what it has told them.
func (p *peer) forgetTold() {
	clear(p.heard)
	p.once, p.token = api.Once{}, ""
}

// fell kills peers, those that run. The result has them come back.
func (w *world) fell(peers []*peer) (rise func()) {
	var rises []func()
	for _, o := range peers {
		heal := w.hurt(o)
		o.kill(w.chance(0.5))
		o.downs++
		rises = append(rises, func() { o.downs--; heal(); o.boot() })
	}
	return func() {
		for _, f := range rises {
			f()
		}
	}
}

// id is the peer's key, "" if it does not say.
func (l *life) id() string {
	st, err := l.node.Backend().Status(context.Background())
	if err != nil {
		return ""
	}
	return st.ID
}

func (p *peer) startedSince(since time.Duration) (out []*proc) {
	c := &p.w.check
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.starts {
		if x.p == p && x.since >= since {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b *proc) int { return a.launch.Task.Compare(b.launch.Task) })
	return out
}

// heardAll reports whether all others that run, so many at least, know that these tasks were begun.
func (w *world) heardAll(p *peer, since time.Duration, least int) bool {
	others := 0
	for _, o := range w.peers {
		l := o.usable()
		if o == p || l == nil {
			continue
		}
		others++
		for _, x := range p.startedSince(since) {
			t := x.launch.Task
			have := map[string]reach{}
			add(have, tasksAt(l, string(t.Job)))
			if !(reach{attempt: t.Attempt, state: taskstate.Preparing}).known(have[fmt.Sprintf("%s.%d", t.Job, t.Slot)]) {
				return false
			}
		}
	}
	return others >= least
}

// known tells whether each peer that must have it knows that a slot has got as far as this.
func (r reach) known(have reach) bool {
	return have.attempt > r.attempt || have.attempt == r.attempt && have.state >= r.state
}

// The room on a machine's disk.
const (
	roomTotal = 100 << 30
	noRoom    = 1 << 20
	saysFull  = 10 * time.Second // a disk is looked at every two seconds, and who coordinates hears of it
)

func (w *world) fillDisk() {
	p := w.anyone()
	if p.usable() == nil {
		return
	}
	heal := w.hurt(p)
	w.tellf("the disk of %s is full", p.name)
	p.fill(w.now())
	w.until(w.ms(5000, 60_000), func() {
		p.fill(0)
		heal()
		w.tellf("there is room on the disk of %s again", p.name)
	})
}

// fill notes since when the disk is full; 0: it is not.
func (p *peer) fill(since time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == 0 || since == 0 {
		p.full = since
	}
}

// fullFor is how long the disk has been full, as seen by this process.
func (p *peer) fullFor(l *life) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full == 0 {
		return 0
	}
	return p.w.now() - max(p.full, l.since)
}

func (p *peer) room() (supervise.Room, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full > 0 && p.w.cfg.Break != BreakFill {
		return supervise.Room{Free: noRoom, Total: roomTotal}, nil
	}
	return supervise.Room{Free: roomTotal / 2, Total: roomTotal}, nil
}

// filled is I9: a peer whose disk is full starts nothing that it was given since.
func (c *check) filled(x *proc) {
	if d := x.p.fullFor(x.by.l); d > saysFull {
		c.w.fail("I9", "%s starts %s, and its disk has been full for %v", x.p.name, x.launch.Task, d)
	}
}
