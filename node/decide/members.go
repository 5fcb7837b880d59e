package decide

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
)

// executeThaw ends a freeze, as coordinator.
func (d *Decider) executeThaw(ctx context.Context) (calls.Reply, error) {
	was, err := d.cfg.Loop.Thaw(ctx)
	switch {
	case err != nil:
		return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
	case !was.Active():
		return calls.Reply{Error: api.Errorf(api.Conflict, "replacement is not frozen; see `peer peers`")}, nil
	}
	return calls.Reply{Gone: was.Gone}, nil
}

// executeRemove ends a membership, as coordinator: the vote first, so that no majority counts on
// who is not let in any more.
func (d *Decider) executeRemove(ctx context.Context, r ledger.Remove, word *act.Act) (calls.Reply, error) {
	if err := d.cfg.Ledger.RemoveVoter(ctx, r.Peer); err != nil {
		if errors.Is(err, quorum.ErrSoleVoter) {
			return calls.Reply{Error: calls.Refusal(ledger.Command{Remove: &r}, ledger.CodeSole)}, nil
		}
		return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
	}
	old, ok := d.cfg.Roster.Get(r.Peer)
	if !ok {
		return calls.Reply{Error: calls.Refusal(ledger.Command{Remove: &r}, ledger.CodeUnknown)}, nil
	}
	if old.Removed { // only its key is revoked
		return d.propose(ctx, ledger.Command{Remove: &r, Act: word})
	}
	_, epoch, _ := d.cfg.Ledger.Coordinator()
	old.Removed, old.At = true, max(d.cfg.Now(), old.At+1)
	old.Index, old.Generation, old.Term = d.cfg.Replica.Applied(), epoch.Generation, epoch.Term
	tombstone, err := old.Signed(d.cfg.Host)
	if err != nil {
		return calls.Reply{}, fmt.Errorf("sign the removal: %w", err)
	}
	r.Entry = &tombstone
	return d.propose(ctx, ledger.Command{Remove: &r, Act: word})
}

// executeInvite makes a ticket, as coordinator: it expires by the ledger's time, whatever the clock
// says where it was asked for.
func (d *Decider) executeInvite(ctx context.Context, inv ledger.Invite, word *act.Act) (calls.Reply, error) {
	r, err := d.propose(ctx, ledger.Command{Invite: &inv, Act: word})
	d.cfg.Replica.Read(func(s *ledger.State) {
		for _, i := range s.Invites() {
			if i.ID == inv.ID {
				r.Until = i.Expires
			}
		}
	})
	return r, err
}

// executeJoin admits a stranger that proves an invite, as coordinator.
func (d *Decider) executeJoin(ctx context.Context, j calls.JoinCall) (calls.Reply, error) {
	refuse := func(code admission.RefusalCode) (calls.Reply, error) {
		return calls.Reply{Join: &admission.JoinAnswer{Refusal: &admission.Refusal{Code: code}}}, nil
	}
	var inv ledger.InviteRecord
	var found, open, barred bool
	var speaks int
	d.cfg.Replica.Read(func(s *ledger.State) {
		inv, found = s.InviteByKey(j.Request.Key)
		m, known := s.Member(j.Peer)
		open, speaks, barred = s.Open(), s.Dialects().Spoken(), known && (m.Revoked || !m.In() && !m.Left)
	})
	switch {
	case !found && !open: // a peer without a ticket does not learn which cluster this is either
		return refuse(admission.Refused)
	case j.Request.Cluster != "" && j.Request.Cluster != d.cfg.Roster.Cluster():
		return refuse(admission.WrongCluster)
	case max(1, j.Request.Dialect) < speaks:
		return d.tooOld(j, speaks), nil
	case !found:
		inv.Roles = admission.AllRoles()
	case !admission.Proved(inv.Secret, j.Peer, j.Request.Proof):
		return refuse(admission.Refused)
	}
	if barred { // it did not leave by itself
		return refuse(admission.Removed)
	}
	old, known := d.cfg.Roster.Get(j.Peer)
	if known && !old.Removed && (!found || old.Ticket == inv.ID) {
		return d.joined(old), nil // asked again: the answer was lost, or it lost its data but not its key
	}
	if known && found && old.Ticket == inv.ID {
		return refuse(admission.UsedBefore)
	}
	at := d.cfg.Now()
	if d.ComingIn(inv.ID, at) >= JoinGroup {
		return refuse(admission.Later)
	}
	if known {
		at = max(at, old.At+1) // every gate believes the newer of two entries
	}
	entry, err := admission.Entry{
		Cluster: d.cfg.Roster.Cluster(), Peer: j.Peer, Name: j.Request.Name, Roles: inv.Roles, Ticket: inv.ID, At: at, By: d.cfg.Self,
	}.Signed(d.cfg.Host)
	if err != nil {
		return calls.Reply{}, err
	}
	_, results, err := d.cfg.Ledger.Propose(ctx, []ledger.Command{{Admit: &ledger.Admit{Entry: entry, Ticket: inv.ID, Proof: j.Request.Proof, Dialect: max(1, j.Request.Dialect)}}})
	if err != nil {
		return calls.Reply{Lost: true}, nil //nolint:nilerr // tried again by the caller
	}
	switch results[0].Refused {
	case ledger.CodeNone:
		d.cfg.Remember([]admission.PeerAddr{{ID: j.Peer, Addrs: j.Request.Addrs}}) // killed now, we would come back and look for it in vain
		return d.joined(entry), nil
	case ledger.CodeExpired:
		return refuse(admission.Expired)
	case ledger.CodeUsedUp:
		return refuse(admission.UsedUp)
	case ledger.CodeRevoked:
		return refuse(admission.Revoked)
	case ledger.CodeStale, ledger.CodeDialect: // the cluster speaks more since a moment ago
		return calls.Reply{Lost: true}, nil
	}
	return refuse(admission.Refused)
}

// tooOld refuses a newcomer that reads less than the cluster speaks: nobody would be understood by
// it, or else everybody would have to go back to what it reads.
func (d *Decider) tooOld(j calls.JoinCall, speaks int) calls.Reply {
	why := fmt.Sprintf("%s reads dialect %d, and the cluster speaks %d", cmp.Or(j.Request.Name, j.Peer), max(1, j.Request.Dialect), speaks)
	return calls.Reply{Join: &admission.JoinAnswer{Refusal: &admission.Refusal{Code: admission.TooOld, Message: why}}}
}

// Newcomers with one ticket are let in by groups: a newcomer meets everybody, and where a hundred
// do so at once on busy machines nobody gets done in time and all begin again. A peer that has not
// come to work after JoinTime, because it died or works for nobody, holds up nobody. A group may be
// larger by those that are decided at the same moment.
const (
	JoinGroup = 12
	JoinTime  = 15 * time.Second
)

// ComingIn counts the workers that were admitted with a ticket lately and have no session yet. at
// is the ledger's time.
func (d *Decider) ComingIn(ticket string, at int64) (count int) {
	d.cfg.Replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			if m.In() && m.Entry.Ticket == ticket && m.Incarnation == "" && m.Entry.Has(admission.Worker) && at-m.Since < JoinTime.Milliseconds() {
				count++
			}
		}
	})
	return count
}

func (d *Decider) joined(e admission.Entry) calls.Reply {
	return calls.Reply{Join: &admission.JoinAnswer{
		Entry: e, Roster: d.cfg.Roster.All(), Voters: d.cfg.Deciders.Voters(), Peers: d.cfg.Doors(), Cluster: d.cfg.Roster.Cluster(), Seats: d.cfg.Seats.Proof(), Roots: d.cfg.Roster.Roots(),
	}}
}
