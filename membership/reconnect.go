package membership

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/strain"
	"github.com/coveyproject/covey/p2p"
)

// ReachAtOnce is how many absent peers are tried at the same time.
const ReachAtOnce = 8

const (
	connectLimit = 3 * time.Second        // for one of them
	joinTries    = 4                      // push/pulls with a peer that answers
	kickDelay    = 200 * time.Millisecond // a peer that was heard usually joins by itself
)

// reacher keeps trying the peers of the book that are not here, and those it is asked to.
type reacher struct {
	host      Host
	timings   Timings
	absentees absentees
	near      *neighbours
	kicks     chan string  // peers to reach soon
	outdated  atomic.Int64 // how often somebody had an old picture of this peer
}

// absentees is what a reacher asks of the peers it may reach, and tells.
type absentees interface {
	wanted(id string) bool
	present(id string) bool
	hurried() bool
	booked() []string
	bookAddrs(id string) []string
	note(id string, err error)
	running() *memberlist.Memberlist
	livesOf(id string) uint64
	pinged(id string, rtt time.Duration)
}

// kick asks for a peer to be reached. When the queue is full the loop comes round to it by itself.
func (r *reacher) kick(peer string) {
	select {
	case r.kicks <- peer:
	default:
	}
}

// booked are all peers of the book.
func (m *Membership) booked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.book.peers))
}

func (m *Membership) bookAddrs(id string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book.peers[id].Addrs
}

// Remember writes down where peers are, on disk when it returns. They are greeted once Run runs. A
// peer that has just joined calls it before anything else is durable: killed before the first
// gossip, it would come back knowing nobody.
func (m *Membership) Remember(peers []PeerAddr) {
	m.mu.Lock()
	for _, p := range peers {
		if p.ID != m.self && p.ID != "" {
			m.book.told(p)
		}
	}
	m.mu.Unlock()
	m.save(false)
}

// reconnect keeps trying the absent peers of the book: all of them at once now, then one at random
// per Retry, several per RetryFast while this peer is alone or young. memberlist alone never heals
// a partition that lasted longer than it remembers its dead.
func (r *reacher) reconnect(ctx context.Context) {
	r.reachAbsent(ctx, r.absent(0))
	t := time.NewTimer(r.pace())
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			n := 1
			if r.absentees.hurried() {
				n = ReachAtOnce
			}
			r.reachAbsent(ctx, r.absent(n))
			t.Reset(r.pace())
		}
	}
}

// welcome reaches peers that were heard of, until ctx ends; it does not wait behind the loop above,
// which may be dialling into silence.
func (r *reacher) welcome(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case id := <-r.kicks:
			r.answerKicks(ctx, id)
		}
	}
}

// answerKicks reaches peers that were just heard of, unless they turn up by themselves in a moment.
func (r *reacher) answerKicks(ctx context.Context, first string) {
	want := map[string]bool{first: true}
	late := time.NewTimer(kickDelay)
	defer late.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return
		case id := <-r.kicks:
			want[id] = true
		case <-late.C:
			waiting = false
		}
	}
	var ids []string
	for id := range want {
		if r.absentees.wanted(id) {
			ids = append(ids, id)
		}
	}
	r.reachAbsent(ctx, ids)
}

// wanted: the peer may be a member and memberlist does not hold it alive.
func (m *Membership) wanted(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.table.entries[id]
	return !m.left && id != m.self && m.cfg.Admitted(id) && (e == nil || e.gossip == 0 || e.gossip == Dead)
}

// present: memberlist holds the peer alive, or suspects it.
func (m *Membership) present(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.table.entries[id]
	return !m.left && e != nil && e.gossip != 0 && e.gossip != Dead
}

// absent picks up to n peers of the book that are not here, at random; 0 means all.
func (r *reacher) absent(n int) []string {
	ids := r.absentees.booked()
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var out []string
	for _, id := range ids {
		if r.absentees.wanted(id) {
			if out = append(out, id); len(out) == n {
				break
			}
		}
	}
	return out
}

// hurried: alone though others are known, or newly started.
func (m *Membership) hurried() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.born) < m.timings.Young {
		return true
	}
	return len(m.currentView().Others()) == 0
}

// pace is the time until the next try, with jitter: RetryFast to twice that, or Retry ± a quarter;
// a third of that while a hurry would have nobody to go to.
func (r *reacher) pace() time.Duration {
	if r.absentees.hurried() {
		if len(r.absent(1)) == 0 {
			return r.timings.Retry/4 + rand.N(r.timings.Retry/6)
		}
		return r.timings.RetryFast + rand.N(r.timings.RetryFast)
	}
	return r.timings.Retry*3/4 + rand.N(r.timings.Retry/2)
}

// reachAbsent reaches peers of the book that are not here, ReachAtOnce at a time. A peer that was
// reached has told of others: those are only greeted in their turn. Otherwise a large cluster that
// starts at once would exchange all it knows once for every pair of its peers.
func (r *reacher) reachAbsent(ctx context.Context, ids []string) {
	each(ids, func(id string) {
		switch {
		case ctx.Err() != nil:
		case r.absentees.wanted(id):
			r.absentees.note(id, r.reach(ctx, id))
		case r.absentees.present(id) && r.near.has(id):
			r.greet(ctx, id)
		}
	})
}

// greet lets a peer hear of this one: if gossip has not told it, it asks for more. It waits for the
// answer, for ProbeTimeout at most; of a peer that is farther away than that, for some round trips,
// or until ctx ends.
func (r *reacher) greet(ctx context.Context, id string) {
	list := r.absentees.running()
	if list == nil {
		return
	}
	lives, rtt := r.absentees.livesOf(id), far.RTT(r.host, id)
	_, err := list.Ping(id, &net.UDPAddr{IP: syntheticIP(id), Port: wantedPort})
	if err == nil || rtt <= r.timings.Probe {
		return
	}
	for end := time.Now().Add(far.Allow(0, rtt)); time.Now().Before(end); {
		if r.absentees.livesOf(id) != lives {
			r.absentees.pinged(id, rtt)
			return
		}
		if pause.For(ctx, r.timings.ProbeTimeout) != nil {
			return
		}
	}
}

// each calls f with every id, ReachAtOnce at a time, and waits for all.
func each(ids []string, f func(id string)) {
	slots := make(chan struct{}, ReachAtOnce)
	var work sync.WaitGroup
	for _, id := range ids {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			f(id)
		})
	}
	work.Wait()
}

// reach connects to a peer and exchanges everything with it: each side learns that the other lives,
// and whom it knows.
func (r *reacher) reach(ctx context.Context, id string) error {
	ctx, cancel := strain.Timeout(ctx, far.For(r.host, id, connectLimit))
	defer cancel()
	if err := r.host.Connect(ctx, id, r.absentees.bookAddrs(id)); err != nil {
		return err
	}
	for try := 1; ; try++ {
		list := r.absentees.running()
		if list == nil {
			return errors.New("this peer is stopping")
		}
		old := r.outdated.Load()
		_, err := list.Join([]string{joinString(id)})
		if err == nil && r.outdated.Load() != old { // it now knows that it has to be told better: do so, gossip takes its time
			_, err = list.Join([]string{joinString(id)})
		}
		if err == nil || try == joinTries {
			return err
		}
		if pause.For(ctx, kickDelay/2+rand.N(kickDelay)) != nil { // it is there, but busy or just starting
			return err
		}
	}
}

// note files the outcome of a try the loop made.
func (m *Membership) note(id string, err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	m.log.Debug("peer is not reached", "peer", id, "refused", p2p.Refused(err), "err", err)
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.book.peers[id]
	if !known || m.stopped || time.Since(m.born) < m.grace() {
		return
	}
	if m.table.missed(id, r.meta(), time.Now()) {
		m.dirty()
	}
}

// grace is how long after the start a peer of the book is not held dead: somebody else may still
// tell of it.
func (m *Membership) grace() time.Duration {
	return time.Duration(m.timings.Suspicion*m.timings.Patience)*m.timings.Probe + m.timings.Probe
}
