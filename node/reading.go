package node

import (
	"context"
	"sync"
	"time"

	"covey/dispatch/ledger"
	"covey/internal/pause"
	"covey/p2p/admission"
	"covey/taskstate"
)

// givenRoles knows the roles that people gave to peers, one after another from an admin that this
// machine knew when it joined: the word of a coordinator alone gives none. It is safe for concurrent
// use.
type givenRoles struct {
	replica *ledger.Replica
	roots   func() []string

	mu  sync.Mutex
	of  map[taskstate.PeerID][]admission.Role // as long as nothing of members changes: signatures take time
	gen int                                   // of it
}

// hear is told what changes; it is called by who feeds the replica.
func (g *givenRoles) hear(ev ledger.Event) {
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

// roles are what a peer may do.
func (g *givenRoles) roles(peer taskstate.PeerID) []admission.Role {
	g.mu.Lock()
	roles, ok := g.of[peer]
	gen := g.gen
	g.mu.Unlock()
	if ok {
		return roles
	}
	g.replica.Read(func(s *ledger.State) { roles = s.Chained(peer, g.roots()) })
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

// How long who asks for the output of a task waits until this peer's copy of the ledger has the job:
// its task may have come here before.
const (
	jobWait = 5 * time.Second
	jobLook = 20 * time.Millisecond
)

// mayReadOutput tells whether a peer may read what a task wrote here.
func (n *Node) mayReadOutput(ctx context.Context, peer string, task taskstate.TaskID) bool {
	for waited := time.Duration(0); ; waited += jobLook {
		may, known := n.readers.Job(peer, task.Job)
		if may || known || waited >= jobWait || pause.For(ctx, jobLook) != nil {
			return may
		}
	}
}
