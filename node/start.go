package node

import (
	"context"
	"fmt"
	"os"
	"time"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/node/calls"
	"covey/p2p"
	"covey/p2p/admission"
	"covey/taskstate"
)

const (
	readyTimeout = 8 * time.Second // for a peer that resumes: contact, or say so and go on
)

// begin decides whether this peer founds, joins or resumes, and does it.
func (n *Node) begin(ctx context.Context) error {
	joining := n.cfg.Join != "" || len(n.cfg.Bootstrap) > 0
	if n.roster.Cluster() == "" {
		n.awaitLedger(ctx)
		n.trustLedger() // a roster that was lost is in the ledger, if this peer has some of it
	}
	cluster := n.roster.Cluster()
	switch {
	case cluster == "" && !joining && n.lostRoster():
		return api.Errorf(api.Failed, "the roster of this peer's cluster was damaged (it is in %s) and no copy of the ledger is here to take it from. To come back as the same peer, make a ticket at another one (`peer ticket`) and type `peer up --join TICKET`; to found a new cluster, remove the data folder %s first",
			n.folder.path("roster.damaged"), n.folder.dir)
	case cluster == "" && !joining:
		return n.found(ctx)
	case cluster == "":
		return n.join(ctx)
	}
	if n.removed() {
		return n.errRemoved()
	}
	if n.cfg.Join != "" {
		t, err := admission.ParseTicket(n.cfg.Join)
		if err != nil {
			return api.Errorf(api.Usage, "--join: %v", err)
		}
		if t.Cluster != cluster {
			return api.Errorf(api.Conflict, "this data folder belongs to cluster %s, the ticket to cluster %s; use another folder with --data DIR, or leave the old cluster first (`peer leave`)", cluster, t.Cluster)
		}
		n.remember(t.Addrs)
	}
	n.lookAt(ctx)
	return n.resume()
}

// awaitLedger waits until the log of a voter that lost its roster is applied, as far as this peer can do that alone.
func (n *Node) awaitLedger(ctx context.Context) {
	if c, err := n.ledger.Copy(); err != nil || c.Index == 0 {
		return
	}
	limit := time.After(readyTimeout)
	for n.replica.Applied() == 0 {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lostRoster tells whether this folder was a member's once: found would begin another cluster in it unawares.
func (n *Node) lostRoster() bool {
	_, err := os.Stat(n.folder.path("roster.damaged"))
	return err == nil
}

// lookAt remembers the bootstrap addresses of a peer that comes back: where its peer book leads nowhere, because everybody moved, they
// do. One that does not answer is no reason not to start.
func (n *Node) lookAt(ctx context.Context) {
	if len(n.cfg.Bootstrap) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, calls.Timeout)
	defer cancel()
	doors, err := n.doors(ctx, &admission.JoinRequest{})
	if err != nil {
		n.warnings = append(n.warnings, err.Error())
		return
	}
	n.remember(doors)
}

// moveOver lets a peer that founded a cluster by itself, and has done nothing in it, join another one: whoever typed `peer up`
// before `peer up --join` has lost nothing. The old ledger is kept beside the new one.
func (n *Node) moveOver() error {
	cluster := n.roster.Cluster()
	if n.cfg.Join == "" || cluster == "" || len(n.roster.All()) != 1 || !n.roster.Admitted(n.self) {
		return nil
	}
	t, err := admission.ParseTicket(n.cfg.Join)
	if err != nil || t.Cluster == cluster {
		return nil //nolint:nilerr // begin says what is wrong with the ticket
	}
	old, err := n.openLedger(nil)
	if err != nil {
		return err
	}
	jobs := 0
	old.Replica().Read(func(s *ledger.State) { jobs = s.JobCount() })
	if err := old.Close(); err != nil {
		return api.Errorf(api.Failed, "close the ledger of cluster %s: %v", cluster, err)
	}
	if jobs > 0 {
		return nil // begin refuses
	}
	if err := os.Rename(n.folder.path("ledger"), n.folder.path("ledger-of-"+cluster)); err != nil {
		return api.Errorf(api.Failed, "set the ledger of cluster %s aside: %v", cluster, err)
	}
	if err := n.roster.Replace(); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.seats.Forget()
	n.warnings = append(n.warnings, "this peer was alone in cluster "+cluster+" and had no jobs: it moves over to cluster "+t.Cluster)
	return nil
}

// found begins a cluster with this peer as its only member and voter.
func (n *Node) found(ctx context.Context) error {
	cluster := admission.NewClusterID()
	entry, err := admission.Entry{Cluster: cluster, Peer: n.self, Name: n.name, Roles: admission.AllRoles(), At: n.now(), By: n.self}.Signed(n.host)
	if err != nil {
		return fmt.Errorf("sign the first roster entry: %w", err)
	}
	// The ledger first: a roster without one would make the next start resume a cluster that does not exist.
	err = n.ledger.Found(ctx, ledger.Found{Cluster: cluster, Generation: 1, Open: n.cfg.Open, Founder: entry})
	if err != nil {
		return api.Errorf(api.Failed, "cannot found a cluster: %v", err)
	}
	if err := n.roster.Trust(entry); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.how = "founded"
	return nil
}

// resume goes on where the last start ended.
func (n *Node) resume() error {
	var voters []taskstate.PeerID
	for _, e := range n.roster.All() {
		if e.Has(admission.Voter) && e.Peer != n.self {
			voters = append(voters, e.Peer)
		}
	}
	n.ledger.Follow(voters)
	n.how = "resumed"
	return nil
}

// join shows an invite to the peers it names until one lets this peer in.
func (n *Node) join(ctx context.Context) error {
	req := admission.JoinRequest{Name: n.name, Addrs: n.host.Addrs(), Incarnation: string(n.folder.incarnation)}
	doors, err := n.doors(ctx, &req)
	if err != nil {
		return err
	}
	answer, err := n.knock(ctx, doors, req)
	if err != nil {
		return err
	}
	n.remember(answer.Peers) // first: who knows its cluster and nobody in it would be lost
	if err := n.roster.Adopt(answer); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	n.ledger.Follow(answer.Voters)
	n.how = "joined"
	return nil
}

// doors are the peers to ask, from the ticket or the bootstrap addresses.
func (n *Node) doors(ctx context.Context, req *admission.JoinRequest) ([]admission.PeerAddr, error) {
	var doors []admission.PeerAddr
	if n.cfg.Join != "" {
		t, err := admission.ParseTicket(n.cfg.Join)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--join: %v", err)
		}
		req.Secret, req.Cluster = t.Secret, t.Cluster
		doors = append(doors, t.Addrs...)
	}
	if n.cfg.Invite != "" {
		secret, err := admission.ParseSecret(n.cfg.Invite)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--invite: %v", err)
		}
		req.Secret = secret
	}
	for _, b := range n.cfg.Bootstrap {
		id, addr, err := p2p.ParseAddr(b)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--bootstrap: %v", err)
		}
		if id == "" {
			if id, err = n.host.Who(ctx, addr); err != nil {
				return nil, api.Errorf(api.NoCoordinator, "no peer answers at %s: %v; is `peer up` running there, and its port open?", b, err)
			}
		}
		doors = append(doors, admission.PeerAddr{ID: id, Addrs: []string{addr}})
	}
	return doors, nil
}

func addresses(doors []admission.PeerAddr) (all []string) {
	for _, d := range doors {
		all = append(all, d.Addrs...)
	}
	return all
}

// remember tells the network and the peer book where peers are.
func (n *Node) remember(peers []admission.PeerAddr) {
	told := make([]membership.PeerAddr, 0, len(peers))
	for _, p := range peers {
		if p.ID != n.self {
			n.host.SetAddrs(p.ID, p.Addrs)
			told = append(told, membership.PeerAddr(p))
		}
	}
	n.members.Remember(told)
}

// awaitReady waits until this peer can be used: it knows a coordinator, its own replica holds its own admission, and its worker knows
// what it had. One that resumes without contact, or has much to read, is ready too, after a while, and says so.
func (n *Node) awaitReady(ctx, life context.Context) error {
	limit := time.NewTimer(readyTimeout)
	defer limit.Stop()
	replayed := n.worker.Replayed()
	for {
		changed := n.ledger.Changed()
		_, _, led := n.coordinator()
		if led && n.isMember() && replayed == nil {
			return nil
		}
		wake := n.view.Next()
		select {
		case <-changed:
		case <-wake:
		case <-replayed:
			replayed = nil
		case <-limit.C:
			return nil // the status says so
		case <-n.down: // stopped already, or told that it was removed
			return context.Canceled
		case <-ctx.Done():
			return ctx.Err()
		case <-life.Done():
			return context.Cause(life)
		}
	}
}

func (n *Node) isMember() (in bool) {
	n.replica.Read(func(s *ledger.State) {
		m, ok := s.Member(n.self)
		in = ok && m.In()
	})
	return in
}
