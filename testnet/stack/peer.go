package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/node"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// peer is a machine, and what is left on it when its process ends.
type peer struct {
	w     *world
	n     int
	name  string
	ip    netip.Addr
	offer taskstate.Resources

	// Fate's alone:
	dir     string // data folder of the next life
	lives   int
	wipes   int
	cuts    int64 // of the world, when it was cloned
	downs   int   // faults that keep it down
	backups int
	moves   int  // how often its folder was put back to a copy, elsewhere on the disk
	forgot  bool // its disk may lack what its worker's journal held

	// Its watchers have these, one life after the other:
	once  api.Once
	token string                   // of the newest event
	heard map[string]time.Duration // events, and when they were told

	mu       sync.Mutex
	life     *life         // nil while no process runs
	pains    int           // faults that touch it now
	trouble  time.Duration // when one last did
	severed  time.Duration // until when a cut touched it
	full     time.Duration // since when its disk is full; 0: it is not
	procs    map[taskstate.TaskID]*proc
	begun    map[taskstate.TaskID]bool                // since the power came
	rebooted bool                                     // and what began before, nobody knows
	said     map[taskstate.TaskID]taskstate.RunReport // that no journal holds yet, as far as was said
}

func newPeer(w *world, n int) *peer {
	p := &peer{w: w, n: n, name: fmt.Sprintf("p%d", n), ip: newAddr(n), procs: map[taskstate.TaskID]*proc{}, said: map[taskstate.TaskID]taskstate.RunReport{}, begun: map[taskstate.TaskID]bool{}, heard: map[string]time.Duration{}}
	p.offer = taskstate.Resources{MilliCPU: int64(w.between(1, 4)) * 1000, Memory: int64(w.between(1, 4)) << 30}
	p.dir = p.folder()
	return p
}

func (p *peer) folder() string {
	return filepath.Join(p.w.cfg.Dir, fmt.Sprintf("%s-%d", p.name, p.lives))
}

type life struct {
	p       *peer
	n       int
	since   time.Duration
	session string // name for the story
	dir     string
	machine *memnet.Machine
	node    *node.Node
	cancel  context.CancelFunc
	crook   *crook
	anew    bool // it said as it became ready that its journal was lost
	ready   chan struct{}
	dead    chan struct{} // closed when it is killed
	ended   chan struct{} // closed when nothing of it runs any more
}

// killed tells whether the process is no more: what it still says is nothing.
func (l *life) killed() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// gone tells whether nobody hears what the process says any more: it was killed, or has come to its
// end.
func (l *life) gone() bool {
	select {
	case <-l.ended:
		return true
	default:
		return l.killed()
	}
}

// alive is the peer's process, nil if there is none or it ends.
func (p *peer) alive() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// usable is alive, once it is ready.
func (p *peer) usable() *life {
	l := p.alive()
	if l == nil {
		return nil
	}
	select {
	case <-l.ready:
		return l
	default:
		return nil
	}
}

// boot starts the process, if none runs.
func (p *peer) boot() {
	if p.downs > 0 || p.alive() != nil {
		return
	}
	w := p.w
	p.lives++
	l := &life{
		p: p, n: p.lives, since: w.now(), session: p.session(), dir: p.dir, machine: w.wires.Machine(p.ip),
		ready: make(chan struct{}), dead: make(chan struct{}), ended: make(chan struct{}),
	}
	l.crook = &crook{l: l}
	w.tellf("%s boots", l.session)
	w.count(func(s *Stats) { s.Boots++ })
	var err error
	if l.node, err = p.build(l); err != nil {
		w.fail("bug", "%s does not start: %v", l.session, err)
		return
	}
	p.mu.Lock()
	p.life = l
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	w.all.Go(func() { l.run(ctx) })
}

// build makes the node. A folder without a past joins with the ticket; the first of all founds.
func (p *peer) build(l *life) (*node.Node, error) {
	w := p.w
	listener, err := l.machine.Listen(netip.AddrPortFrom(p.ip, 1))
	if err != nil {
		return nil, err
	}
	cfg := node.Config{
		Data: l.dir, Listen: []string{p.ip.String()}, Name: p.name, MilliCPU: p.sold(), Memory: p.offer.Memory, Store: p.store(), NoMDNS: true, Testnet: true,
		Machine: node.Machine{
			Sockets: l.machine, API: listener, Room: p.room, Propose: l.crook.wrap, Sessions: l.crook.sessions, Verify: w.verify(),
			Place:  fmt.Sprint(p.name, " on machine ", p.lives/100, ", place ", p.moves), // each life has a copy of the folder; a clone is elsewhere
			Runner: func(sink func(taskstate.RunReport)) (node.Runner, error) { return newRunner(l, sink), nil },
		},
	}
	if _, err := os.Stat(filepath.Join(l.dir, "roster")); errors.Is(err, fs.ErrNotExist) {
		w.mu.Lock()
		cfg.Join = w.ticket
		w.mu.Unlock()
	}
	if w.cfg.Log != nil {
		cfg.Log = slog.New(w.cfg.Log).With("peer", p.name, "life", l.n)
	}
	return node.New(cfg)
}

func (p *peer) sold() int64 {
	if p.w.cfg.Break == BreakOversell {
		return 2 * p.offer.MilliCPU
	}
	return p.offer.MilliCPU
}

// run lives until the process is stopped or killed. One that could not join, with nobody to let it
// in, tries again.
func (l *life) run(ctx context.Context) {
	p, w := l.p, l.p.w
	watch, unwatch := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	err := l.node.Run(ctx, func(st api.Status) {
		if !l.killed() {
			w.tellf("%s is ready: %s", l.session, st.How)
			watching.Go(func() { w.check.watch(watch, l) })
			l.anew = lostJournal(st)
			close(l.ready)
		}
	})
	unwatch()
	watching.Wait()
	close(l.ended)
	asked := ctx.Err() != nil || l.killed()
	w.tellf("%s has ended (killed %t): %v", l.session, l.killed(), err)
	if l.killed() {
		_ = os.RemoveAll(l.dir) // what is left of it was copied when it died
	}
	l.machine.Kill(false)
	p.mu.Lock()
	if p.life == l {
		p.life = nil
	}
	p.mu.Unlock()
	if !asked && (err == nil || api.AsError(err).Code != api.NoCoordinator) {
		w.fail("bug", "%s ended by itself: %v", l.session, err)
	}
}

// invite asks for a ticket that lets everybody in, once the peer is ready.
func (p *peer) invite() (string, error) {
	l := p.alive()
	if l == nil {
		return "", errors.New("the first peer does not run")
	}
	select {
	case <-l.ready:
	case <-l.ended:
		return "", errors.New("the first peer has ended")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	k, err := l.node.Backend().Invite(ctx, api.TicketRequest{Expires: 24 * 3600, Uses: 10_000})
	return k.Ticket, err
}

// kill ends the process without warning: what is on disk in this moment is what the next life
// finds. Nothing else happens while the folder is copied, for it takes no time.
func (p *peer) kill(power bool) {
	l := p.alive()
	if l == nil {
		return
	}
	w := p.w
	w.cfg.Settle()
	w.tellf("%s dies (power %t)", l.session, power)
	p.dir = p.folder()
	if err := copyFolder(l.dir, p.dir); err != nil {
		w.fail("bug", "copy the folder of %s: %v", l.session, err)
	}
	close(l.dead)
	if w.cfg.Break == BreakNoWake {
		p.downs++
	}
	p.mu.Lock()
	p.life = nil
	p.mu.Unlock()
	l.machine.Kill(power)
	l.cancel()
	if power {
		p.endAll()
	}
}

// wipe loses the disk, but for the key: the same peer, without a past. The machine is down.
func (p *peer) wipe() error {
	key, err := os.ReadFile(filepath.Join(p.dir, "identity.key"))
	if err != nil {
		return err
	}
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	p.wipes++
	return os.WriteFile(filepath.Join(p.dir, "identity.key"), key, 0o600)
}

// copyFolder copies what a crash leaves: no sockets, no locks.
func copyFolder(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch at := filepath.Join(to, rel); {
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case !d.Type().IsRegular():
			return nil
		default:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(at, b, 0o600)
		}
	})
}

// hurt marks peers as touched by a fault until the returned function is called.
func (w *world) hurt(ps ...*peer) (heal func()) {
	mark := func(d int) {
		for _, p := range ps {
			p.mu.Lock()
			p.pains += d
			p.trouble = w.now()
			p.mu.Unlock()
		}
	}
	mark(1)
	return func() { mark(-1) }
}

// troubled tells whether a fault has touched the peer since then.
func (p *peer) troubled(since time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pains > 0 || p.trouble >= since
}
