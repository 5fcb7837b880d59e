package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/p2p/wire"
	"covey/taskstate"
)

// callProtocol carries what only the coordinator decides. Whoever is asked and does not coordinate passes the call on.
const callProtocol = "/covey/call/2"

const (
	callHops    = 3                // how often a call is passed on before it counts as lost between two opinions
	callTimeout = 10 * time.Second // one try, answer included: a ledger write at a slow majority
	callRetry   = 50 * time.Millisecond
	callSlow    = 100 * time.Millisecond // a call that is not answered by then makes the voters look whether the coordinator lives
	callSilent  = time.Second            // and so does one that goes on not to be answered, so often
)

// call is a request for a decision. Exactly one of the commands is set. All are idempotent, so that any call may be repeated.
type call struct {
	From   taskstate.PeerID `cbor:"1,keyasint"` // the peer whose person asks, and who signs
	Hops   int              `cbor:"-"`          // see signedCall
	Submit *taskstate.Job   `cbor:"3,keyasint,omitempty"`
	Cancel *ledger.Cancel   `cbor:"4,keyasint,omitempty"`
	Invite *ledger.Invite   `cbor:"5,keyasint,omitempty"`
	Revoke *ledger.Revoke   `cbor:"6,keyasint,omitempty"`
	Remove *ledger.Remove   `cbor:"7,keyasint,omitempty"`
	Leave  *ledger.Depart   `cbor:"8,keyasint,omitempty"`
	Join   *joinCall        `cbor:"9,keyasint,omitempty"`
	Flock  *calls.FlockCall `cbor:"10,keyasint,omitempty"`
	Again  bool             `cbor:"11,keyasint,omitempty"` // with Submit: asked before, and the answer never came
	Thaw   *thawCall        `cbor:"12,keyasint,omitempty"`
	At     int64            `cbor:"2,keyasint,omitempty"`  // when From signed it, milliseconds since 1970
	Nonce  []byte           `cbor:"14,keyasint,omitempty"` // so that it counts once
	Lasts  int64            `cbor:"13,keyasint,omitempty"` // with Invite: milliseconds until it expires, by the coordinator's clock
	Avail  *ledger.Avail    `cbor:"30,keyasint,omitempty"`
	Label  *ledger.Label    `cbor:"31,keyasint,omitempty"`
	Set    *ledger.Set      `cbor:"32,keyasint,omitempty"`
	Roles  *rolesCall       `cbor:"33,keyasint,omitempty"`

	Update    *ledger.Update  `cbor:"20,keyasint,omitempty"`
	Renew     *ledger.Renew   `cbor:"21,keyasint,omitempty"`
	Retire    *ledger.Retire  `cbor:"22,keyasint,omitempty"`
	Rollout   *ledger.Rollout `cbor:"23,keyasint,omitempty"`
	Preview   *previewCall    `cbor:"24,keyasint,omitempty"`
	Rebalance *rebalanceCall  `cbor:"25,keyasint,omitempty"`
	Trigger   *triggerCall    `cbor:"26,keyasint,omitempty"`
	Pin       *ledger.Pin     `cbor:"27,keyasint,omitempty"`
}

// joinCall is a stranger's request, seen by the peer it dialled.
type joinCall struct {
	Peer    taskstate.PeerID      `cbor:"1,keyasint"`
	Request admission.JoinRequest `cbor:"2,keyasint"`
}

// thawCall says that the peers that vanished are really gone.
type thawCall struct{}

// reply answers a call. Lost means: this peer does not coordinate and could not pass the call on; ask again.
type reply struct {
	Error *api.Error            `cbor:"1,keyasint,omitempty"`
	Lost  bool                  `cbor:"2,keyasint,omitempty"`
	Join  *admission.JoinAnswer `cbor:"3,keyasint,omitempty"`
	Flock *calls.Flock          `cbor:"4,keyasint,omitempty"`
	Index uint64                `cbor:"5,keyasint,omitempty"` // of the decision: the asker's replica will have it at this index
	Gone  []taskstate.PeerID    `cbor:"6,keyasint,omitempty"` // Thaw: who does not count any more
	Until int64                 `cbor:"7,keyasint,omitempty"` // Invite: when it expires
	Now   int64                 `cbor:"8,keyasint,omitempty"` // Lost because it was signed at another time: the coordinator's clock
	changeReply
}

// errNobodyDecides is what decide ends with when its context does before a coordinator was found.
var errNobodyDecides = errors.New("no coordinator")

// decide brings a call to the coordinator, wherever that is, and goes on trying until ctx ends. Errors of the decision itself are
// *api.Error; without a coordinator it is errNobodyDecides.
func (n *Node) decide(ctx context.Context, c call) (reply, error) {
	c.From = n.self
	var last error
	for {
		changed := n.ledger.Changed()
		r, err := n.try(ctx, c)
		if err == nil && r.Now != 0 && n.signer.corrected(r.Now) {
			n.log.Warn("this machine's clock is far from the coordinator's: it is corrected in what this peer asks for", "theirs", time.UnixMilli(r.Now).UTC())
		}
		switch {
		case err == nil && !r.Lost:
			if r.Error != nil {
				return r, r.Error
			}
			return r, nil
		case c.Remove != nil && c.Remove.Peer == n.self && n.removed():
			return reply{}, nil // it is done: the gates closed before the answer was through
		case err != nil:
			last = err
			c.Again = c.Submit != nil
		}
		select {
		case <-ctx.Done():
			return reply{}, fmt.Errorf("%w (%v)", errNobodyDecides, last)
		case <-changed:
		case <-time.After(callRetry):
		}
	}
}

// try asks once, in this peer's own name: this peer itself if it coordinates, otherwise the one it believes does.
func (n *Node) try(ctx context.Context, c call) (reply, error) {
	if who, _, ok := n.coordinator(); ok && who == n.self {
		return n.execute(ctx, c)
	}
	q, err := n.signer.seal(c)
	if err != nil {
		return reply{}, err
	}
	return n.pass(ctx, q)
}

// pass brings a signed call to whoever this peer believes to coordinate.
func (n *Node) pass(ctx context.Context, q signedCall) (reply, error) {
	who, _, ok := n.coordinator()
	if !ok || who == n.self {
		return reply{Lost: true}, errors.New("nobody coordinates")
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	watch.Go(func() { n.untilAnotherDecides(ctx, who, cancel) })
	return n.ask(ctx, who, q)
}

// untilAnotherDecides gives a call up as soon as somebody else than the one that was asked coordinates: that one may never answer. While
// it does not, the voters look whether it lives, again and again. It ends with ctx, the call's own.
func (n *Node) untilAnotherDecides(ctx context.Context, asked taskstate.PeerID, giveUp func()) {
	late := time.NewTimer(callSlow) // from before the dial: a silent peer does not answer that either
	defer late.Stop()
	for {
		changed := n.ledger.Changed()
		if who, _, ok := n.ledger.Coordinator(); ok && who != asked {
			giveUp()
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-late.C:
			n.ledger.SuspectLeader()
			late.Reset(callSilent)
		case <-changed:
		}
	}
}

// ask sends one call to one peer and waits for its answer.
func (n *Node) ask(ctx context.Context, peer taskstate.PeerID, q signedCall) (reply, error) {
	conn, err := n.host.Dial(ctx, peer, callProtocol)
	if err != nil {
		return reply{}, fmt.Errorf("ask %s: %w", peer, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := wire.NewWriter(conn, 0).Send(q); err != nil {
		return reply{}, fmt.Errorf("ask %s: %w", peer, err)
	}
	var r reply
	if err := wire.NewReader(conn, 0).Read(&r); err != nil {
		if errors.Is(err, p2p.ErrNotAdmitted) {
			n.show(ctx, peer)
		}
		return reply{}, fmt.Errorf("ask %s: %w", peer, err)
	}
	return r, nil
}

// serveCall answers a call of another peer, or passes it on.
func (n *Node) serveCall(ctx context.Context, peer string, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callTimeout))
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var q signedCall
	if err := wire.NewReader(conn, 0).Read(&q); err != nil {
		n.log.Debug("unreadable call", "peer", peer, "err", err)
		return
	}
	if err := wire.NewWriter(conn, 0).Send(n.answerCall(ctx, peer, q)); err != nil {
		n.log.Debug("answer to a call not sent", "peer", peer, "err", err)
	}
}

// answerCall looks at what a peer sent, and decides it or passes it on.
func (n *Node) answerCall(ctx context.Context, peer taskstate.PeerID, q signedCall) reply {
	c, err := n.signer.open(q)
	if err != nil {
		n.refused.Note(peer, "a call in bad hands")
		return reply{Error: api.Errorf(api.Refused, "this call does not count: %v", err)}
	}
	if bad := c.check(); bad != nil {
		return reply{Error: bad}
	}
	q.Hops = max(q.Hops, 0) + 1
	if q.Hops > callHops {
		return reply{Lost: true}
	}
	var r reply
	if who, _, ok := n.coordinator(); !ok || who != n.self {
		r, err = n.pass(ctx, q)
	} else if late, ok := n.fresh(c); !ok {
		r = late
	} else {
		r, err = n.execute(ctx, c)
	}
	if err != nil {
		return reply{Lost: true}
	}
	return r
}

// execute decides a call, as coordinator. A ledger that stops leading meanwhile makes it Lost: the asker tries again.
func (n *Node) execute(ctx context.Context, c call) (reply, error) {
	if e := n.allowed(c); e != nil {
		return reply{Error: e}, nil
	}
	switch {
	case c.Join != nil:
		return n.executeJoin(ctx, *c.Join)
	case c.Flock != nil:
		return reply{Flock: n.flockNow(ctx, *c.Flock)}, nil
	case c.Thaw != nil:
		return n.executeThaw(ctx)
	case c.Remove != nil:
		return n.executeRemove(ctx, *c.Remove)
	case c.Roles != nil:
		return n.executeRoles(ctx, *c.Roles)
	case c.changesJob():
		return n.executeChange(ctx, c)
	}
	if c.Invite != nil {
		inv := *c.Invite
		inv.By = c.From
		return n.executeInvite(ctx, inv, c.Lasts)
	}
	cmd := ledger.Command{Cancel: c.Cancel, Revoke: c.Revoke, Depart: c.Leave, Avail: c.Avail, Label: c.Label, Set: c.Set}
	if c.Submit != nil {
		cmd.Submit = &ledger.Submit{Job: *c.Submit, Again: c.Again}
	}
	return n.propose(ctx, cmd)
}

// propose writes one command and turns its refusal into words.
func (n *Node) propose(ctx context.Context, cmd ledger.Command) (reply, error) {
	index, results, err := n.ledger.Propose(ctx, []ledger.Command{cmd})
	if err != nil {
		return reply{Lost: true}, nil //nolint:nilerr // whoever asks tries again, at the next coordinator
	}
	return answerTo(cmd, results[0], index), nil
}

// answerTo words the result of one command.
func answerTo(cmd ledger.Command, r ledger.Result, index uint64) reply {
	switch code := r.Refused; {
	case code == ledger.CodeStale:
		return reply{Lost: true}
	case code == ledger.CodeNone, code == ledger.CodePartly:
	case cmd.Submit != nil && r.Existed && code == ledger.CodeOver: // it was accepted, ran and is forgotten; only the answer was lost
	default:
		out := reply{Error: cmp.Or(refusedChange(cmd, r), refusal(cmd, code)), Index: index}
		out.told(r)
		return out
	}
	out := reply{Index: index}
	out.told(r)
	return out
}

// refusal says why the ledger did not do what was asked.
func refusal(cmd ledger.Command, code ledger.Code) *api.Error {
	switch {
	case cmd.Submit != nil && code == ledger.CodeConflict:
		return api.Errorf(api.Conflict, "another job has the id %s; submit again to get a new one", cmd.Submit.Job.ID)
	case cmd.Cancel != nil && code == ledger.CodeOver:
		return api.Errorf(api.Conflict, "job %s is over; there is nothing to cancel", cmd.Cancel.Job)
	case cmd.Cancel != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no job %s; see `peer jobs`", cmd.Cancel.Job)
	case cmd.Pin != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no job %s; see `peer jobs`", cmd.Pin.Job)
	case cmd.Pin != nil && code == ledger.CodeInvalid:
		return api.Errorf(api.Conflict, "%d jobs are pinned, and more cannot be; `peer unpin` one first", ledger.MaxPins)
	case cmd.Revoke != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no ticket %q; see `peer ticket --list`", cmd.Revoke.ID)
	case cmd.Avail != nil:
		return refusedPeer(cmd.Avail.Peer, code)
	case cmd.Set != nil && code == ledger.CodeInvalid:
		return api.Errorf(api.Usage, "these settings would not do together with those that hold; see `peer set`")
	case cmd.Label != nil && code == ledger.CodeInvalid:
		return api.Errorf(api.Usage, "peer %s would have more than %d labels given or taken by people", cmd.Label.Peer, ledger.MaxLabels)
	case cmd.Label != nil:
		return refusedPeer(cmd.Label.Peer, code)
	case cmd.Remove != nil && code == ledger.CodeUnknown:
		return api.Errorf(api.NotFound, "no peer %s; see `peer peers`", cmd.Remove.Peer)
	case cmd.Remove != nil && code == ledger.CodeSole:
		return api.Errorf(api.Conflict, "%s is the only voter: without it nobody could decide anything; let another peer join first", cmd.Remove.Peer)
	}
	return api.Errorf(api.Conflict, "the coordinator refused: %s", code)
}

// allowed checks the asker's roles.
func (n *Node) allowed(c call) *api.Error {
	need := admission.Admin
	switch {
	case c.Join != nil, c.Flock != nil, c.Leave != nil && c.Leave.Peer == c.From, c.ofItself():
		return nil
	case c.Submit != nil, c.Cancel != nil, c.changesJob():
		need = admission.Submit
	}
	if e, ok := n.roster.Get(c.From); !ok || !e.Has(need) {
		return api.Errorf(api.Refused, "this peer was admitted without the role %q; ask for a ticket that gives it (peer ticket --role …)", need)
	}
	return nil
}
