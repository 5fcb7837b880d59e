package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Aside is what this peer's ledger had and the one that counts now may not have: entries that a
// coordinator had this voter take out of its log, or a whole ledger that this peer gave up for
// another one. What was acknowledged is among it where other voters lost their part of it behind
// their owners' backs.
type Aside struct {
	File       string // a file of entries, or a folder with a ledger; a person deletes it after looking at it
	Generation uint64
	From, To   uint64            // the first and the last entry; 0 for a ledger
	Jobs       []taskstate.JobID // that are submitted in the entries, or not over in the ledger
}

// AsideJob is a job of an Aside that the ledger does not know.
type AsideJob struct {
	Job   taskstate.Job
	Why   string // why it is not to be submitted again; "": it is
	First int    // what its attempts are to begin with then: see ledger.Submit
}

// asides keeps what was taken out of the log in files of the folder set-aside, the newest maxAsides
// of them, and knows the newest maxLedgers ledgers that are there.
type asides struct {
	cfg    *Config
	folder folder
	rep    *ledger.Replica

	mu   sync.Mutex
	kept []Aside
}

const (
	asideName  = "entries-"
	ledgerName = "generation-"
	maxAsides  = 32
	maxLedgers = 8
	asideBytes = 32 << 20 // of the entries in one file; the oldest are the ones that are kept
)

// asideEntries is what a file holds.
type asideEntries struct {
	Generation uint64        `cbor:"1,keyasint"`
	Entries    []asideRecord `cbor:"2,keyasint"`
}

type asideRecord struct {
	Index uint64 `cbor:"1,keyasint"`
	Term  uint64 `cbor:"2,keyasint"`
	Data  []byte `cbor:"3,keyasint"`
}

// load reads what was set aside in earlier starts.
func (a *asides) load() {
	for _, file := range a.paths(asideName) {
		held, err := readEntries(file)
		if err != nil {
			a.cfg.Log.Warn("entries that were set aside cannot be read", "file", file, "err", err)
			continue
		}
		a.kept = append(a.kept, described(file, held))
	}
	ledgers := a.paths(ledgerName)
	for _, dir := range ledgers[max(0, len(ledgers)-maxLedgers):] {
		a.addLedger(dir)
	}
}

// paths lists what is set aside under names that begin so, the oldest first.
func (a *asides) paths(name string) []string {
	found, err := filepath.Glob(filepath.Join(a.folder.path("set-aside"), name+"*"))
	if err != nil {
		return nil // of a bad pattern
	}
	slices.SortFunc(found, func(x, y string) int { return cmp.Compare(stamped(x), stamped(y)) })
	return found
}

func readEntries(file string) (held asideEntries, err error) {
	b, err := os.ReadFile(file)
	if err == nil {
		err = wire.Unmarshal(b, &held)
	}
	return held, err
}

// described says what a file holds.
func described(file string, held asideEntries) Aside {
	out := Aside{File: file, Generation: held.Generation}
	for i, r := range held.Entries {
		if i == 0 {
			out.From = r.Index
		}
		out.To = r.Index
	}
	for _, j := range held.jobs() {
		out.Jobs = append(out.Jobs, j.Job.ID)
	}
	return out
}

// jobs are those that the entries submit.
func (held asideEntries) jobs() (out []AsideJob) {
	for _, r := range held.Entries {
		e, err := ledger.ReadEntry(r.Index, r.Data)
		if err != nil {
			continue
		}
		for _, c := range e.Commands {
			if c.Submit != nil {
				out = append(out, AsideJob{Job: c.Submit.Job, Why: notAgain(&c.Submit.Job), First: ledger.AttemptBeyond(c.Submit.FirstAttempt(e.Epoch.Generation))})
			}
			if c.Cancel != nil {
				for i := range out {
					if out[i].Job.ID == c.Cancel.Job {
						out[i].Why = "it was cancelled"
					}
				}
			}
		}
	}
	return out
}

// notAgain is why a job that may have run must not be submitted again, "" if it may.
func notAgain(j *taskstate.Job) string {
	switch {
	case j.Origin != nil:
		return "its schedule started it"
	case j.Unreachable.Wait:
		return "it must not run twice (`unreachable: wait`), and may have run"
	}
	return ""
}

// addLedger notes a ledger that was set aside.
func (a *asides) addLedger(dir string) {
	generation, jobs, err := a.folder.asideLedger(dir)
	if err != nil {
		a.cfg.Log.Warn("a ledger that was set aside cannot be read", "folder", dir, "err", err)
	}
	it := Aside{File: dir, Generation: generation}
	for _, j := range jobs {
		it.Jobs = append(it.Jobs, j.Job.ID)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = append(a.kept, it)
}

// asideLedger reads the jobs of a ledger that was set aside: those in its copy that are not over,
// and those that only its log submits, which may contradict the copy. There may be no copy, or no
// log. With an error it returns what it could read.
func (f folder) asideLedger(dir string) (generation uint64, jobs []AsideJob, err error) {
	if _, err := fmt.Sscanf(filepath.Base(dir), ledgerName+"%d-", &generation); err != nil {
		return 0, nil, fmt.Errorf("%s is no name of a ledger: %w", dir, err)
	}
	rep := ledger.NewReplica()
	errCopy := loadCopy(rep, filepath.Join(dir, "copy"))
	known := map[taskstate.JobID]bool{}
	rep.Read(func(s *ledger.State) {
		lacking := ledger.Lacking(s)
		for j := range s.Jobs() {
			known[j.Job().ID] = true
			why := notAgain(j.Job())
			if slices.Contains(lacking, j.Job().ID) {
				why = "this peer does not know what it runs"
			}
			_, _, cancelled := j.Cancelled()
			if _, over := j.Ended(); !over && !cancelled {
				jobs = append(jobs, AsideJob{Job: *j.Job(), Why: why, First: ledger.AttemptBeyond(j.FirstAttempt())})
			}
		}
	})
	slices.Reverse(jobs) // the ledger lists the newest first
	var logged []AsideJob
	err = f.readAside(dir, generation, math.MaxUint64-1, func(log raft.LogStore) (err error) {
		logged, err = jobsIn(log)
		return err
	})
	for _, j := range logged {
		if !known[j.Job.ID] {
			jobs = append(jobs, j)
		}
	}
	return generation, jobs, errors.Join(errCopy, err)
}

// jobsIn are the jobs that a log submits. With an error it returns what it could read.
func jobsIn(log raft.LogStore) ([]AsideJob, error) {
	var held asideEntries
	err := tail(log, 0, func(e *ledger.Entry) {
		if slices.ContainsFunc(e.Commands, func(c ledger.Command) bool { return c.Submit != nil || c.Cancel != nil }) {
			held.Entries = append(held.Entries, asideRecord{Index: e.Index, Data: e.Encoded()})
		}
	})
	return held.jobs(), err
}

// jobs lists the jobs that were set aside and that the ledger neither knows nor has forgotten, in
// the order in which they were accepted.
func (a *asides) jobs() (out []AsideJob) {
	seen := map[taskstate.JobID]bool{}
	for _, it := range a.unknown() {
		for _, j := range a.jobsOf(it) {
			if slices.Contains(it.Jobs, j.Job.ID) && !seen[j.Job.ID] {
				seen[j.Job.ID], out = true, append(out, j)
			}
		}
	}
	return out
}

func (a *asides) jobsOf(it Aside) (out []AsideJob) {
	if it.To > 0 {
		held, err := readEntries(it.File)
		if err != nil {
			return nil // said when it was loaded
		}
		return held.jobs()
	}
	_, out, _ = a.folder.asideLedger(it.File) // said when it was loaded
	return out
}

// take writes the decisions in a part of a log to a file, before they are taken out of it.
func (a *asides) take(log raft.LogStore, generation, from, to uint64) error {
	held, size := asideEntries{Generation: generation}, 0
	for i := from; i <= to && size < asideBytes; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil {
			break // what cannot be read cannot be kept
		}
		if l.Type == raft.LogCommand {
			held.Entries = append(held.Entries, asideRecord{Index: i, Term: l.Term, Data: l.Data})
			size += len(l.Data)
		}
	}
	if len(held.Entries) == 0 || to <= a.rep.Applied() && len(a.unknownOf(held.jobs())) == 0 {
		return nil // a snapshot came in their place, and has them
	}
	b, err := wire.Marshal(held)
	if err != nil {
		return err
	}
	file := filepath.Join(a.folder.path("set-aside"), fmt.Sprintf("%s%d-%d-%s", asideName, generation, held.Entries[0].Index, a.cfg.Now().UTC().Format("20060102T150405.000")))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), atomicfile.Write(file, b)); err != nil {
		return fmt.Errorf("set entries of the ledger's log aside: %w", err)
	}
	it := described(file, held)
	a.cfg.Log.Warn("the coordinator's log differs: entries of this voter's log that were not known to be decided were set aside", "from", it.From, "to", it.To, "jobs", it.Jobs, "file", file)
	a.mu.Lock()
	a.kept = append(a.kept, it)
	a.mu.Unlock()
	return a.bound()
}

// bound removes the oldest files when there are too many.
func (a *asides) bound() (err error) {
	files := a.paths(asideName)
	for _, old := range files[:max(0, len(files)-maxAsides)] {
		err = errors.Join(err, os.Remove(old))
	}
	return err
}

// stamped is when a file was written, as its name has it.
func stamped(file string) string { return file[strings.LastIndex(file, "-")+1:] }

// unknown lists what was set aside, is still there, and has jobs that this peer's copy of the
// ledger neither knows nor has forgotten. A job that was not acknowledged, and was submitted again,
// is known.
func (a *asides) unknown() (out []Aside) {
	a.mu.Lock()
	a.kept = slices.DeleteFunc(a.kept, func(it Aside) bool { _, err := os.Stat(it.File); return errors.Is(err, os.ErrNotExist) })
	kept := slices.Clone(a.kept)
	a.mu.Unlock()
	a.rep.Read(func(s *ledger.State) {
		for _, it := range kept {
			it.Jobs = slices.DeleteFunc(slices.Clone(it.Jobs), func(id taskstate.JobID) bool { return knows(s, id) })
			if len(it.Jobs) > 0 {
				out = append(out, it)
			}
		}
	})
	return out
}

// unknownOf are the jobs that the ledger neither knows nor has forgotten.
func (a *asides) unknownOf(jobs []AsideJob) []AsideJob {
	a.rep.Read(func(s *ledger.State) {
		jobs = slices.DeleteFunc(jobs, func(j AsideJob) bool { return knows(s, j.Job.ID) })
	})
	return jobs
}

// knows reports whether a job is in the ledger, or was.
func knows(s *ledger.State, id taskstate.JobID) bool {
	_, known := s.Job(id)
	_, gone := s.Forgotten(id)
	return known || gone
}
