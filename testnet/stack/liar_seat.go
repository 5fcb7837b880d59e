package stack

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"

	"github.com/fxamacker/cbor/v2"
)

// pretender is a liar that holds no seat in the ledger, and acts as if it did.
type pretender struct {
	l       *liar
	cluster string
	index   uint64 // of the newest decision anywhere when it held no seat any more
	voters  []quorum.Voter
}

// newPretender reads what the peer knew, whose key it has; nil if it held a seat, or knew too
// little.
func (l *liar) newPretender(dir string, index uint64, seated []string) *pretender {
	x := &pretender{l: l, index: index}
	for _, id := range seated {
		if id == l.host.Self() {
			return nil
		}
	}
	var memo struct {
		Voters []quorum.Voter `cbor:"5,keyasint"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "ledger", "memo"))
	if err != nil || cbor.Unmarshal(b, &memo) != nil || len(seated) == 0 || len(memo.Voters) == 0 {
		return nil
	}
	if r, err := admission.OpenRoster(filepath.Join(dir, "roster"), p2p.Verify); err == nil {
		x.cluster = r.Cluster()
	}
	x.voters = memo.Voters
	return x
}

// forge says to all that decide whatever only one that decides may say. None of it may be believed.
// A voter that was cut off before this peer lost its seat cannot know of that, and its committed
// configuration is the old one: it is told only once it has applied a decision that came after.
func (x *pretender) forge(ctx context.Context) {
	self := x.l.host.Self() + "/1"
	beyond := x.l.w.beyond(ctx, x.index)
	for _, v := range x.voters {
		if !beyond[v.Peer] {
			continue
		}
		to := v.Peer + "/" + string(v.Incarnation)
		x.says(ctx, v.Peer, quorum.RaftProtocol, "entries", map[int]any{1: 1, 2: self, 3: to})
		x.says(ctx, v.Peer, quorum.VoterProtocol, "a seat", map[int]any{1: map[int]any{1: 1, 2: to}})
		x.says(ctx, v.Peer, quorum.VoterProtocol, "an order to stand", map[int]any{5: map[int]any{1: 1, 4: self, 5: uint64(math.MaxUint64)}})
		x.ask(ctx, v.Peer, quorum.FollowProtocol, map[int]any{1: uint64(math.MaxUint64), 2: 0}, nil) // "mine is of a later generation"
		x.bury(ctx, v.Peer)
	}
}

// bury shows a peer its own tombstone.
func (x *pretender) bury(ctx context.Context, peer string) {
	at := time.Now().UnixMilli()
	own, err := admission.Entry{Cluster: x.cluster, Peer: x.l.host.Self(), Roles: admission.AllRoles(), At: at}.Signed(x.l.host)
	if err != nil {
		return
	}
	tomb, err := admission.Entry{Cluster: x.cluster, Peer: peer, Roles: admission.AllRoles(), At: at, Removed: true, Index: x.index, Generation: 1, Term: 1}.Signed(x.l.host)
	if err != nil {
		return
	}
	seats, err := admission.Seats{Cluster: x.cluster, Generation: 1, Index: x.index + 1000, Voters: []string{x.l.host.Self()}, By: x.l.host.Self()}.SignedBy(x.l.host)
	if err != nil {
		return
	}
	var a any
	x.ask(ctx, peer, admission.RosterProtocol, map[int]any{1: []admission.Entry{own, tomb}, 2: []admission.Seats{seats}}, &a)
}

// says asks for what only a yes would grant.
func (x *pretender) says(ctx context.Context, peer, protocol, what string, question any) {
	var a map[int]any
	x.ask(ctx, peer, protocol, question, &a)
	if yes, _ := a[1].(bool); yes || x.l.w.cfg.Break == BreakBelieve && a != nil {
		x.l.w.fail("I8", "%s takes %s from %s, which holds no seat: %v", peer, what, x.l.host.Self(), a)
	}
}

// ask sends one frame and reads one, if answer is not nil.
func (x *pretender) ask(ctx context.Context, peer, protocol string, question, answer any) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := x.l.host.Dial(ctx, peer, protocol)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if wire.NewWriter(c, 0).Send(question) == nil && answer != nil {
		_ = wire.NewReader(c, 0).Read(answer)
	}
}
