package secrets

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
)

// Audience tells whom the secrets of jobs are for. What peers say of themselves, and what the
// coordinator makes of it, can only make them fewer: who is a worker, and the recipient each has
// signed, is known here.
type Audience struct {
	Self    taskstate.PeerID
	Replica *ledger.Replica
	Members func() *membership.View
	Roots   func() []taskstate.PeerID                            // admins that this machine knew when it joined
	Reach   func(context.Context, uint64) error                  // this peer's replica comes to an index
	Peers   func(context.Context) (api.Peers, error)             // what the coordinator knows of peers
	Lets    func(context.Context, taskstate.Job) map[string]bool // whether peers' owners let a job in, by what the coordinator knows
}

// Readers implements Config.Readers.
func (a *Audience) Readers(ctx context.Context, job *taskstate.Job) (recipients []string) {
	wants, err := constraint.ParseAll(job.Constraints)
	if err != nil {
		return nil // it is refused for that
	}
	told, owners := a.told(ctx, job)
	seen := a.Members()
	var here, away []string
	a.Replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			id := m.Entry.Peer
			got, met := seen.Get(id)
			if id == a.Self || !met || got.Recipient == "" || !lets(owners, m) || !a.runsTasks(s, m) || !meets(wants, m, told[id]) {
				continue
			}
			if got.Verdict == membership.Alive {
				here = append(here, got.Recipient)
			} else {
				away = append(away, got.Recipient)
			}
		}
	})
	return append(here, away...)
}

// lets tells whether a peer's owner lets the job in, as far as is known. If it is not, the peer is
// passed over unless it is one of those who administer the cluster: it can ask later.
func lets(owners map[taskstate.PeerID]bool, m ledger.Member) bool {
	yes, known := owners[m.Entry.Peer]
	return yes || !known && m.Entry.Has(admission.Admin)
}

// toldWithin bounds the questions before secrets are sealed: what stays open does no harm.
const toldWithin = 2 * time.Second

// told is what the coordinator knows of peers, and whether their owners let a job in. Without a
// coordinator nothing is told.
func (a *Audience) told(ctx context.Context, job *taskstate.Job) (told map[taskstate.PeerID]api.Peer, owners map[taskstate.PeerID]bool) {
	ctx, cancel := context.WithTimeout(ctx, toldWithin)
	defer cancel()
	told = map[taskstate.PeerID]api.Peer{}
	if p, err := a.Peers(ctx); err == nil && p.Coordinator != "" {
		for _, x := range p.Peers {
			told[x.ID] = x
		}
	}
	if len(told) == 0 {
		return told, nil
	}
	plain := *job
	plain.Secrets, plain.After = nil, nil // names of jobs, as yet
	return told, a.Lets(ctx, plain)
}

// runsTasks tells whether a member is one that tasks are given to. Where nothing is done that
// nobody signed, a coordinator's word for that is not enough.
func (a *Audience) runsTasks(s *ledger.State, m ledger.Member) bool {
	roles := m.Entry.Roles
	if s.Settings().RequireOrders == ledger.On {
		roles = s.Warrants().Chained(m.Entry.Peer, a.Roots())
	}
	return m.In() && slices.Contains(roles, admission.Worker)
}

// meets tells whether a peer meets constraints, as far as is known of it. Its id, and labels that
// people gave it, are always known.
func meets(wants []constraint.Constraint, m ledger.Member, told api.Peer) bool {
	f := &constraint.Facts{
		ID: m.Entry.Peer, Name: told.Name, OS: told.OS, Arch: told.Arch, MilliCPU: int64(told.CPUs * 1000), Memory: told.Memory,
		Offers: told.Offers, Labels: m.LabelsOver(told.Labels),
	}
	for _, c := range wants {
		if known(c.Key().String(), m, told.OS != "") && !c.Holds(f) {
			return false
		}
	}
	return true
}

// known tells whether it is known what a constraint asks about. Addresses change too often.
func known(key string, m ledger.Member, told bool) bool {
	label, is := strings.CutPrefix(key, "peer.label.")
	switch _, put := m.Labels[label]; {
	case key == "peer.id", is && (put || slices.Contains(m.Removed, label)):
		return true
	case key == "peer.addr":
		return false
	}
	return told
}

// mayWithin is how long a peer that asks for secrets waits for this one to hear that it has the
// task.
const mayWithin = 5 * time.Second

// Grants implements Config.Grants: secrets are for the peer that the ledger gives the task to, if
// it is a worker that fits the job.
func (a *Audience) Grants(ctx context.Context, peer taskstate.PeerID, q Request) (job *taskstate.Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, mayWithin)
	defer cancel()
	if a.Reach(ctx, q.Index) != nil {
		return nil, &Error{Code: CodeBusy, Message: "it does not know yet which peer runs the task"}
	}
	if who, _, _, now := a.Replica.Assigned(q.Task); now != taskstate.Known || who != peer {
		return nil, &Error{Code: CodeNot, Message: "they are for the peer that runs the task, and that is another one now"}
	}
	ok := false
	a.Replica.Read(func(s *ledger.State) {
		m, in := s.Member(peer)
		j, known := s.Job(q.Task.Job)
		if !in || !known || !a.runsTasks(s, m) {
			return
		}
		if job = j.JobOf(q.Version); job == nil {
			return
		}
		wants, err := constraint.ParseAll(job.Constraints)
		ok = err == nil && meets(wants, m, api.Peer{})
	})
	if !ok {
		return nil, &Error{Code: CodeNot, Message: "they are for peers with the role worker that fit the job's constraints"}
	}
	return job, nil
}

// Given implements Config.Given.
func (a *Audience) Given(id taskstate.JobID) (task taskstate.TaskID, index uint64, ok bool) {
	a.Replica.Read(func(s *ledger.State) {
		for t := range s.OpenOn(a.Self) {
			if t.Job == id {
				_, _, index, _ = s.Assigned(t)
				task, ok = t, true
				return
			}
		}
	})
	return task, index, ok
}
