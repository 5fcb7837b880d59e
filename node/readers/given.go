package readers

import (
	"maps"
	"sync"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Given knows the roles that people gave to peers, one after another from an admin that this
// machine knew when it joined: the word of a coordinator alone gives none. It is safe for
// concurrent use.
type Given struct {
	replica *ledger.Replica
	roots   func() []string

	mu    sync.Mutex
	of    map[taskstate.PeerID][]admission.Role // as long as nothing changes that they follow from: signatures take time
	named map[taskstate.PeerID]bool             // whose word, or whose word about those, these roles may come from
	gen   int                                   // of both
}

// NewGiven begins with what the replica has; roots are the admins that this machine knew.
func NewGiven(replica *ledger.Replica, roots func() []string) *Given {
	return &Given{replica: replica, roots: roots}
}

// Hear is told what changes; it is called by who feeds the replica. From a newcomer's admission no
// roles of others follow: each of a crowd would have all signatures checked again.
func (g *Given) Hear(ev ledger.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ev.Reset {
		g.forget()
	}
	for i := range ev.Entry.Commands {
		switch c := &ev.Entry.Commands[i]; {
		case c.Admit != nil && !g.named[c.Admit.Entry.Peer]:
			delete(g.of, c.Admit.Entry.Peer)
			g.gen++
		case c.Found != nil, c.Admit != nil, c.Remove != nil, c.Depart != nil, c.Revoke != nil:
			g.forget()
		}
	}
}

func (g *Given) forget() { g.of, g.named, g.gen = nil, nil, g.gen+1 }

// Roles are what a peer may do.
func (g *Given) Roles(peer taskstate.PeerID) []admission.Role {
	g.mu.Lock()
	roles, ok := g.of[peer]
	gen := g.gen
	g.mu.Unlock()
	if ok {
		return roles
	}
	named := map[taskstate.PeerID]bool{}
	g.replica.Read(func(s *ledger.State) {
		if _, ok = s.Member(peer); ok {
			roles = s.Warrants().Chained(peer, g.roots())
			names(s, peer, named)
		}
	})
	if !ok { // whoever asks can name as many others as it likes: nothing is kept of them
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gen == gen {
		if g.of == nil {
			g.of, g.named = map[taskstate.PeerID][]admission.Role{}, map[taskstate.PeerID]bool{}
		}
		g.of[peer] = roles
		maps.Copy(g.named, named)
	}
	return roles
}

// names adds those on whose word a peer's roles rest, and on whose theirs.
func names(s *ledger.State, peer taskstate.PeerID, out map[taskstate.PeerID]bool) {
	m, _ := s.Member(peer)
	for _, grant := range m.Grants {
		if by := grant.Word.By; !out[by] {
			out[by] = true
			names(s, by, out)
		}
	}
}
