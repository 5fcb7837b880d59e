package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/node/runner"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// readyTimeout is how long a peer that resumes waits for contact, before it says so and goes on.
const readyTimeout = 8 * time.Second

// moveOver lets a peer that founded a cluster by itself, and has done nothing in it, join another
// one: a person who typed `peer up` before `peer up --join` has lost nothing. The old ledger is
// kept beside the new one.
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

// awaitReady waits until this peer can be used: it knows a coordinator, its own replica holds its
// own admission, and its worker knows what it had. One that resumes without contact, or has much to
// read, is ready too, after a while, and says so. With a program that is too old for the ledger it
// fails.
func (n *Node) awaitReady(ctx, life context.Context) error {
	limit := time.NewTimer(readyTimeout)
	defer limit.Stop()
	replayed := n.worker.Replayed()
	for {
		if err := n.ledger.Unread(); errors.Is(err, quorum.ErrNewer) {
			return err
		}
		changed := n.ledger.Changed()
		_, _, led := n.ledger.Coordinator()
		var in bool
		n.replica.Read(func(s *ledger.State) {
			m, ok := s.Member(n.self)
			in = ok && m.In()
		})
		if led && in && replayed == nil {
			return nil
		}
		wake := n.view.Events.Next()
		select {
		case <-changed:
		case <-wake:
		case <-replayed:
			replayed = nil
		case <-limit.C:
			return nil // the status says so
		case <-n.ending.asked: // stopped already, or told that it was removed
			return context.Canceled
		case <-ctx.Done():
			return ctx.Err()
		case <-life.Done():
			return context.Cause(life)
		}
	}
}

func (n *Node) openLedger(candidates func() []quorum.Candidate) (*quorum.Node, error) {
	l, err := quorum.Open(quorum.Config{
		Net: n.host, Self: n.self, Incarnation: n.folder.incarnation, Dir: n.folder.path("ledger"), Mark: n.folder.path("voter.mark"), Root: n.folder, Vouched: n.cfg.Moved, Sign: n.host.Sign, Verify: n.cfg.Machine.verify, Candidates: candidates, MayVote: n.keeper.MayVote, Seats: n.seats, Refused: n.refused, Committed: n.metrics.Committed, Log: n.log, Now: n.cfg.Now,
	})
	if err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	return l, nil
}

// newRunner makes what runs tasks, as far as this machine's owner allows.
func (n *Node) newRunner() (Runner, error) {
	var err error
	n.guard, err = guard.New(guard.Config{
		Self: n.self, Sink: func(r taskstate.RunReport) { n.worker.Report(n.room.addTo(r)); n.files.printed.Ended(r) },
		Policy: n.owner.Now, Asks: n.owner.Asks, Roles: n.owner.Roles, Void: n.owner.Void, Applied: n.replica.Applied,
		Audit: n.audit,
	}, func(sink func(taskstate.RunReport)) (guard.Runner, error) { return n.unguardedRunner(sink) })
	if err != nil {
		return nil, err // not n.guard: a nil *guard.Guard would be a Runner that is not nil
	}
	n.trust = &guard.OwnerView{Owner: n.owner, Guard: n.guard, Name: n.view.Who.Name, Members: func() (keys []taskstate.PeerID) {
		for _, e := range n.roster.All() {
			if e.Has(admission.Submit) {
				keys = append(keys, e.Peer)
			}
		}
		return keys
	}}
	return n.guard, nil
}

// mayKeep is why this machine's owner does not have so many more bytes of what a job's tasks left
// kept here; nil: they may be.
func (n *Node) mayKeep(job *taskstate.Job, bytes int64) error {
	most := n.guard.MaxKept(job)
	if most == 0 {
		return nil
	}
	if has := n.files.keptOf(job.OrderedBy()); bytes > most-has {
		return fmt.Errorf("they take %s, and the policy of this machine has at most %s kept of what tasks of that key leave (limits: disk), of which %s are taken", spell.Bytes(bytes), spell.Bytes(most), spell.Bytes(has))
	}
	return nil
}

func (n *Node) unguardedRunner(sink func(taskstate.RunReport)) (Runner, error) {
	if n.cfg.Machine.Runner != nil {
		return n.files.saving(sink, n.mayKeep, n.cfg.Machine.Runner)
	}
	cfg := runner.Config{Dir: TasksFolder(n.folder.dir), Log: n.log, Copied: n.begun.moved != "", Stdin: n.feeds, Inputs: n.files.stager, Secrets: n.secrets}
	cfg.Sandbox = &runner.Sandbox{
		Hide: []string{n.folder.dir}, Show: []string{api.SocketPath(n.folder.dir)}, Users: n.folder.path("task-users"),
		Self: n.cfg.Testnet, // one's own experiment runs what one could run oneself
	}
	if n.cfg.Testnet {
		cfg.Guard = os.Getppid() // nothing of a testnet outlives it
	}
	return n.files.saving(sink, n.mayKeep, func(sink func(taskstate.RunReport)) (Runner, error) {
		r, err := runner.New(sink, cfg)
		if err != nil {
			return nil, err // not r: a nil *runner.Runner would be a Runner that is not nil
		}
		n.owner.Hold(r.Holds(), r.Lacks())
		n.own.Exposed(r.Exposed())
		return r, nil
	})
}
