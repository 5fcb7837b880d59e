package membership

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"covey/p2p"
	"covey/p2p/wire"
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

// prober runs one check per peer at a time.
type prober struct {
	mu      sync.Mutex
	ctx     context.Context // of Run; nil before and after
	running map[string]bool // true: again, please
	work    sync.WaitGroup
	serving int
}

// Probe is called when there is evidence of trouble with a peer: its last connection or its session
// broke. It returns at once. If a dial is refused here the peer is suspect, if it is refused to
// another peer too it is dead; a timeout changes nothing.
func (m *Membership) Probe(peer string) {
	p := &m.probes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil || p.ctx.Err() != nil || peer == m.self {
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
			m.check(ctx, peer)
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

func (m *Membership) startProbing(ctx context.Context) {
	p := &m.probes
	p.mu.Lock()
	p.ctx, p.running = ctx, map[string]bool{}
	p.mu.Unlock()
	m.cfg.Net.Handle(ProbeProtocol, m.serveProbe)
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
func (m *Membership) check(ctx context.Context, peer string) {
	m.mu.Lock()
	e := m.table.entries[peer]
	if e == nil || e.verdict() == Dead {
		m.mu.Unlock()
		return
	}
	lives := e.lives
	m.mu.Unlock()
	if m.tryConnect(ctx, peer) != refused {
		return
	}
	m.accuse(peer, Suspect, lives)
	switch m.askOthers(ctx, peer) {
	case refused:
		m.accuse(peer, Dead, lives)
	case answered:
		m.Heard(peer)
	}
}

func (m *Membership) accuse(peer string, v Verdict, lives uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.stopped && m.table.accuse(peer, v, lives, time.Now()) {
		m.dirty()
		m.log.Info("peer refuses connections", "peer", peer, "verdict", v.String())
	}
}

// tryConnect dials a peer afresh. A connection that breaks under the first try is no refusal yet:
// the next try tells.
func (m *Membership) tryConnect(ctx context.Context, peer string) outcome {
	m.mu.Lock()
	var addrs []string
	if e := m.table.entries[peer]; e != nil {
		addrs = e.addrs
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeConnect)
	defer cancel()
	for {
		err := m.cfg.Host.Connect(ctx, peer, addrs)
		switch {
		case err == nil:
			m.Heard(peer)
			return answered
		case p2p.Refused(err):
			return refused
		}
		m.log.Debug("a probe is unclear", "peer", peer, "err", err)
		select {
		case <-ctx.Done():
			return unclear
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// askOthers asks a few live members; the first clear answer counts.
func (m *Membership) askOthers(ctx context.Context, peer string) outcome {
	var others []string
	for _, id := range m.View().Others() {
		if id != peer {
			others = append(others, id)
		}
	}
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	others = others[:min(len(others), probeWitness)]
	ctx, cancel := context.WithTimeout(ctx, probeAnswer)
	defer cancel()
	answers := make(chan outcome, len(others))
	for _, id := range others {
		m.probes.work.Go(func() { answers <- m.ask(ctx, id, peer) })
	}
	for range others {
		if o := <-answers; o != unclear {
			return o
		}
	}
	return unclear
}

func (m *Membership) ask(ctx context.Context, witness, peer string) outcome {
	c, err := m.cfg.Net.Dial(ctx, witness, ProbeProtocol)
	if err != nil {
		return unclear
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if c.SetDeadline(time.Now().Add(probeAnswer)) != nil || wire.NewWriter(c, probeFrame).Send(probeRequest{Peer: peer}) != nil {
		return unclear
	}
	var a probeAnswerFrame
	if wire.NewReader(c, probeFrame).Read(&a) != nil || a.Outcome > refused {
		return unclear
	}
	return a.Outcome
}

// serveProbe answers another member's question about a third one.
func (m *Membership) serveProbe(from string, c net.Conn) {
	defer c.Close()
	if !m.cfg.Admitted(from) || c.SetDeadline(time.Now().Add(probeAnswer)) != nil {
		return
	}
	ctx := m.probes.enter()
	if ctx == nil {
		return
	}
	defer m.probes.leave()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var q probeRequest
	if wire.NewReader(c, probeFrame).Read(&q) != nil {
		return
	}
	_ = wire.NewWriter(c, probeFrame).Send(probeAnswerFrame{Outcome: m.witness(ctx, q.Peer)})
}

// witness is the own knowledge about a peer, made fresh if need be. Who asks was refused itself, so
// a refusal here makes two.
func (m *Membership) witness(ctx context.Context, peer string) outcome {
	m.mu.Lock()
	e := m.table.entries[peer]
	if e == nil || e.gossip == 0 || !m.cfg.Admitted(peer) {
		m.mu.Unlock()
		return unclear
	}
	lives := e.lives
	o := unclear
	if !e.refused.IsZero() && time.Since(e.refused) < refusalStands {
		o = refused
	}
	m.mu.Unlock()
	if o == unclear {
		o = m.tryConnect(ctx, peer)
	}
	if o == refused {
		m.accuse(peer, Dead, lives)
	}
	return o
}
