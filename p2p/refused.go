package p2p

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/coveyproject/covey/internal/far"
)

const (
	refusalAge   = time.Second            // how long "nobody listens on that port" is believed for QUIC
	refusalGrace = 300 * time.Millisecond // how long a dial goes on with other addresses after the one that used to work refused; some round trips if the peer was far away
)

// refusals knows what refused TCP dials mean. Our peers listen on one port with TCP and QUIC, and a
// UDP dial to a dead process would otherwise keep us waiting for seconds to learn the same; so
// would addresses that lead nowhere from here.
type refusals struct {
	distances *distances

	mu    sync.Mutex
	at    map[string]time.Time   // ip:port refused, when
	last  map[peer.ID]netip.Addr // where a peer was when we last had a direct connection
	dials map[peer.ID]map[*dial]struct{}
}

// dial is one attempt to open a stream.
type dial struct {
	cancel context.CancelCauseFunc
	met    context.CancelFunc // ends the search for a connection: one stands
	timer  *time.Timer
}

func (r *refusals) init() {
	r.at, r.last, r.dials = map[string]time.Time{}, map[peer.ID]netip.Addr{}, map[peer.ID]map[*dial]struct{}{}
}

// note is called with the result of every TCP dial.
func (r *refusals) note(p peer.ID, m ma.Multiaddr, err error) {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return
	}
	key, ok := hostAndPort(m)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for k, t := range r.at {
		if now.Sub(t) > refusalAge {
			delete(r.at, k)
		}
	}
	r.at[key.String()] = now
	if r.last[p] != key.Addr() {
		return
	}
	for d := range r.dials[p] {
		if d.timer == nil {
			d.timer = time.AfterFunc(far.Allow(refusalGrace, r.distances.last(p)), func() { d.cancel(syscall.ECONNREFUSED) })
		}
	}
}

// fresh tells whether TCP was refused there a moment ago.
func (r *refusals) fresh(m ma.Multiaddr) bool {
	key, ok := hostAndPort(m)
	if !ok {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.at[key.String()]) <= refusalAge
}

// watch cuts a dial short once the address that used to work has refused. search ends as soon as
// there is a connection, too: a dial that began while nobody answered would go on for seconds
// beside one that the other side made. done ends the watch.
func (r *refusals) watch(ctx context.Context, p peer.ID) (whole, search context.Context, done func()) {
	whole, cancel := context.WithCancelCause(ctx)
	search, met := context.WithCancel(whole)
	d := &dial{cancel: cancel, met: met}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dials[p] == nil {
		r.dials[p] = map[*dial]struct{}{}
	}
	r.dials[p][d] = struct{}{}
	return whole, search, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if d.timer != nil {
			d.timer.Stop()
		}
		if delete(r.dials[p], d); len(r.dials[p]) == 0 {
			delete(r.dials, p)
		}
		cancel(nil)
	}
}

// arrived is called when a connection to a peer stands.
func (r *refusals) arrived(p peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for d := range r.dials[p] {
		d.met()
	}
}

// was remembers where an admitted peer is.
func (r *refusals) was(c network.Conn) {
	if isRelay(c.RemoteMultiaddr()) {
		return
	}
	if key, ok := hostAndPort(c.RemoteMultiaddr()); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last[c.RemotePeer()] = key.Addr()
	}
}

// dialError says whether it is evidence that the process is gone, whatever the errors inside say.
type dialError struct {
	err     error
	refused bool
}

func (e *dialError) Error() string { return wordDial(e.err) }

// errGone is said of a process whose address refused.
var errGone = &dialError{errors.New("connection refused where it was before, no answer elsewhere"), true}

// As gives out the error inside.
func (e *dialError) As(target any) bool { return errors.As(e.err, target) }

// Is answers for the error inside, except about refusals.
func (e *dialError) Is(target error) bool {
	if target == syscall.ECONNREFUSED {
		return e.refused
	}
	return errors.Is(e.err, target)
}

// judge wraps the error of a dial.
func (r *refusals) judge(ctx context.Context, p peer.ID, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(ctx), syscall.ECONNREFUSED) || errors.Is(err, errGone) {
		return errGone
	}
	r.mu.Lock()
	last := r.last[p]
	r.mu.Unlock()
	e := &dialError{err: err}
	if de, ok := errors.AsType[*swarm.DialError](err); ok {
		for _, t := range de.DialErrors {
			key, ok := hostAndPort(t.Address)
			e.refused = e.refused || ok && !isRelay(t.Address) && key.Addr() == last && errors.Is(t.Cause, syscall.ECONNREFUSED)
		}
	}
	return e
}

// TakenUp tells whether a dial failed although somebody listens there: it closed the connection
// before it stood, as a peer does that has too many on its connLimits.
func TakenUp(err error) bool {
	var de *swarm.DialError
	return errors.As(err, &de) && slices.ContainsFunc(de.DialErrors, func(t swarm.TransportError) bool { return closedOnUs(t.Cause) })
}

func hostAndPort(m ma.Multiaddr) (netip.AddrPort, bool) {
	a, err := manet.ToNetAddr(m[:min(2, len(m))])
	if err != nil {
		return netip.AddrPort{}, false
	}
	ap, err := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), err == nil
}

// Refused tells whether a dial failed because the other machine answered that nobody listens there:
// the process is gone. A timeout, a cut cable and a protocol that is not served are not refusals;
// nor is a refusal by a relay, or by an address that we were not connected to before (in another
// private network, the same numbers may be somebody else's machine).
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
