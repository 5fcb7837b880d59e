package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"covey/dispatch/ledger"
	"covey/dispatch/worker"
	"covey/membership"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/secrets"
	"covey/p2p/admission"
	"covey/taskstate"
	"covey/taskstate/constraint"
	"covey/trust/audit"
)

// openSecrets makes what seals secrets for jobs that are submitted here, and brings those of tasks
// that run here.
func (n *Node) openSecrets() {
	n.secrets = secrets.New(secrets.Config{
		Self: n.self, Key: n.sealKey, Cluster: n.roster.Cluster, Net: n.host,
		Readers: n.secretReaders, Grants: n.mayOpen, Given: n.givenHere, Over: func(id taskstate.JobID) (bool, bool) { return n.files.jobOver(id) },
		Name: func(id taskstate.PeerID) string { return n.view.Who.Name(id) },
		Tell: func(r secrets.Report) {
			n.worker.Staged(worker.StageReport{Job: r.Job, Version: r.Version, Here: r.Here, Message: r.Message})
		},
		Next: func(j *taskstate.Job) { n.files.stager.Stage(j) },
		Note: func(l taskstate.Launch, by taskstate.PeerID) {
			n.audit.Write(audit.Record{What: audit.SecretOpened, By: string(by), Job: string(l.Task.Job), Task: l.Task.String(), Detail: strings.Join(l.Job.Secrets.Names, ", ")})
		},
		Log: n.log,
	})
}

// secretReaders implements secrets.Config.Readers. What peers say of themselves, and what the
// coordinator makes of it, can only make them fewer: who is a worker, and the recipient each has
// signed, is known here.
func (n *Node) secretReaders(ctx context.Context, job *taskstate.Job) (recipients []string) {
	wants, err := constraint.ParseAll(job.Constraints)
	if err != nil {
		return nil // it is refused for that
	}
	told, owners := n.toldOfPeers(ctx, job)
	seen := n.members.View()
	var here, away []string
	n.replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			id := m.Entry.Peer
			got, met := seen.Get(id)
			if id == n.self || !met || got.Recipient == "" || !lets(owners, m) || !n.runsTasks(s, m) || !fits(wants, m, told[id]) {
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

// toldOfPeers is what the coordinator knows of peers, and whether their owners let a job in. Without
// a coordinator nothing is told.
func (n *Node) toldOfPeers(ctx context.Context, job *taskstate.Job) (told map[taskstate.PeerID]api.Peer, owners map[taskstate.PeerID]bool) {
	ctx, cancel := context.WithTimeout(ctx, toldWithin)
	defer cancel()
	told, owners = map[taskstate.PeerID]api.Peer{}, map[taskstate.PeerID]bool{}
	if p, err := n.view.Peers(ctx); err == nil && p.Coordinator != "" {
		for _, x := range p.Peers {
			told[x.ID] = x
		}
	}
	if len(told) == 0 {
		return told, owners
	}
	plain := *job
	plain.Secrets, plain.After = nil, nil // names of jobs, as yet
	if r, err := n.line.Try(ctx, calls.Call{From: n.self, Preview: &calls.PreviewCall{Job: plain}}); err == nil && r.Preview != nil {
		for _, x := range r.Preview.Owners {
			owners[x.Peer] = x.No == ""
		}
	}
	return told, owners
}

// toldWithin bounds the questions before secrets are sealed: what stays open does no harm.
const toldWithin = 2 * time.Second

// runsTasks tells whether a member is one that tasks are given to. Where nothing is done that nobody
// signed, a coordinator's word for that is not enough.
func (n *Node) runsTasks(s *ledger.State, m ledger.Member) bool {
	roles := m.Entry.Roles
	if s.Settings().RequireOrders == ledger.On {
		roles = s.Chained(m.Entry.Peer, n.roster.Roots())
	}
	return m.In() && slices.Contains(roles, admission.Worker)
}

// fits tells whether a peer meets constraints, as far as is known of it. Its id, and labels that
// people gave it, are always known.
func fits(wants []constraint.Constraint, m ledger.Member, told api.Peer) bool {
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

// mayOpen implements secrets.Config.Grants: secrets are for the peer that the ledger gives the task
// to, if it is a worker that fits the job.
func (n *Node) mayOpen(ctx context.Context, peer taskstate.PeerID, q secrets.Request) (job *taskstate.Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, mayWithin)
	defer cancel()
	if n.view.Reach(ctx, q.Index) != nil {
		return nil, &secrets.Error{Code: secrets.CodeBusy, Message: "it does not know yet which peer runs the task"}
	}
	if who, _, _, now := n.replica.Assigned(q.Task); now != taskstate.Known || who != peer {
		return nil, &secrets.Error{Code: secrets.CodeNot, Message: "they are for the peer that runs the task, and that is another one now"}
	}
	ok := false
	n.replica.Read(func(s *ledger.State) {
		m, in := s.Member(peer)
		j, known := s.Job(q.Task.Job)
		if !in || !known || !n.runsTasks(s, m) {
			return
		}
		if job = j.JobOf(q.Version); job == nil {
			return
		}
		wants, err := constraint.ParseAll(job.Constraints)
		ok = err == nil && fits(wants, m, api.Peer{})
	})
	if !ok {
		return nil, &secrets.Error{Code: secrets.CodeNot, Message: "they are for peers with the role worker that fit the job's constraints"}
	}
	return job, nil
}

// givenHere implements secrets.Config.Given.
func (n *Node) givenHere(id taskstate.JobID) (task taskstate.TaskID, index uint64, ok bool) {
	n.replica.Read(func(s *ledger.State) {
		for t := range s.OpenOn(n.self) {
			if t.Job == id {
				_, _, index, _ = s.Assigned(t)
				task, ok = t, true
				return
			}
		}
	})
	return task, index, ok
}
