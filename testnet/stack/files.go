package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// Some jobs keep what their tasks leave. A task writes its files when it starts, below out in its
// folder; what is in them follows from its name, so that what is kept of it can be held against
// that.

// drawFiles draws what a job says of files.
func drawFiles(rng *rand.Rand, j *taskstate.Job) {
	switch rng.IntN(4) {
	case 0:
		j.Outputs = &taskstate.Outputs{
			Globs: []string{"out/**"}, Keep: [...]int{0, 0, 1, 2, 3}[rng.IntN(5)], Missing: [...]taskstate.Missing{taskstate.MissingFails, taskstate.MissingOK}[rng.IntN(2)],
		}
	case 1:
		if rng.IntN(3) == 0 {
			j.KeepLogs = 2
		}
	}
}

// store is how much a peer gives for what others leave: most have room for all of it, some for
// little, some give nothing.
func (p *peer) store() int64 {
	return [...]int64{1 << 30, 1 << 30, 1 << 30, 1 << 30, 500_000, -1}[(p.w.cfg.Seed*5+uint64(p.n)*7)%6]
}

// filesOf is what a task leaves, by name; some leave nothing.
func filesOf(t taskstate.TaskID) [][]byte {
	h := fnv.New64a()
	fmt.Fprint(h, t.String())
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	var files [][]byte
	for range t.Slot % 4 {
		b := make([]byte, 1+rng.IntN(60_000))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		files = append(files, b)
	}
	return files
}

// writes is a task that writes its files.
func (l *life) writes(t taskstate.TaskID) error {
	rel, err := t.Folder()
	if err != nil {
		return err
	}
	home, files := filepath.Join(l.dir, "tasks", filepath.FromSlash(rel)), filesOf(t)
	dir := filepath.Join(home, "work")
	if len(files) > 0 { // an empty folder would be something that is left
		dir = filepath.Join(dir, "out")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for i, b := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), b, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(home, "stdout"), []byte("this is "+t.String()), 0o600)
}

// leavesNothing tells whether a task that ends well fails all the same, for its files are not
// there.
func leavesNothing(j *taskstate.Job, t taskstate.TaskID) bool {
	return j.Outputs != nil && j.Outputs.Missing != taskstate.MissingOK && len(filesOf(t)) == 0
}

// scarce says, once all jobs have ended, of what a peer that is named as a keeper has no right copy
// (I16, I17). One whose disk went has it again, or is no keeper any more.
func (w *world) scarce() string {
	var l *life
	for _, p := range w.peers {
		if l = p.usable(); l != nil {
			break
		}
	}
	if l == nil { // nobody can be asked
		return ""
	}
	for _, j := range w.people.jobs {
		if !j.job.Saves() {
			continue
		}
		ts, err := l.node.Backend().Tasks(context.Background(), string(j.job.ID))
		if err != nil {
			continue
		}
		for _, t := range ts.Tasks {
			if why := w.lacks(&j.job, &t); why != "" {
				return why
			}
		}
	}
	return ""
}

func (w *world) lacks(j *taskstate.Job, t *api.Task) string {
	o := t.Output
	id, err := taskstate.ParseTaskID(t.ID)
	if o == nil || err != nil {
		if err == nil && t.State == taskstate.Complete.String() && j.Outputs != nil && len(filesOf(id)) > 0 {
			w.fail("I16", "%s is complete, and nothing is said to be kept of what it left", t.ID)
		}
		return ""
	}
	if want := filesOf(id); !o.Partial && j.Outputs != nil && (o.Files != len(want) || o.Bytes != size(want)) {
		w.fail("I17", "%s left %d files of %d bytes, and %+v is said to be kept", t.ID, len(want), size(want), o)
	}
	if !o.Partial && (o.Keep != j.Copies() || o.Copies < o.Keep && o.Why == "") {
		w.fail("I16", "%s is to be kept %d times, and is kept so: %+v", t.ID, j.Copies(), o)
	}
	var good, bad []string
	for _, k := range o.Keepers {
		p := w.named(k.Name)
		if p == nil {
			continue
		}
		if err := p.has(o, id, j); err != nil {
			bad = append(bad, fmt.Sprintf("%s: %v", p.name, err))
		} else {
			good = append(good, p.name)
		}
	}
	hurt := func(k api.Keeper) bool {
		p := w.named(k.Name)
		return p == nil || p == w.bad || p == w.twin || w.twin != nil
	}
	switch {
	case len(bad) == 0:
		return ""
	case len(good) == 0 && slices.ContainsFunc(o.Keepers, hurt):
		return "" // it was the only one
	}
	return fmt.Sprintf("%s has keepers that have no right copy of what it left: %s (%v have one; %+v)", t.ID, strings.Join(bad, "; "), good, o)
}

func size(files [][]byte) (n int64) {
	for _, b := range files {
		n += int64(len(b))
	}
	return n
}

// has tells why a peer's disk does not have a right copy of what a task left; nil: it has.
func (p *peer) has(o *api.Output, id taskstate.TaskID, j *taskstate.Job) error {
	l := p.usable()
	if l == nil {
		return errors.New("it is down")
	}
	if o.Ref != nil {
		if _, err := l.blob(o.Ref.Root); err != nil {
			return err
		}
		for _, want := range filesOf(id) {
			b, err := l.blob(piece.Sum(want))
			if err == nil && !bytes.Equal(b, want) {
				err = errors.New("a file is something else")
			}
			if err != nil {
				return err
			}
		}
	}
	if o.Logs != nil {
		if _, err := l.blob(o.Logs.Root); err != nil {
			return err
		}
	}
	return nil
}

// blob reads a file of the store as it is on the disk.
func (l *life) blob(r piece.Root) ([]byte, error) {
	name := strings.TrimPrefix(r.String(), "b3:")
	b, err := os.ReadFile(filepath.Join(l.dir, "blobs", name[:2], name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s is not there", r)
	case err == nil && piece.Sum(b) != r:
		err = fmt.Errorf("%s is something else", r)
	}
	return b, err
}

// loseFiles takes a copy away from each store, for a Break.
func (w *world) loseFiles() {
	for _, p := range w.peers {
		if l := p.usable(); l != nil {
			w.hurt(p) // for good: what is saved from now on may fail
			_ = os.RemoveAll(filepath.Join(l.dir, "blobs"))
		}
	}
}
