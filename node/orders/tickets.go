package orders

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
)

// Invite implements api.AdminBackend.
func (o *Orders) Invite(ctx context.Context, r api.TicketRequest) (api.Ticket, error) {
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
	inv := ledger.Invite{ID: admission.NewTicketID(), Secret: admission.TicketKey(secret), Roles: roles, Uses: r.Uses, Lasts: int64(r.Expires * 1000)}
	answer, err := o.decide(ctx, calls.Call{Invite: &inv}, "no ticket was made")
	if err != nil {
		return api.Ticket{}, err
	}
	doors := o.cfg.Doors()
	t := admission.Ticket{ID: inv.ID, Secret: secret, Cluster: o.cfg.Roster.Cluster(), Roles: roles, Expires: answer.Until, Addrs: doors, Roots: o.cfg.Roster.Roots()}
	return api.Ticket{
		ID: inv.ID, Ticket: t.String(), Secret: admission.SecretText(secret), Expires: time.UnixMilli(answer.Until).UTC(), Warning: reachWarning(doors),
	}, nil
}

// reachWarning tells when nobody outside the local network can use the addresses, and which port to
// open.
func reachWarning(doors []admission.PeerAddr) string {
	port := ""
	for _, d := range doors {
		for _, a := range d.Addrs {
			ip, p := p2p.IPAndPort(a)
			port = cmp.Or(port, p)
			if ip == nil || !(ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast()) {
				return ""
			}
		}
	}
	return fmt.Sprintf("all addresses in this ticket are private: it works within your network. For machines elsewhere, open port %s (TCP and UDP) here and say `peer up --announce HOST:%s`.", port, port)
}

// Invites implements api.AdminBackend.
func (o *Orders) Invites(context.Context) (api.Invites, error) {
	out := api.Invites{Tickets: []api.Invite{}, AsOf: time.Now().UTC()}
	at := o.cfg.LedgerTime()
	o.cfg.Replica.Read(func(s *ledger.State) {
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
func (o *Orders) Revoke(ctx context.Context, id string) error {
	return o.Order(ctx, calls.Call{Revoke: &ledger.Revoke{ID: id}}, "the ticket was not revoked")
}
