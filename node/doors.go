package node

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// dialer is the network as membership dials it: where another peer does not admit this one, it
// shows its roster entry. A newcomer can be faster than the news of its admission, and a removed
// peer learns that it was.
type dialer struct {
	host *p2p.Host
	show func(ctx context.Context, peer string) bool
}

// SetAddrs implements membership.Host.
func (d dialer) SetAddrs(peer string, addrs []string) { d.host.SetAddrs(peer, addrs) }

// RTT is the round trip to a peer, 0 if it was not measured.
func (d dialer) RTT(peer string) time.Duration { return d.host.RTT(peer) }

// Connect implements membership.Host.
func (d dialer) Connect(ctx context.Context, peer string, addrs []string) error {
	err := d.host.Connect(ctx, peer, addrs)
	if errors.Is(err, p2p.ErrNotAdmitted) && d.show(ctx, peer) {
		return d.host.Connect(ctx, peer, addrs)
	}
	direct, relayed := d.host.Connected(peer)
	if err != nil && !direct && !relayed && d.host.Seek(ctx, peer, addrs) == nil { // it moved when we did
		return nil
	}
	return err
}

// contacts is where peers are to be found: what this peer tells who is to find them, and what it is
// told.
type contacts struct {
	self    taskstate.PeerID
	host    *p2p.Host
	members *membership.Membership
}

// ticketDoors is how many peers a ticket names: enough that some of them are up.
const ticketDoors = 4

// open are addresses of this peer and of some that are alive, to be found by who joins.
func (d *contacts) open() []admission.PeerAddr {
	found := []admission.PeerAddr{{ID: d.self, Addrs: d.host.Addrs()}}
	for m := range d.members.View().Alive() {
		if m.ID != d.self && len(found) < ticketDoors && len(m.Addrs) > 0 {
			found = append(found, admission.PeerAddr{ID: m.ID, Addrs: m.Addrs})
		}
	}
	return found
}

// absentDoors is how many members that are away a newcomer is told of: one less than it tries at
// once, so that somebody who is there is among the first.
const absentDoors = membership.ReachAtOnce - 1

// newcomer is what who joins is told: open, and where some members are that are away. Gossip tells
// a newcomer nothing of them. When all who met them have left, it is for those who came after to
// find them: they themselves know nobody who is there.
func (d *contacts) newcomer() []admission.PeerAddr {
	return append(d.open(), away(d.members.View())...)
}

// away is where up to absentDoors members are that do not seem to be there, at random.
func away(v *membership.View) (found []admission.PeerAddr) {
	for _, m := range v.Members {
		if m.Verdict != membership.Alive && len(m.Addrs) > 0 {
			found = append(found, admission.PeerAddr{ID: m.ID, Addrs: m.Addrs})
		}
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	return found[:min(absentDoors, len(found))]
}

// remember tells the network and the peer book where peers are.
func (d *contacts) remember(peers []admission.PeerAddr) {
	told := make([]membership.PeerAddr, 0, len(peers))
	for _, p := range peers {
		if p.ID != d.self {
			d.host.SetAddrs(p.ID, p.Addrs)
			told = append(told, membership.PeerAddr(p))
		}
	}
	d.members.Remember(told)
}
