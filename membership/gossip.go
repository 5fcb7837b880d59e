package membership

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
)

// gossipTo is how many members each round of gossip tells.
const gossipTo = 3

// retransmit is how often a member passes a piece of news on, times log10(members), rounded up.
// About half of it is spent on answers to those who told the news: with memberlist's 4 one in
// twenty pieces missed one of ten members, which then waited for a probe, for up to seven seconds.
const retransmit = 8

// pump sends memberlist's news when there is some. memberlist itself looks every so often whether
// there is anything to gossip, which an idle peer wakes up for in vain, and what there is waits for
// it; its probes and their answers carry news besides. The pump is rung by whatever makes or brings
// news, and by every packet that was seen to carry some. A round pings a few members: the pings
// take the news along. Rounds go on while packets carry any; the last one finds nothing more to
// carry. Should nobody ring, the next probe (Timings.Probe) takes the news along, and rings.
type pump struct{ wake.Signal }

// ring says that there is, or may be, something to tell. It never blocks.
func (p pump) ring() { p.Set() }

// saw looks at a packet, sent or received.
func (p pump) saw(packet []byte) {
	if carriesNews(packet) {
		p.ring()
	}
}

// runPump tells members what there is to tell until ctx ends.
func (m *Membership) runPump(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	var work sync.WaitGroup
	defer work.Wait() // a ping ends after ProbeTimeout
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.pump.Signal:
		}
		m.tellSome(ctx, &work)
		t.Reset(m.timings.Gossip * m.near.slower())
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// tellSome pings a few members near at random, without waiting for their answers: those first to
// whom packets go already. News is no reason to make a connection: where many peers come at once
// each would make one with everybody near within seconds, when all have most to do.
func (m *Membership) tellSome(ctx context.Context, work *sync.WaitGroup) {
	var met, others []string
	for _, id := range m.near.now().near {
		if m.transport.talksTo(id) {
			met = append(met, id)
		} else {
			others = append(others, id)
		}
	}
	rand.Shuffle(len(met), func(i, j int) { met[i], met[j] = met[j], met[i] })
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	all := append(met, others...)
	for _, name := range all[:min(len(all), gossipTo)] {
		work.Go(func() { m.reach.greet(ctx, name) })
	}
}
