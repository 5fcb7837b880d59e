package readers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// maxNotes is how many changes are noted until the index is made anew.
const maxNotes = 1 << 14

// Config is what readers rest on.
type Config struct {
	Self    taskstate.PeerID
	Replica *ledger.Replica
	Roles   func(taskstate.PeerID) []admission.Role
}

// Readers is safe for concurrent use.
type Readers struct {
	cfg Config

	noted sync.Mutex // held for a moment only: who feeds the replica must not wait
	notes notes

	mu    sync.Mutex
	index index
}

// notes are what of the index is not true any more.
type notes struct {
	all   bool
	tasks []taskstate.TaskID // whose files the ledger names by now; slot 0: the inputs of a job
}

// New begins with what the replica has. It is told of changes by Hear.
func New(cfg Config) *Readers {
	return &Readers{cfg: cfg, notes: notes{all: true}}
}

// Hear takes note of an entry of the ledger. It is called by who feeds the replica.
func (r *Readers) Hear(ev ledger.Event) {
	r.noted.Lock()
	defer r.noted.Unlock()
	n := &r.notes
	n.all = n.all || ev.Reset
	for i := range ev.Entry.Commands {
		switch c := &ev.Entry.Commands[i]; {
		case c.Submit != nil && len(c.Submit.Job.Inputs) > 0:
			n.tasks = append(n.tasks, taskstate.TaskID{Job: c.Submit.Job.ID})
		case c.Update != nil && len(c.Update.Job.Inputs) > 0:
			n.tasks = append(n.tasks, taskstate.TaskID{Job: c.Update.Job.ID})
		case c.Kept != nil && !c.Kept.Not:
			for _, run := range c.Kept.Slots {
				for slot := range run.All() {
					n.tasks = append(n.tasks, taskstate.TaskID{Job: c.Kept.Job, Slot: slot})
				}
			}
		case c.Settle != nil:
			for j := range c.Settle.Statuses {
				if s := &c.Settle.Statuses[j]; s.Saved != nil {
					n.tasks = append(n.tasks, s.Task)
				}
			}
		}
	}
	if n.all || len(n.tasks) > maxNotes {
		*n = notes{all: true}
	}
}

// All tells whether a peer may read everything.
func (r *Readers) All(peer taskstate.PeerID) bool {
	roles := r.cfg.Roles(peer)
	return slices.Contains(roles, admission.Admin) || slices.Contains(roles, admission.Read)
}

// Job tells whether a peer may read what tasks of a job wrote – it submitted the job, or signed its
// newest version – and whether the job is known here.
func (r *Readers) Job(peer taskstate.PeerID, id taskstate.JobID) (may, known bool) {
	r.cfg.Replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			may, known = j.Job().Submitter == peer || j.Job().Order != nil && j.Job().Order.By == peer, true
		}
	})
	return may || r.All(peer), known
}

// How long who asks for the output of a task waits until this peer's copy of the ledger has the
// job: its task may have come here before.
const (
	jobWait = 5 * time.Second
	jobLook = 20 * time.Millisecond
)

// Output tells whether a peer may read what a task wrote here.
func (r *Readers) Output(ctx context.Context, peer taskstate.PeerID, task taskstate.TaskID) bool {
	for waited := time.Duration(0); ; waited += jobLook {
		may, known := r.Job(peer, task.Job)
		if may || known || waited >= jobWait || pause.For(ctx, jobLook) != nil {
			return may
		}
	}
}

// Blob tells whether a peer may have a file or folder by its name.
func (r *Readers) Blob(peer taskstate.PeerID, root piece.Root) bool {
	r.mu.Lock()
	r.catchUp()
	named, keeps := false, []taskstate.TaskID(nil)
	for _, p := range r.index.places(root) {
		if named = true; r.index.peers.list[p.by] == peer {
			r.mu.Unlock()
			return true
		}
		if p.slot > 0 {
			keeps = append(keeps, taskstate.TaskID{Job: r.index.jobs.list[p.job], Slot: int(p.slot)})
		}
	}
	kept := r.index.keeps(root, peer)
	r.mu.Unlock()
	if !named || kept || r.All(peer) {
		return true
	}
	may := false
	r.cfg.Replica.Read(func(s *ledger.State) {
		may = slices.ContainsFunc(keeps, func(t taskstate.TaskID) bool { return slices.Contains(keepers(s, t), peer) }) || runs(s, peer, root, keeps)
	})
	return may
}

// keepers are who keeps what a task left.
func keepers(s *ledger.State, t taskstate.TaskID) []taskstate.PeerID {
	j, ok := s.Job(t.Job)
	if !ok || t.Slot > j.Slots() {
		return nil
	}
	if end := j.Slot(t.Slot).Final; end != nil && end.Saved != nil {
		return end.Saved.Keepers
	}
	return nil
}

// runs tells whether a peer has a task whose job needs something that these tasks left, or none. Of
// a job whose inputs are not known here they are taken to be whatever its submitter may read.
func runs(s *ledger.State, peer taskstate.PeerID, root piece.Root, left []taskstate.TaskID) bool {
	var seen taskstate.JobID
	for t := range s.OpenOn(peer) {
		if t.Job == seen { // those of a job come together
			continue
		}
		seen = t.Job
		j, ok := s.Job(t.Job)
		if !ok {
			continue
		}
		job := j.Job()
		if slices.Contains(inputs(job), root) || slices.ContainsFunc(left, func(t taskstate.TaskID) bool {
			from, ok := s.Job(t.Job)
			return slices.Contains(job.Needs(), t.Job) || job.Withheld != nil && ok && from.Job().Submitter == job.Submitter
		}) {
			return true
		}
	}
	return false
}

// catchUp makes the index true. r.mu is held.
func (r *Readers) catchUp() {
	r.noted.Lock()
	n := r.notes
	r.notes = notes{}
	r.noted.Unlock()
	if n.all || r.index.full() {
		r.remake()
		return
	}
	if len(n.tasks) == 0 {
		return
	}
	r.cfg.Replica.Read(func(s *ledger.State) {
		for _, t := range n.tasks {
			j, ok := s.Job(t.Job)
			switch {
			case !ok:
			case t.Slot == 0:
				r.index.addInputs(s, j)
			case t.Slot <= j.Slots():
				r.index.addSaved(s, j, t.Slot)
			}
		}
	})
}

// remake makes the index anew, one job after the other, so that nobody waits long for the replica.
func (r *Readers) remake() {
	r.index = newIndex()
	var jobs []taskstate.JobID
	r.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			jobs = append(jobs, j.Job().ID)
		}
	})
	for _, id := range jobs {
		r.cfg.Replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(id); ok {
				r.index.addJob(s, j)
			}
		})
	}
	r.index.made = len(r.index.first)
}

// inputs are the files and folders that a job needs.
func inputs(job *taskstate.Job) (out []piece.Root) {
	for _, in := range job.Inputs {
		if ref, err := tree.ParseRef(in.Ref); err == nil {
			out = append(out, ref.Root)
		}
	}
	return out
}
