package membership

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
)

const (
	probeConnect  = 1200 * time.Millisecond // for one connect
	probeAnswer   = 2 * time.Second         // for another peer's answer, its connect included
	probeWitness  = 3                       // others that are asked
	probeAtOnce   = 16                      // checks under way for others
	probeFrame    = 256                     // bytes
	refusalStands = 2 * time.Second         // an own refusal answers for so long
)

// probeRequest asks whether a peer can be reached.
type probeRequest struct {
	_    struct{} `cbor:",toarray"`
	Peer string
}

// outcome is what one connect showed.
type outcome uint8

const (
	unclear  outcome = iota // no answer in time, or not known: says nothing
	answered                // it lives
	refused                 // its machine says that nobody listens there
)

type probeAnswerFrame struct {
	_       struct{} `cbor:",toarray"`
	Outcome outcome
}

// prober finds out whether peers refuse connections, one check of each at a time, and answers
// others who ask. What it finds it tells the keeper of the verdicts.
type prober struct {
	cfg      *Config
	verdicts verdicts

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before and after
	running map[string]bool // true: again, please
	work    sync.WaitGroup
	serving int
}

// verdicts is what a prober asks and tells of peers.
type verdicts interface {
	known(peer string) knownPeer
	claimGone(peer string, v Verdict, lives uint64)
	Heard(peer string)
	Near() []string
}

// knownPeer is what is known of a peer; zero: nothing.
type knownPeer struct {
	verdict  Verdict
	gossiped bool // memberlist knows it
	lives    uint64
	addrs    []string
	refused  time.Time // its last refusal here
}

func (m *Membership) known(peer string) (a knownPeer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.table.entries[peer]; e != nil {
		a = knownPeer{e.verdict(), e.gossip != 0, e.lives, e.addrs, e.refused}
	}
	return a
}

// Probe is called when there is evidence of trouble with a peer: its last connection or its session
// broke. It returns at once. If a dial is refused here the peer is suspect, if it is refused to
// another peer too it is dead; a timeout changes nothing. In a large cluster a peer that gets too
// little time itself leaves this to those near the other.
func (m *Membership) Probe(peer string) {
	if peer != m.self && !m.near.spares(peer) {
		m.probes.look(peer)
	}
}

// look checks a peer, again if it is being checked.
func (p *prober) look(peer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil {
		return
	}
	if _, busy := p.running[peer]; busy {
		p.running[peer] = true
		return
	}
	p.running[peer] = false
	ctx := p.ctx
	p.work.Go(func() {
		for again := true; again; {
			p.check(ctx, peer)
			p.mu.Lock()
			if again = p.running[peer] && ctx.Err() == nil; again {
				p.running[peer] = false
			} else {
				delete(p.running, peer)
			}
			p.mu.Unlock()
		}
	})
}

func (p *prober) start(ctx context.Context) {
	p.mu.Lock()
	p.ctx, p.running = ctx, map[string]bool{}
	p.mu.Unlock()
	p.cfg.Net.Handle(ProbeProtocol, p.serve)
}

// wait ends it: no check starts any more, and those under way have ended (their context has).
func (p *prober) wait() {
	p.mu.Lock()
	p.ctx = nil
	p.mu.Unlock()
	p.work.Wait()
}

// begin has f run, unless Run is over or has not begun.
func (p *prober) begin(f func(context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx := p.ctx
	if ctx == nil || ctx.Err() != nil {
		return false
	}
	p.work.Go(func() { f(ctx) })
	return true
}

// enter counts a question from outside; nil when Run is over or too many are under way.
func (p *prober) enter() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil || p.serving >= probeAtOnce {
		return nil
	}
	p.serving++
	p.work.Add(1)
	return p.ctx
}

func (p *prober) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serving--
	p.work.Done()
}

// check gathers evidence about one peer.
func (p *prober) check(ctx context.Context, peer string) {
	a := p.verdicts.known(peer)
	if a.verdict == 0 || a.verdict == Dead || p.connect(ctx, peer, a.addrs) != refused {
		return
	}
	p.verdicts.claimGone(peer, Suspect, a.lives)
	switch p.askOthers(ctx, peer) {
	case refused:
		p.verdicts.claimGone(peer, Dead, a.lives)
	case answered:
		p.verdicts.Heard(peer)
	}
}

func (m *Membership) claimGone(peer string, v Verdict, lives uint64) {
	m.mu.Lock()
	changed := !m.stopped && m.table.claimGone(peer, v, lives, time.Now())
	if changed {
		m.dirty()
		m.log.Info("peer refuses connections", "peer", peer, "verdict", v.String())
	}
	tell := changed && v == Dead && !m.near.all() // where all are near, all see it themselves
	m.mu.Unlock()
	if tell {
		m.tellGone(peer, true)
	}
}

// connect dials a peer afresh. A connection that breaks under the first try is no refusal yet:
// the next try tells.
func (p *prober) connect(ctx context.Context, peer string, addrs []string) outcome {
	ctx, cancel := context.WithTimeout(ctx, far.For(p.cfg.Host, peer, probeConnect))
	defer cancel()
	for {
		err := p.cfg.Host.Connect(ctx, peer, addrs)
		switch {
		case err == nil:
			p.verdicts.Heard(peer)
			return answered
		case p2p.Refused(err):
			return refused
		}
		p.cfg.Log.Debug("a probe is unclear", "peer", peer, "err", err)
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return unclear
		}
	}
}

// askOthers asks a few live members; the first clear answer counts.
func (p *prober) askOthers(ctx context.Context, peer string) outcome {
	var others []string
	for _, id := range p.verdicts.Near() {
		if id != peer {
			others = append(others, id)
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:min(len(others), probeWitness)]
	patience := probeAnswer
	for _, id := range others {
		patience = max(patience, far.For(p.cfg.Net, id, probeAnswer))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers := make(chan outcome, len(others))
	for _, id := range others {
		p.work.Go(func() { answers <- p.ask(ctx, id, peer) })
	}
	for range others {
		if o := <-answers; o != unclear {
			return o
		}
	}
	return unclear
}

func (p *prober) ask(ctx context.Context, witness, peer string) outcome {
	c, err := p.cfg.Net.Dial(ctx, witness, ProbeProtocol)
	if err != nil {
		return unclear
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if c.SetDeadline(time.Now().Add(far.For(p.cfg.Net, witness, probeAnswer))) != nil || wire.NewWriter(c, probeFrame).Send(probeRequest{Peer: peer}) != nil {
		return unclear
	}
	var a probeAnswerFrame
	if wire.NewReader(c, probeFrame).Read(&a) != nil || a.Outcome > refused {
		return unclear
	}
	return a.Outcome
}

// serve answers another member's question about a third one.
func (p *prober) serve(from string, c net.Conn) {
	defer c.Close()
	if !p.cfg.Admitted(from) || c.SetDeadline(time.Now().Add(probeAnswer)) != nil {
		return
	}
	ctx := p.enter()
	if ctx == nil {
		return
	}
	defer p.leave()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var q probeRequest
	if wire.NewReader(c, probeFrame).Read(&q) != nil {
		return
	}
	_ = wire.NewWriter(c, probeFrame).Send(probeAnswerFrame{Outcome: p.witness(ctx, q.Peer)})
}

// witness is the own knowledge about a peer, made fresh if need be. Who asks was refused itself, so
// a refusal here makes two.
func (p *prober) witness(ctx context.Context, peer string) outcome {
	a := p.verdicts.known(peer)
	if !a.gossiped || !p.cfg.Admitted(peer) {
		return unclear
	}
	o := refused
	if a.refused.IsZero() || time.Since(a.refused) >= refusalStands {
		o = p.connect(ctx, peer, a.addrs)
	}
	if o == refused {
		p.verdicts.claimGone(peer, Dead, a.lives)
	}
	return o
}
