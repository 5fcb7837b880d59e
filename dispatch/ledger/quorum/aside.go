package quorum

import (
	"cmp"
	"errors"
	"fmt"
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

// Aside is what a coordinator had this voter take out of its log, although no other voter may have
// it: entries that were not known to be decided. What a voter acknowledged and its coordinator
// decided is among them where others lost their part of it behind their owners' backs.
type Aside struct {
	File       string // where the entries are; a person deletes it after looking at it
	Generation uint64
	From, To   uint64            // the first and the last entry
	Jobs       []taskstate.JobID // that are submitted in them
}

// asides keeps what was taken out of the log in files of the folder set-aside, the newest maxAsides
// of them.
type asides struct {
	cfg    *Config
	folder folder
	rep    *ledger.Replica

	mu   sync.Mutex
	kept []Aside
}

const (
	asideName  = "entries-"
	maxAsides  = 32
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

// load reads the files of earlier starts.
func (a *asides) load() {
	files, err := filepath.Glob(filepath.Join(a.folder.path("set-aside"), asideName+"*"))
	if err != nil {
		return
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		var held asideEntries
		if err == nil {
			err = wire.Unmarshal(b, &held)
		}
		if err != nil {
			a.cfg.Log.Warn("entries that were set aside cannot be read", "file", file, "err", err)
			continue
		}
		a.kept = append(a.kept, described(file, held))
	}
}

// described says what a file holds.
func described(file string, held asideEntries) Aside {
	out := Aside{File: file, Generation: held.Generation}
	for i, r := range held.Entries {
		if i == 0 {
			out.From = r.Index
		}
		out.To = r.Index
		e, err := ledger.ReadEntry(r.Index, r.Data)
		if err != nil {
			continue
		}
		for _, c := range e.Commands {
			if c.Submit != nil {
				out.Jobs = append(out.Jobs, c.Submit.Job.ID)
			}
		}
	}
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
	if len(held.Entries) == 0 {
		return nil
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
func (a *asides) bound() error {
	files, err := filepath.Glob(filepath.Join(a.folder.path("set-aside"), asideName+"*"))
	if err != nil || len(files) <= maxAsides {
		return err
	}
	slices.SortFunc(files, func(x, y string) int { return cmp.Compare(stamped(x), stamped(y)) })
	for _, old := range files[:len(files)-maxAsides] {
		err = errors.Join(err, os.Remove(old))
	}
	return err
}

// stamped is when a file was written, as its name has it.
func stamped(file string) string { return file[strings.LastIndex(file, "-")+1:] }

// unknown lists what was set aside, is still there, and submits jobs that this peer's copy of the
// ledger does not know. A job that was not acknowledged, and was submitted again, is known.
func (a *asides) unknown() (out []Aside) {
	a.mu.Lock()
	a.kept = slices.DeleteFunc(a.kept, func(it Aside) bool { _, err := os.Stat(it.File); return errors.Is(err, os.ErrNotExist) })
	kept := slices.Clone(a.kept)
	a.mu.Unlock()
	for _, it := range kept {
		a.rep.Read(func(s *ledger.State) {
			it.Jobs = slices.DeleteFunc(slices.Clone(it.Jobs), func(id taskstate.JobID) bool { _, ok := s.Job(id); return ok })
		})
		if len(it.Jobs) > 0 {
			out = append(out, it)
		}
	}
	return out
}
