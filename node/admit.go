package node

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/view"
	"covey/p2p/admission"
)

// ticketDoors is how many peers a ticket names: enough that some of them are up.
const ticketDoors = 4

// Invite implements api.AdminBackend.
func (n *Node) Invite(ctx context.Context, r api.TicketRequest) (api.Ticket, error) {
	roles := admission.AllRoles()
	if len(r.Roles) > 0 {
		roles = nil
		for _, x := range r.Roles {
			roles = append(roles, admission.Role(x))
		}
		if err := admission.CheckRoles(roles); err != nil {
			return api.Ticket{}, api.Errorf(api.Usage, "%v", err)
		}
	}
	if r.Expires <= 0 || r.Uses < 0 {
		return api.Ticket{}, api.Errorf(api.Usage, "a ticket needs a time to expire above 0, and uses from 0 (no limit)")
	}
	secret := admission.NewSecret()
	inv := ledger.Invite{ID: admission.NewTicketID(), Secret: admission.HashSecret(secret), Roles: roles, Uses: r.Uses}
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	answer, err := n.decide(try, call{Invite: &inv, Lasts: int64(r.Expires * 1000)})
	if err != nil {
		return api.Ticket{}, n.undecided(err, "no ticket was made")
	}
	_ = n.view.Reach(try, answer.Index)
	doors := n.openDoors()
	t := admission.Ticket{ID: inv.ID, Secret: secret, Cluster: n.roster.Cluster(), Roles: roles, Expires: answer.Until, Addrs: doors}
	return api.Ticket{
		ID: inv.ID, Ticket: t.String(), Secret: admission.SecretText(secret), Expires: time.UnixMilli(answer.Until).UTC(), Warning: reachWarning(doors),
	}, nil
}

// executeInvite makes a ticket, as coordinator: it expires by the ledger's time, whatever the clock says where it was asked for.
func (n *Node) executeInvite(ctx context.Context, inv ledger.Invite, lasts int64) (reply, error) {
	if lasts > 0 {
		inv.Expires = n.ledgerTime() + lasts
	}
	r, err := n.propose(ctx, ledger.Command{Invite: &inv})
	r.Until = inv.Expires
	return r, err
}

// openDoors are addresses of this peer and of some that are alive, to be found by who joins.
func (n *Node) openDoors() []admission.PeerAddr {
	doors := []admission.PeerAddr{{ID: n.self, Addrs: n.host.Addrs()}}
	for m := range n.members.View().Alive() {
		if m.ID != n.self && len(doors) < ticketDoors && len(m.Addrs) > 0 {
			doors = append(doors, admission.PeerAddr{ID: m.ID, Addrs: m.Addrs})
		}
	}
	return doors
}

// reachWarning tells when nobody outside the local network can use the addresses, and which port to open.
func reachWarning(doors []admission.PeerAddr) string {
	port := ""
	for _, d := range doors {
		for _, a := range d.Addrs {
			ip, p := ipAndPort(a)
			if port == "" {
				port = p
			}
			if ip == nil || !(ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
				return ""
			}
		}
	}
	return fmt.Sprintf("all addresses in this ticket are private: it works within your network. For machines elsewhere, open port %s (TCP and UDP) here and say `peer up --announce HOST:%s`.", port, port)
}

// ipAndPort reads an ip multiaddr's parts; nil for names.
func ipAndPort(addr string) (net.IP, string) {
	p := strings.Split(addr, "/")
	if len(p) < 5 || p[1] != "ip4" && p[1] != "ip6" {
		return nil, ""
	}
	return net.ParseIP(p[2]), p[4]
}

// Invites implements api.AdminBackend.
func (n *Node) Invites(context.Context) (api.Invites, error) {
	out := api.Invites{Tickets: []api.Invite{}, AsOf: time.Now().UTC()}
	at := n.ledgerTime()
	n.replica.Read(func(s *ledger.State) {
		admitted := map[string][]string{}
		for m := range s.Members() {
			admitted[m.Entry.Ticket] = append(admitted[m.Entry.Ticket], m.Entry.Peer)
		}
		for _, r := range s.Invites() {
			state := "valid"
			if code := r.Check(at); code != ledger.CodeNone {
				state = string(code)
			}
			out.Tickets = append(out.Tickets, api.Invite{ID: r.ID, Roles: view.RoleNames(r.Roles), Expires: time.UnixMilli(r.Expires).UTC(), Uses: r.Uses, Used: r.Used, State: state, By: r.By, Admitted: admitted[r.ID]})
		}
	})
	return out, nil
}

// Revoke implements api.AdminBackend.
func (n *Node) Revoke(ctx context.Context, id string) error {
	return n.order(ctx, call{Revoke: &ledger.Revoke{ID: id}}, "the ticket was not revoked")
}

// Admit implements admission.Admitter: any peer may be dialled by a stranger, the coordinator decides.
func (n *Node) Admit(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
	r, err := n.decide(ctx, call{Join: &joinCall{Peer: from, Request: req}})
	if err != nil || r.Join == nil {
		return admission.JoinAnswer{}, fmt.Errorf("nobody here can decide about newcomers now: %w", err)
	}
	return *r.Join, nil
}

// executeJoin admits a stranger that proves an invite, as coordinator.
func (n *Node) executeJoin(ctx context.Context, j joinCall) (reply, error) {
	refuse := func(code admission.RefusalCode) (reply, error) {
		return reply{Join: &admission.JoinAnswer{Refusal: &admission.Refusal{Code: code}}}, nil
	}
	var inv ledger.InviteRecord
	var found, open bool
	n.replica.Read(func(s *ledger.State) {
		inv, found = s.InviteBySecret(admission.HashSecret(j.Request.Secret))
		open = s.Open()
	})
	switch {
	case !found && !open: // whoever has no ticket does not learn which cluster this is either
		return refuse(admission.Refused)
	case j.Request.Cluster != "" && j.Request.Cluster != n.roster.Cluster():
		return refuse(admission.WrongCluster)
	case !found:
		inv.Roles = admission.AllRoles()
	}
	old, known := n.roster.Get(j.Peer)
	if known && !old.Removed && (!found || old.Ticket == inv.ID) {
		return n.joined(old), nil // asked again: the answer was lost, or it lost its data but not its key
	}
	at := n.ledgerTime()
	if n.comingIn(inv.ID, at) >= joinGroup {
		return refuse(admission.Later)
	}
	if known {
		at = max(at, old.At+1) // every gate believes the newer of two entries
	}
	entry, err := admission.Entry{
		Cluster: n.roster.Cluster(), Peer: j.Peer, Name: j.Request.Name, Roles: inv.Roles, Ticket: inv.ID, At: at, By: n.self,
	}.Signed(n.host)
	if err != nil {
		return reply{}, err
	}
	_, results, err := n.ledger.Propose(ctx, []ledger.Command{{Admit: &ledger.Admit{Entry: entry, Ticket: inv.ID}}})
	if err != nil {
		return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
	}
	switch results[0].Refused {
	case ledger.CodeNone:
		n.remember([]admission.PeerAddr{{ID: j.Peer, Addrs: j.Request.Addrs}}) // killed now, we would come back and look for it in vain
		return n.joined(entry), nil
	case ledger.CodeExpired:
		return refuse(admission.Expired)
	case ledger.CodeUsedUp:
		return refuse(admission.UsedUp)
	case ledger.CodeRevoked:
		return refuse(admission.Revoked)
	case ledger.CodeStale:
		return reply{Lost: true}, nil
	}
	return refuse(admission.Refused)
}

// Newcomers with one ticket are let in by groups: a newcomer meets everybody, and where a hundred do so at once on busy machines nobody
// gets done in time and all begin again. Whoever has not come to work after joinTime, because it died or works for nobody, holds up nobody.
const (
	joinGroup = 12
	joinTime  = 15 * time.Second
)

// comingIn counts the workers that were admitted with a ticket lately and have no session yet. at is the ledger's time.
func (n *Node) comingIn(ticket string, at int64) (count int) {
	n.replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			if m.In() && m.Entry.Ticket == ticket && m.Incarnation == "" && m.Entry.Has(admission.Worker) && at-m.Since < joinTime.Milliseconds() {
				count++
			}
		}
	})
	return count
}

func (n *Node) joined(e admission.Entry) reply {
	return reply{Join: &admission.JoinAnswer{
		Entry: e, Roster: n.roster.All(), Voters: n.view.Voters(), Peers: n.openDoors(), Cluster: n.roster.Cluster(), Seats: n.seats.Proof(),
	}}
}
