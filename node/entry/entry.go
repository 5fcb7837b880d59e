package entry

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// ledgerPatience is how long a voter that lost its roster waits for its own log.
const ledgerPatience = 8 * time.Second

// Config is what a peer enters a cluster with.
type Config struct {
	Ticket    string   // to join by
	Bootstrap []string // addresses to join through by hand
	Invite    string   // secret, with Bootstrap
	Open      bool     // found a cluster that anybody may join

	Self        taskstate.PeerID
	Name        string
	Incarnation string
	Dir         string // the data folder
	Lost        bool   // it was a member's once, and its roster is lost

	Roster      *admission.Roster
	Replica     *ledger.Replica
	Ledger      Ledger
	Net         *p2p.Host
	TrustLedger func()                     // brings the roster level with the replica
	Remember    func([]admission.PeerAddr) // where peers are
	Removed     func() bool                // this peer's membership has ended
	Left        bool                       // by its own `peer leave`: it may join again
	ErrRemoved  func() error               // says so
	Now         func() int64               // this machine's clock, in milliseconds since 1970
	Say         func(string)               // tells a person what the start waits for
}

// Ledger is founded, or followed.
type Ledger interface {
	Copy() (quorum.Copy, error)
	Found(context.Context, ledger.Found) error
	Follow([]taskstate.PeerID)
}

// Entry is one peer's way in, walked once at its start.
type Entry struct {
	cfg      Config
	roots    []string // that the ticket names
	How      string   // founded, joined, resumed; set by Begin
	Warnings []string // for people who ask how the peer is; set by Begin
}

// New makes an Entry.
func New(cfg Config) *Entry { return &Entry{cfg: cfg} }

// Begin decides whether this peer founds, joins or resumes, and does it.
func (e *Entry) Begin(ctx context.Context) error {
	joining := e.cfg.Ticket != "" || len(e.cfg.Bootstrap) > 0
	if e.cfg.Roster.Cluster() == "" {
		e.awaitLedger(ctx)
		e.cfg.TrustLedger() // a roster that was lost is in the ledger, if this peer has some of it
	}
	cluster := e.cfg.Roster.Cluster()
	switch {
	case cluster == "" && !joining && e.cfg.Lost:
		return api.Errorf(api.Failed, "the roster of this peer's cluster was damaged (it is in %s) and no copy of the ledger is here to take it from. To come back as the same peer, make a ticket at another one (`peer ticket`) and type `peer up --join TICKET`; to found a new cluster, remove the data folder %s first",
			filepath.Join(e.cfg.Dir, "roster.damaged"), e.cfg.Dir)
	case cluster == "" && !joining:
		return e.found(ctx)
	case cluster == "":
		return e.join(ctx)
	}
	over := e.cfg.Left || e.cfg.Removed()
	if over && !(e.cfg.Left && joining) {
		return e.cfg.ErrRemoved()
	}
	if e.cfg.Ticket != "" {
		t, err := admission.ParseTicket(e.cfg.Ticket)
		if err != nil {
			return api.Errorf(api.Usage, "--join: %v", err)
		}
		if t.Cluster != cluster {
			return api.Errorf(api.Conflict, "this data folder belongs to cluster %s, the ticket to cluster %s; use another folder with --data DIR, or leave the old cluster (`peer leave`) and join as a new peer (`peer up --new-identity --join TICKET`)", cluster, t.Cluster)
		}
		e.cfg.Remember(t.Addrs)
	}
	if over {
		return e.join(ctx)
	}
	e.lookAt(ctx)
	return e.resume()
}

// awaitLedger waits until the log of a voter that lost its roster is applied, as far as this peer
// can do that alone.
func (e *Entry) awaitLedger(ctx context.Context) {
	if c, err := e.cfg.Ledger.Copy(); err != nil || c.Index == 0 {
		return
	}
	limit := time.After(ledgerPatience)
	for e.cfg.Replica.Applied() == 0 {
		select {
		case <-ctx.Done():
			return
		case <-limit:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// lookAt remembers the bootstrap addresses of a peer that comes back: where its peer book leads
// nowhere, because everybody moved, they do. One that does not answer is no reason not to start.
func (e *Entry) lookAt(ctx context.Context) {
	if len(e.cfg.Bootstrap) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, calls.Timeout)
	defer cancel()
	doors, err := e.doors(ctx, &admission.JoinRequest{})
	if err != nil {
		e.Warnings = append(e.Warnings, err.Error())
		return
	}
	e.cfg.Remember(doors)
}

// found begins a cluster with this peer as its only member and voter.
func (e *Entry) found(ctx context.Context) error {
	cluster := admission.NewClusterID()
	entry, err := admission.Entry{Cluster: cluster, Peer: e.cfg.Self, Name: e.cfg.Name, Roles: admission.AllRoles(), At: e.cfg.Now(), By: e.cfg.Self}.Signed(e.cfg.Net)
	if err != nil {
		return fmt.Errorf("sign the first roster entry: %w", err)
	}
	// The ledger first: a roster without one would make the next start resume a cluster that does
	// not exist.
	err = e.cfg.Ledger.Found(ctx, ledger.Found{Cluster: cluster, Generation: 1, Open: e.cfg.Open, Founder: entry, RequireOrders: true})
	if err != nil {
		return api.Errorf(api.Failed, "cannot found a cluster: %v", err)
	}
	root := e.cfg.Self
	if e.cfg.Open {
		root = ledger.Anybody
	}
	if err := errors.Join(e.cfg.Roster.Trust(entry), e.cfg.Roster.Pin(root)); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	e.How = "founded"
	return nil
}

// resume goes on where the last start ended.
func (e *Entry) resume() error {
	var voters []taskstate.PeerID
	for _, p := range e.cfg.Roster.All() {
		if p.Has(admission.Voter) && p.Peer != e.cfg.Self {
			voters = append(voters, p.Peer)
		}
	}
	if len(e.cfg.Roster.Roots()) == 0 { // of a version that knew no roots, or lost
		if err := e.pin(nil); err != nil {
			return err
		}
	}
	e.cfg.Ledger.Follow(voters)
	e.How = "resumed"
	return nil
}

// join shows an invite to the peers it names until one lets this peer in.
func (e *Entry) join(ctx context.Context) error {
	req := admission.JoinRequest{Cluster: e.cfg.Roster.Cluster(), Name: e.cfg.Name, Addrs: e.cfg.Net.Addrs(), Incarnation: e.cfg.Incarnation, Dialect: wire.Dialect}
	doors, err := e.doors(ctx, &req)
	if err != nil {
		return err
	}
	answer, err := e.askToJoin(ctx, doors, req)
	if err != nil {
		return err
	}
	e.cfg.Remember(answer.Peers) // first: who knows its cluster and nobody in it would be lost
	if err := e.cfg.Roster.Adopt(answer); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	if len(e.roots) == 0 {
		e.roots = answer.Roots
	}
	if err := e.pin(e.roots); err != nil {
		return err
	}
	e.cfg.Ledger.Follow(answer.Voters)
	e.How = "joined"
	return nil
}

// pin remembers whose word of others is believed here: that of the roots that a ticket names, or
// else of all admins known by now.
func (e *Entry) pin(roots []string) error {
	if len(roots) == 0 {
		for _, p := range e.cfg.Roster.All() {
			if p.Has(admission.Admin) {
				roots = append(roots, p.Peer)
			}
		}
	}
	if err := e.cfg.Roster.Pin(roots...); err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	return nil
}

// doors are the peers to ask, from the ticket or the bootstrap addresses.
func (e *Entry) doors(ctx context.Context, req *admission.JoinRequest) ([]admission.PeerAddr, error) {
	var doors []admission.PeerAddr
	if e.cfg.Ticket != "" {
		t, err := admission.ParseTicket(e.cfg.Ticket)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--join: %v", err)
		}
		req.Secret, req.Cluster, e.roots = t.Secret, t.Cluster, t.Roots
		doors = append(doors, t.Addrs...)
	}
	if e.cfg.Invite != "" {
		secret, err := admission.ParseSecret(e.cfg.Invite)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--invite: %v", err)
		}
		req.Secret = secret
	}
	for _, b := range e.cfg.Bootstrap {
		id, addr, err := p2p.ParseAddr(b)
		if err != nil {
			return nil, api.Errorf(api.Usage, "--bootstrap: %v", err)
		}
		if id == "" {
			if id, err = e.cfg.Net.Who(ctx, addr); err != nil {
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
