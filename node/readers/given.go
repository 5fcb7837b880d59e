package readers

import (
	"sync"

	"covey/dispatch/ledger"
	"covey/p2p/admission"
	"covey/taskstate"
)

// Given knows the roles that people gave to peers, one after another from an admin that this
// machine knew when it joined: the word of a coordinator alone gives none. It is safe for
// concurrent use.
type Given struct {
	replica *ledger.Replica
	roots   func() []string

	mu  sync.Mutex
	of  map[taskstate.PeerID][]admission.Role // as long as nothing of members changes: signatures take time
	gen int                                   // of it
}

// NewGiven begins with what the replica has; roots are the admins that this machine knew.
func NewGiven(replica *ledger.Replica, roots func() []string) *Given {
	return &Given{replica: replica, roots: roots}
}

// Hear is told what changes; it is called by who feeds the replica.
func (g *Given) Hear(ev ledger.Event) {
	changes := ev.Reset
	for i := range ev.Entry.Commands {
		c := &ev.Entry.Commands[i]
		changes = changes || c.Found != nil || c.Admit != nil || c.Remove != nil || c.Depart != nil || c.Revoke != nil
	}
	if changes {
		g.mu.Lock()
		g.of, g.gen = nil, g.gen+1
		g.mu.Unlock()
	}
}

// Roles are what a peer may do.
func (g *Given) Roles(peer taskstate.PeerID) []admission.Role {
	g.mu.Lock()
	roles, ok := g.of[peer]
	gen := g.gen
	g.mu.Unlock()
	if ok {
		return roles
	}
	g.replica.Read(func(s *ledger.State) {
		if _, ok = s.Member(peer); ok {
			roles = s.Warrants().Chained(peer, g.roots())
		}
	})
	if !ok { // whoever asks can name as many others as it likes: nothing is kept of them
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gen == gen {
		if g.of == nil {
			g.of = map[taskstate.PeerID][]admission.Role{}
		}
		g.of[peer] = roles
	}
	return roles
}
