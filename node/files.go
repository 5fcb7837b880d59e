package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/node/files"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/logreplica"
	"github.com/coveyproject/covey/node/readers"
	"github.com/coveyproject/covey/node/saver"
	"github.com/coveyproject/covey/node/stager"
	"github.com/coveyproject/covey/node/sweep"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// filesFolder is where files are, in the data folder.
const filesFolder = "blobs"

// jobFiles owns the store of files, and all that moves them for people and for jobs: what people
// put and get, what brings inputs to the tasks that run here, and what keeps and looks after what
// tasks leave. The node opens it, runs its parts and closes it.
type jobFiles struct {
	self    taskstate.PeerID
	folder  *folder
	quota   int64 // Config.Store
	host    *p2p.Host
	members *membership.Membership
	roster  *admission.Roster
	readers *readers.Readers
	replica *ledger.Replica
	who     *view.Names
	level   func() bool // this peer's copy of the ledger can be believed when it does not know a job
	worker  func() *worker.Loop
	offer   *offering
	own     troubles.Own
	now     func() time.Time
	log     *slog.Logger

	store  *store.Store   // files that people put here, and copies for others
	stager *stager.Stager // inputs of tasks that run here
	put    *files.Files

	keepers *care.Keepers
	care    *care.Care
	kept    *care.Report // what people are told of it

	copies  *logreplica.Store // of what tasks of other peers printed
	printed *logreplica.Replicator
}

// openFiles opens the store of files, and what rests on it.
func openFiles(n *Node) (f *jobFiles, err error) {
	f = &jobFiles{
		self: n.self, folder: n.folder, quota: n.cfg.Store, host: n.host, members: n.members, roster: n.roster, readers: n.readers, replica: n.replica, who: n.view.Who,
		level: n.keeper.InSync, worker: func() *worker.Loop { return n.worker },
		offer: n.offer, own: n.own, now: n.cfg.Now, log: n.log,
	}
	quota := max(0, f.quota)
	if f.quota == 0 { // nobody said how much
		quota = -1
	}
	dir := f.folder.path(filesFolder)
	if f.store, err = store.Open(dir, store.Config{Quota: quota, Now: f.now, Log: f.log}); err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	if err = f.openStager(); err != nil {
		return nil, api.Errorf(api.Failed, "%v", err)
	}
	f.openCare(n.line, n.held)
	f.put = files.New(files.Config{Store: f.store, Dir: dir, Net: f.host, Self: f.self, Members: f.others, May: func(root piece.Root) bool { return f.readers.Blob(f.self, root) }, Jobs: f.kept.Jobs, Now: f.now, Log: f.log})
	return f, nil
}

// openCare makes what looks after the files that are kept here.
func (f *jobFiles) openCare(line *calls.Line, held *held.Store) {
	f.keepers = &care.Keepers{Self: f.self, Members: f.members.View, Roster: f.roster, Readers: f.readers, Replica: f.replica}
	f.care = care.New(care.Config{
		Self: f.self, Store: f.store, Net: f.host, Replica: f.replica, Current: f.level, Peers: f.keepers.Peers, Now: f.now, Log: f.log,
		Tell: func(ctx context.Context, k ledger.Kept) error {
			r, err := line.Decide(ctx, calls.Call{Kept: &k})
			if err == nil && k.Not && !slices.Contains(k.Lost, k.Peer) && r.Partly > 0 {
				return errors.New("its copy is needed")
			}
			return err
		},
		Held: func() (jobs []*taskstate.Job) {
			for _, h := range held.List() {
				jobs = append(jobs, &h.Job)
			}
			return jobs
		},
		Full: func(err error) {
			if speaks := f.replica.Spoken(); speaks < session.NoFilesDialect && err != nil { // coordinators of before would not understand it
				f.worker().Refrain(api.TroubleStoreFull, err)
			} else {
				f.worker().Refrain(api.TroubleStoreFull, nil)
				f.worker().SetOffer(f.offer.full(err)) // no tasks that leave files, while those have no room here
			}
			f.own.StoreFull(err)
		},
	})
	f.kept = &care.Report{Self: f.self, Care: f.care, Replica: f.replica, Who: f.who}
}

// openPrinted makes what keeps the output of tasks twice.
func (f *jobFiles) openPrinted(n *Node) {
	f.copies = logreplica.OpenStore(f.folder.path(logreplica.Folder), copiesBudget(n.cfg.KeepOutput, f.quota))
	n.logs = tasklog.NewStore(tasklog.Config{Dir: TasksFolder(f.folder.dir), Copies: f.copies.Dir, Live: n.runner.Live, Started: n.worker.Replayed()})
	f.printed = logreplica.New(logreplica.Config{
		Self: f.self, Tasks: TasksFolder(f.folder.dir), Store: f.copies, Logs: n.logs, Net: f.host, Replica: f.replica, Current: f.level,
		Live: n.runner.Live, Peers: f.keepers.Peers, May: f.readers.Job, Name: f.who.Name, Now: f.now, Log: f.log,
	})
}

// copiesBudget is how much copies of what tasks printed elsewhere may take: a sixteenth of what is
// for the files of finished jobs here, which is 1 GiB unless the user said how much. A peer that
// stores nothing for others (store: 0) keeps none.
func copiesBudget(output, store int64) logreplica.Budget {
	if store < 0 {
		return 0
	}
	return logreplica.Budget(cmp.Or(output, sweep.OutputBytes) / 16)
}

// saving is what keeps what tasks leave, as far as this machine's owner lets it: it stands between
// the worker, which is the sink, and what runs tasks.
func (f *jobFiles) saving(sink func(taskstate.RunReport), may func(*taskstate.Job, int64) error, run func(sink func(taskstate.RunReport)) (Runner, error)) (Runner, error) {
	s, err := saver.New(saver.Config{
		Self: f.self, Dir: TasksFolder(f.folder.dir), Net: f.host, Name: f.who.Name, Log: f.log, Sink: sink,
		Store:   func() *store.Store { return f.store },
		Others:  f.keepers.Of,
		MayKeep: may,
		Inputs:  func(ctx context.Context, l taskstate.Launch) ([]tree.Placed, error) { return f.stager.Placed(ctx, l) },
	}, func(sink func(taskstate.RunReport)) (saver.Runner, error) { return run(sink) })
	if err != nil {
		return nil, err // not s: a nil *saver.Saver would be a Runner that is not nil
	}
	return s, nil
}

// keptOf is how many bytes this peer keeps of what tasks of a key's jobs left.
func (f *jobFiles) keptOf(key taskstate.PeerID) (sum int64) {
	f.replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if j.Job().OrderedBy() == key {
				sum += ledger.KeptBy(j)[f.self]
			}
		}
	})
	return sum
}

// outputSafe tells whether all that a task was to leave is in the store for good, so that the
// folder it worked in is needed no more.
func (f *jobFiles) outputSafe(id taskstate.TaskID) bool {
	var saved *taskstate.Saved
	f.replica.Read(func(s *ledger.State) {
		j, ok := s.Job(id.Job)
		if !ok || !j.Job().HasOutputs() || id.Slot > j.Slots() {
			return
		}
		if r := j.Slot(id.Slot); r.Attempt == id.Attempt && r.Final != nil && r.Final.State == taskstate.Complete {
			saved = r.Final.Saved
		}
	})
	if saved == nil || saved.Root.IsZero() {
		return false
	}
	p, ok := f.store.PinNamed(keep.PinName(id))
	if !ok || !p.Until.IsZero() || !slices.Contains(p.Roots, saved.Root) {
		return false
	}
	return !slices.ContainsFunc(p.Roots, func(r piece.Root) bool { return !f.store.Have(r).Whole })
}

// serveKeeping keeps for other members what tasks left with them.
func (f *jobFiles) serveKeeping() *keep.Server {
	return keep.Serve(f.host, keep.ServerConfig{
		Self: f.self, Net: f.host, Store: f.store, Stores: f.quota >= 0, Admitted: f.roster.Admitted, Now: f.now, Printed: f.printed, Log: f.log,
	})
}

// others are the other members, who may have files.
func (f *jobFiles) others() (others []files.Member) {
	seen := f.members.View()
	for _, p := range f.roster.All() {
		if p.Peer == f.self || !f.roster.Admitted(p.Peer) {
			continue
		}
		m, met := seen.Get(p.Peer)
		others = append(others, files.Member{ID: p.Peer, Name: f.who.Name(p.Peer), Here: met && m.Verdict != membership.Dead})
	}
	return others
}
