package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/p2p/admission"
	"covey/taskstate"
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
	_ = n.applied.reach(try, answer.Index)
	doors := n.openDoors()
	t := admission.Ticket{ID: inv.ID, Secret: secret, Cluster: n.roster.Cluster(), Roles: roles, Expires: answer.Until, Addrs: doors}
	return api.Ticket{
		ID: inv.ID, Ticket: t.String(), Secret: admission.SecretText(secret), Expires: stamp(answer.Until), Warning: reachWarning(doors),
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
		for _, r := range s.Invites() {
			state := "valid"
			if code := r.Check(at); code != ledger.CodeNone {
				state = string(code)
			}
			out.Tickets = append(out.Tickets, api.Invite{ID: r.ID, Roles: roleNames(r.Roles), Expires: stamp(r.Expires), Uses: r.Uses, Used: r.Used, State: state})
		}
	})
	return out, nil
}

// Revoke implements api.AdminBackend.
func (n *Node) Revoke(ctx context.Context, id string) error {
	return n.order(ctx, call{Revoke: &ledger.Revoke{ID: id}}, "the ticket was not revoked")
}

// Remove implements api.AdminBackend.
func (n *Node) Remove(ctx context.Context, peer string) error {
	id, err := n.findPeer(peer)
	if err != nil {
		return err
	}
	return n.order(ctx, call{Remove: &ledger.Remove{Peer: id, Reason: "by " + n.called(n.self)}}, peer+" was not removed")
}

// order is decide for commands that answer nothing, on a limit that leaves room for a change of voters.
func (n *Node) order(ctx context.Context, c call, sequel string) error {
	if err := n.awaitCoordinator(ctx); err != nil {
		return n.undecided(err, sequel)
	}
	try, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := n.decide(try, c)
	if err != nil {
		return n.undecided(err, sequel)
	}
	if c.Remove == nil || c.Remove.Peer != n.self { // its own removal is the one entry a peer never gets to see
		_ = n.applied.reach(try, r.Index)
	}
	return nil
}

// Thaw implements api.AdminBackend.
func (n *Node) Thaw(ctx context.Context) (api.Thawed, error) {
	try, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	r, err := n.decide(try, call{Thaw: &thawCall{}})
	if err != nil {
		return api.Thawed{}, n.undecided(err, "nothing was thawed")
	}
	return api.Thawed{Thawed: n.namesOf(r.Gone), AsOf: time.Now().UTC()}, nil
}

// executeThaw ends a freeze, as coordinator.
func (n *Node) executeThaw(ctx context.Context) (reply, error) {
	was, err := n.coord.Thaw(ctx)
	switch {
	case err != nil:
		return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
	case !was.Active():
		return reply{Error: api.Errorf(api.Conflict, "replacement is not frozen; see `peer peers`")}, nil
	}
	return reply{Gone: was.Gone}, nil
}

// awaitCoordinator waits until somebody is known to decide, as long as a person should be kept waiting for that.
func (n *Node) awaitCoordinator(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	for {
		changed := n.ledger.Changed()
		if _, _, ok := n.coordinator(); ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errNobodyDecides
		}
	}
}

// Leave implements api.AdminBackend: tasks stop and are settled, the vote is handed over, then the membership ends.
func (n *Node) Leave(ctx context.Context) error {
	if n.alone() {
		return api.Errorf(api.Conflict, "this is the only peer: nobody would be left to leave. Stop it with `peer down`; to give the cluster up, remove its data folder %s", n.folder.dir)
	}
	n.leaving.Store(true)
	if err := n.leave(ctx); err != nil {
		n.leaving.Store(false)
		n.rosterMoved()
		return err
	}
	return n.Down(ctx)
}

func (n *Node) leave(ctx context.Context) error {
	if n.askFlock(ctx, "") == nil {
		return api.Errorf(api.NoCoordinator, "this peer did not leave: %s", n.tryAgain())
	}
	// The worker first: one that still looks for a session would register again.
	if err := n.worker.Stop(ctx); err != nil {
		n.log.Warn("leaving before every task's end was acknowledged", "err", err)
	}
	if err := n.order(ctx, call{Leave: &ledger.Depart{Peer: n.self}}, "this peer stopped its tasks and did not leave; stop it with `peer down`"); err != nil {
		return err
	}
	if err := n.ledger.Handover(ctx); err != nil {
		n.log.Info("vote not handed over; the others replace it", "err", err)
	}
	return n.order(ctx, call{Remove: &ledger.Remove{Peer: n.self, Reason: "left"}}, "this peer stopped its tasks but is still a member")
}

func (n *Node) alone() bool { return len(n.memberList()) < 2 }

// executeRemove ends a membership, as coordinator: the vote first, so that no majority counts on who is not let in any more.
func (n *Node) executeRemove(ctx context.Context, r ledger.Remove) (reply, error) {
	if err := n.ledger.RemoveVoter(ctx, r.Peer); err != nil {
		if errors.Is(err, ledger.ErrSoleVoter) {
			return reply{Error: refusal(ledger.Command{Remove: &r}, ledger.CodeSole)}, nil
		}
		return reply{Lost: true}, nil //nolint:nilerr // tried again by whoever asks
	}
	old, ok := n.roster.Get(r.Peer)
	if !ok {
		return reply{Error: refusal(ledger.Command{Remove: &r}, ledger.CodeUnknown)}, nil
	}
	old.Removed, old.At = true, max(n.ledgerTime(), old.At+1)
	tombstone, err := old.Signed(n.host)
	if err != nil {
		return reply{}, fmt.Errorf("sign the removal: %w", err)
	}
	r.Entry = &tombstone
	return n.propose(ctx, ledger.Command{Remove: &r})
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
	case j.Request.Cluster != "" && j.Request.Cluster != n.roster.Cluster():
		return refuse(admission.WrongCluster)
	case !found && !open:
		return refuse(admission.Refused)
	case !found:
		inv.Roles = admission.AllRoles()
	}
	old, known := n.roster.Get(j.Peer)
	if known && !old.Removed && (!found || old.Ticket == inv.ID) {
		return n.joined(old), nil // asked again: the answer was lost, or it lost its data but not its key
	}
	at := n.ledgerTime()
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

func (n *Node) joined(e admission.Entry) reply {
	return reply{Join: &admission.JoinAnswer{
		Entry: e, Roster: n.roster.All(), Voters: n.voters(), Peers: n.openDoors(), Cluster: n.roster.Cluster(),
	}}
}

// Status implements api.PeerBackend.
func (n *Node) Status(context.Context) (api.Status, error) {
	who, epoch, ok := n.coordinator()
	st := api.Status{
		ID: n.self, Name: n.name, Version: n.cfg.Version, Cluster: n.roster.Cluster(), How: n.how, Addrs: n.host.Addrs(), Data: n.folder.dir,
		PID: os.Getpid(), Ready: n.ready.Load(), Index: n.replica.Applied(), Voters: n.voters(), Warnings: n.warnings, AsOf: time.Now().UTC(),
	}
	n.replica.Read(func(s *ledger.State) { st.Open = s.Open() })
	st.Warnings = append(slices.Clip(st.Warnings), n.sickness()...)
	if ok {
		st.Coordinator, st.Epoch = who, epoch.String()
	} else {
		st.Missing = n.missing()
		st.Warnings = append(slices.Clip(st.Warnings), "no coordinator yet: jobs are held here until there is one")
	}
	return st, nil
}

// Stats implements api.PeerBackend.
func (n *Node) Stats(context.Context) (api.Stats, error) {
	return api.Stats{
		RSS: residentMemory(), CPU: cpuTime().Seconds(), Uptime: time.Since(n.started).Seconds(), Goroutines: runtime.NumGoroutine(),
		Counters: map[string]int64{"table": int64(n.table.Len()), "parked": int64(n.table.Parked()), "held": int64(len(n.held.list())), "faults": n.statuses.faults.total()},
	}, nil
}

// residentMemory is this process's resident memory in bytes where the system tells (Linux), otherwise what the runtime took.
func residentMemory() int64 {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// Block implements api.AdminBackend.
func (n *Node) Block(_ context.Context, b api.Block) error {
	if !n.cfg.Testnet {
		return api.Errorf(api.Refused, "only peers of a testnet can be cut off on purpose; see `peer testnet --help`")
	}
	n.host.Block(b.Peers)
	return nil
}

// trust keeps the roster, and so the gate, in step with the ledger.
func (n *Node) trust(entries ...admission.Entry) {
	if err := n.roster.Trust(entries...); err != nil {
		n.log.Warn("roster not kept", "err", err)
	}
	n.rosterMoved()
}

// trustLedger brings the roster level with the replica: after a snapshot, and at the start, when entries were applied before
// anybody listened.
func (n *Node) trustLedger() {
	var all []admission.Entry
	n.replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			all = append(all, m.Entry)
		}
	})
	n.trust(all...)
}

// mayVote tells whether the roster has a peer with the role voter.
func (n *Node) mayVote(peer taskstate.PeerID) bool {
	e, ok := n.roster.Get(peer)
	return ok && e.Has(admission.Voter)
}

// candidates are the peers that may vote, and how they are, for whoever coordinates.
func (n *Node) candidates() []ledger.Candidate {
	view := n.members.View()
	var out []ledger.Candidate
	for _, m := range n.memberList() {
		got, ok := view.Get(m.Entry.Peer)
		inc := got.Incarnation
		if inc == "" {
			inc = m.Incarnation
		}
		if m.Entry.Peer == n.self {
			inc = n.folder.incarnation
		}
		out = append(out, ledger.Candidate{
			Peer: m.Entry.Peer, Incarnation: inc, Alive: ok && got.Verdict == membership.Alive, Since: got.Since,
			Eligible: m.Entry.Has(admission.Voter) && !m.Left,
		})
	}
	return out
}
