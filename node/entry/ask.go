package entry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/strain"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
)

const (
	joinSilence = 30 * time.Second       // without any answer for so long, nobody is there
	joinLimit   = 10 * time.Minute       // answered "not now" for so long, somebody has to look at that cluster
	joinPause   = 200 * time.Millisecond // between two rounds, at first
	joinRest    = 3 * time.Second        // and at last; each with jitter
	joinSay     = 30 * time.Second       // a wait with the same reason is said so often
)

// joinAttempt asks to be let in until somebody does, or refuses, or nobody is there. Who answers
// "not now", or is reached and too busy to answer, is waited for: of many newcomers at once each
// gets its turn.
type joinAttempt struct {
	e     *Entry
	doors []admission.PeerAddr
	req   admission.JoinRequest

	heard time.Time // something was last heard of anybody
	why   string    // it waits, as last said
	said  time.Time
}

// askToJoin asks door after door, in an order of its own each round.
func (e *Entry) askToJoin(ctx context.Context, doors []admission.PeerAddr, req admission.JoinRequest) (admission.JoinAnswer, error) {
	doors = slices.DeleteFunc(doors, func(d admission.PeerAddr) bool { return d.ID == e.cfg.Self })
	if len(doors) == 0 {
		return admission.JoinAnswer{}, api.Errorf(api.NoCoordinator, "the ticket or address leads to this peer itself and to no other; make a ticket at another peer of the cluster (`peer ticket`) and type `peer up --join TICKET`")
	}
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	k := &joinAttempt{e: e, doors: doors, req: req, heard: time.Now()}
	for rest := joinPause; ; rest = min(2*rest, joinRest) {
		answer, err := k.round(ctx)
		var no *admission.Refusal
		switch {
		case err == nil:
			return answer, nil
		case errors.As(err, &no) && !no.Temporary():
			return answer, api.Errorf(api.Refused, "%v", no)
		case errors.Is(err, p2p.ErrOld):
			return answer, api.Errorf(api.Refused, "cannot join: %v", p2p.ErrOld)
		case time.Since(k.heard) <= joinSilence:
		case k.listens(ctx): // on a machine that has no time to shake hands
			k.heard = time.Now()
			k.wait(err)
		default:
			return answer, api.Errorf(api.NoCoordinator, "%s", k.silent(err))
		}
		if no != nil && no.Code == admission.Later {
			rest = joinRest // asking is work for those who are busy with the others
		}
		if pause.For(ctx, rest/2+rand.N(rest)) != nil {
			return answer, api.Errorf(api.NoCoordinator, "cannot join: %s", k.word(err))
		}
	}
}

// round asks every door once. The error is that of the last, unless one was refused for good.
func (k *joinAttempt) round(ctx context.Context) (answer admission.JoinAnswer, last error) {
	for _, d := range k.doors {
		k.e.cfg.Net.SetAddrs(d.ID, d.Addrs)
		try, cancel := strain.Timeout(ctx, calls.Timeout)
		answer, err := admission.Join(try, k.e.cfg.Net, d.ID, k.req)
		cancel()
		var no *admission.Refusal
		if err == nil || errors.As(err, &no) && !no.Temporary() {
			return answer, err
		}
		if last = err; !errors.Is(err, admission.ErrNoContact) || p2p.TakenUp(err) {
			k.heard = time.Now()
			k.wait(err)
		}
	}
	rand.Shuffle(len(k.doors), func(i, j int) { k.doors[i], k.doors[j] = k.doors[j], k.doors[i] })
	return answer, last
}

// listens tells whether a door takes up connections, whatever becomes of them.
func (k *joinAttempt) listens(ctx context.Context) bool {
	for _, d := range k.doors {
		for _, a := range d.Addrs {
			if k.e.cfg.Net.Listens(ctx, a) {
				return true
			}
		}
	}
	return false
}

// wait says why this peer is not in yet, when that is news or has lasted.
func (k *joinAttempt) wait(err error) {
	why := k.word(err)
	if why == k.why && time.Since(k.said) < joinSay {
		return
	}
	if k.said.IsZero() { // a moment's wait is nothing to speak of
		k.said = time.Now().Add(joinRest - joinSay)
		k.why = why
		return
	}
	k.why, k.said = why, time.Now()
	k.e.cfg.Say("not let in yet: " + why + "; this peer goes on asking")
}

// word says in one line what came of asking somebody who is there.
func (k *joinAttempt) word(err error) string {
	if no, ok := errors.AsType[*admission.Refusal](err); ok {
		return no.Error()
	}
	return "a peer there is reached but has no time for newcomers (" + p2p.Why(err) + ")"
}

func (k *joinAttempt) silent(err error) string {
	return fmt.Sprintf("cannot join after %s: no contact with %s (%s); is `peer up` running there, and its port open?",
		joinSilence, strings.Join(addresses(k.doors), ", "), p2p.Why(err))
}
