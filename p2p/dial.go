package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/strain"
)

// ErrNotAdmitted is what a peer says whose roster does not have us.
var ErrNotAdmitted = errors.New("this peer is not admitted there: ask for a ticket (`peer ticket` on a machine of that cluster), then `peer up --join TICKET`")

// ErrBusy is what a peer says that has as many streams of strangers as it allows.
var ErrBusy = errors.New("that peer is busy with other newcomers: try again in a few seconds")

// ErrTooMany is what a peer says that has as many streams of one protocol from us as it allows: we
// are admitted, and there.
var ErrTooMany = errors.New("this peer has too many streams open to that one at once: try again when some of them have ended")

const (
	openTries   = 3 // dials: what one made may be dead at once
	openPause   = 20 * time.Millisecond
	hintedAddrs = 12              // known addresses of a peer above which hints are not added
	hintTime    = 3 * time.Minute // they are told again, if it is there
	connectTime = time.Hour       // what Connect was given is kept; identify, which tells no addresses, ends libp2p's own times
)

// Dial opens a stream, connecting first if need be. It fails within three seconds, or within some
// round trips if the peer is known to be far away, or later on a machine so busy that this process
// itself gets no time. Refused tells a dead process from silence. The gate of the other side shows
// at the first Read, as ErrNotAdmitted, ErrBusy or ErrTooMany.
func (h *Host) Dial(ctx context.Context, peerID, name string) (net.Conn, error) {
	p, err := peer.Decode(peerID)
	if err != nil {
		return nil, fmt.Errorf("dial: %q is not a peer id: %w", peerID, err)
	}
	if p == h.id {
		return nil, fmt.Errorf("dial %s: to itself", peerID)
	}
	ctx, cancel := strain.Timeout(ctx, h.allow(dialTimeout, p))
	defer cancel()
	s, err := h.open(ctx, p, name)
	if err != nil {
		return nil, fmt.Errorf("dial %s %s: %w", peerID, name, h.older(p, err))
	}
	c := newConn(s, false)
	c.barred = func() { h.cfg.OnNotAdmitted(peerID) }
	return h.silence.watch(c), nil
}

// open is NewStream without libp2p's memory of failures, and with another try if the connection it
// used turned out dead: it stood already, or was made while the process at its other end ended.
// libp2p goes on telling of dead ones for a while, on a busy machine for a long one: no dial can
// take their place until then, which the pause waits for.
func (h *Host) open(ctx context.Context, p peer.ID, name string) (network.Stream, error) {
	ctx, search, done := h.refusals.watch(network.WithAllowLimitedConn(ctx, name), p)
	defer done()
	for again, dials := false, 0; ; again = true {
		conns := h.sw.ConnsToPeer(p)
		if len(conns) == 0 {
			dials++
			h.sw.Backoff().Clear(p)
			if err := h.search(search, p); err != nil && search.Err() == nil {
				return nil, h.refusals.judge(ctx, p, gated(err))
			}
			conns = h.sw.ConnsToPeer(p)
		}
		s, err := h.bh.NewStream(ctx, p, protocol.ID(name))
		if err == nil {
			return s, nil
		}
		stands := slices.ContainsFunc(conns, func(c network.Conn) bool { return !c.IsClosed() })
		if dials == openTries || stands || ctx.Err() != nil { // if it stands, they do not want this stream
			return nil, h.refusals.judge(ctx, p, gated(err))
		}
		if again {
			_ = pause.For(ctx, openPause)
		}
	}
}

// SetAddrs remembers where a peer is, in place of what was remembered. What cannot be parsed or
// dialled is dropped; an empty list changes nothing.
func (h *Host) SetAddrs(peerID string, addrs []string) {
	p, err := peer.Decode(peerID)
	list := parseAddrs(addrs)
	if err != nil || p == h.id || len(list) == 0 {
		return
	}
	h.sw.Peerstore().ClearAddrs(p)
	h.sw.Peerstore().AddAddrs(p, list, peerstore.PermanentAddrTTL)
}

// AddAddrs remembers for a while where else a peer may be, on the word of somebody who may be wrong
// or lie. It takes nothing away, and adds nothing where a connection stands or where there is
// enough to try.
func (h *Host) AddAddrs(peerID string, addrs []string) {
	p, err := peer.Decode(peerID)
	if err != nil || p == h.id || len(h.sw.ConnsToPeer(p)) > 0 {
		return
	}
	known := h.sw.Peerstore().Addrs(p)
	list := slices.DeleteFunc(parseAddrs(addrs), func(a ma.Multiaddr) bool { return slices.ContainsFunc(known, a.Equal) })
	h.sw.Peerstore().AddAddrs(p, list[:min(len(list), max(0, hintedAddrs-len(known)))], hintTime)
}

// Connect makes sure that there is a connection to a peer, dialling addrs and what is remembered,
// that the peer answers on it, and that it has us in its roster: if not, the error is
// ErrNotAdmitted, and the connection stays for the protocols strangers may open. Connections on
// which nothing came back for three seconds, or for some round trips if the peer is far away, are
// closed, so that the next Connect dials.
func (h *Host) Connect(ctx context.Context, peerID string, addrs []string) error {
	p, err := peer.Decode(peerID)
	if err != nil {
		return fmt.Errorf("connect: %q is not a peer id: %w", peerID, err)
	}
	if p == h.id {
		return errors.New("connect: to itself")
	}
	h.sw.Peerstore().AddAddrs(p, parseAddrs(addrs), connectTime)
	began, trip := time.Now(), h.rtt(p)
	ctx, cancel := strain.Timeout(ctx, far.Allow(dialTimeout, trip))
	defer cancel()
	old := h.sw.ConnsToPeer(p)
	if err := h.hello(ctx, p); err != nil {
		if !answered(err) && (trip < remembered || time.Since(began) > 2*trip) { // else the caller left before an answer could come
			// Connections without a sign of life, to a machine that slept or moved, would be used
			// again and again.
			for _, c := range old {
				h.life.spawn(func() { c.Close() })
			}
		}
		return fmt.Errorf("connect to %s: %w", peerID, err)
	}
	return nil
}

// answered tells whether an error is an answer of the other side: a peer that says no lives.
func answered(err error) bool {
	return turnedAway(err) || errors.Is(err, ErrOld) || errors.Is(err, ErrNotAdmitted) || errors.Is(err, ErrBusy) || errors.Is(err, ErrTooMany)
}

// strainedDials is how many searches for connections a host makes at once while its process gets
// too little time. A handshake takes milliseconds of both sides' processors: where a hundred peers
// that share few of them meet, all at once would take longer than anybody waits, and be for
// nothing.
const strainedDials = 2

// takenUpWithin is how long one of them may keep the others waiting before anybody has taken it up.
const takenUpWithin = 300 * time.Millisecond

// searches are those for a connection that are under way, one for each peer.
type searches struct {
	mu    sync.Mutex
	under map[peer.ID]*search
	few   chan struct{} // a place for each of strainedDials
}

// search is shared by all who want a connection to one peer.
type search struct {
	began  time.Time
	cancel context.CancelFunc
	askers int // guarded by searches.mu
	done   chan struct{}
	err    error // after done
}

func (s *searches) init() {
	s.under, s.few = map[peer.ID]*search{}, make(chan struct{}, strainedDials)
}

// search looks for a connection to a peer until ctx ends. When the last caller gives up, a search
// goes on all the same if the other side has taken it up: its work would be for nothing, and would
// be done again for the next caller. It also goes on for a while when that caller ran out of time:
// the peer may be far away.
func (h *Host) search(ctx context.Context, p peer.ID) error {
	all := &h.searches
	all.mu.Lock()
	one := all.under[p]
	if one == nil {
		one = &search{began: time.Now(), done: make(chan struct{})}
		if !h.life.begin() {
			all.mu.Unlock()
			return net.ErrClosed
		}
		all.under[p] = one
		var own context.Context
		own, one.cancel = strain.Timeout(network.WithAllowLimitedConn(h.life.ctx, "search"), searchTime)
		late := time.AfterFunc(unanswered, func() {
			all.mu.Lock()
			defer all.mu.Unlock()
			h.unasked(p, one)
		})
		go func() {
			defer h.life.wg.Done()
			defer late.Stop()
			h.find(own, p, one)
		}()
	}
	one.askers++
	all.mu.Unlock()
	var err error
	select {
	case <-one.done:
		err = one.err
	case <-ctx.Done():
		err = ctx.Err()
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if one.askers--; !errors.Is(ctx.Err(), context.DeadlineExceeded) || time.Since(one.began) >= unanswered {
		h.unasked(p, one)
	}
	return err
}

// unasked ends a search without callers that the other side has not taken up. The caller holds the
// lock.
func (h *Host) unasked(p peer.ID, one *search) {
	if one.askers > 0 || h.greetings.toward(h.sw.Peerstore().Addrs(p)) {
		return
	}
	one.cancel()
	if all := &h.searches; all.under[p] == one {
		delete(all.under, p) // it is over: the next caller begins another
	}
}

// find is a search: it dials, in its turn.
func (h *Host) find(ctx context.Context, p peer.ID, one *search) {
	ctx, met, done := h.refusals.watch(ctx, p)
	if strain.Recent() {
		select {
		case h.searches.few <- struct{}{}:
			leave := sync.OnceFunc(func() { <-h.searches.few })
			defer leave()
			defer time.AfterFunc(takenUpWithin, func() { // who waits for silence needs no processor
				if !h.greetings.toward(h.sw.Peerstore().Addrs(p)) {
					leave()
				}
			}).Stop()
		case <-met.Done():
		}
	}
	one.err = h.bh.Connect(met, peer.AddrInfo{ID: p})
	if errors.Is(context.Cause(ctx), syscall.ECONNREFUSED) {
		one.err = errGone
	}
	done()
	one.cancel()
	h.searches.mu.Lock()
	if h.searches.under[p] == one {
		delete(h.searches.under, p)
	}
	h.searches.mu.Unlock()
	close(one.done)
}
