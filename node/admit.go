package node

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/node/calls"
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
	answer, err := n.line.Decide(try, calls.Call{Invite: &inv, Lasts: int64(r.Expires * 1000)})
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
	return n.order(ctx, calls.Call{Revoke: &ledger.Revoke{ID: id}}, "the ticket was not revoked")
}

// Admit implements admission.Admitter: any peer may be dialled by a stranger, the coordinator decides.
func (n *Node) Admit(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
	r, err := n.line.Decide(ctx, calls.Call{Join: &calls.JoinCall{Peer: from, Request: req}})
	if err != nil || r.Join == nil {
		return admission.JoinAnswer{}, fmt.Errorf("nobody here can decide about newcomers now: %w", err)
	}
	return *r.Join, nil
}
