package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"covey/node/calls"
	"covey/node/view"
	"covey/p2p/wire"
	"covey/taskstate"
)

// heldJobs keeps jobs that no coordinator has accepted yet: one file each, durable before anybody is told HELD. Only this disk
// holds them. The newest come last in order.
type heldJobs struct {
	dir string
	by  *calls.Signer // nil in tests of the files alone: nothing is signed then

	files sync.Mutex // one change at a time, held while it is written
	mu    sync.Mutex // guards jobs; never held while anything is written, so that a stuck disk stops no question
	jobs  []heldJob  // replaced, never written to
}

type heldJob struct {
	Since     int64         `cbor:"1,keyasint"` // milliseconds since 1970
	Job       taskstate.Job `cbor:"2,keyasint"`
	Withdrawn string        `cbor:"3,keyasint,omitempty"` // why it was cancelled here; it stays until no way out can bring it to the ledger
	Signed    *calls.Signed `cbor:"4,keyasint,omitempty"` // the submission as its peer signed it when it took it
}

const heldSuffix = ".held"

// maxHeld bounds the jobs that wait on one peer; above it a submission is refused.
const maxHeld = 1000

var errHeldFull = fmt.Errorf("%d jobs are held here already", maxHeld)

// errHeldHere: this very job is held already.
var errHeldHere = errors.New("it is held here already")

func openHeld(dir string, by *calls.Signer) (*heldJobs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	h := &heldJobs{dir: dir, by: by}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read held jobs: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), heldSuffix) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read held job: %w", err)
		}
		var j heldJob
		if err := wire.Unmarshal(b, &j); err != nil {
			return nil, fmt.Errorf("held job %s is damaged: %w; move the file away to start without it", filepath.Join(dir, e.Name()), err)
		}
		if err := h.vouch(&j); err != nil {
			return nil, fmt.Errorf("held job %s: %w; move the file away to start without it", filepath.Join(dir, e.Name()), err)
		}
		h.jobs = append(h.jobs, j)
	}
	slices.SortFunc(h.jobs, func(a, b heldJob) int { return int(a.Since - b.Since) })
	return h, nil
}

// vouch checks that a job was signed by this peer when it was taken. One that was held by version 0.1, which signed nothing, is this
// peer's own, and signed now.
func (h *heldJobs) vouch(j *heldJob) error {
	switch {
	case h.by == nil:
		return nil
	case j.Signed == nil:
		_ = h.sign(j) // on a disk that takes nothing it is signed in memory, and again at the next start
		return nil
	}
	open := h.by.Open
	if h.by.Cluster() == "" { // the roster is lost: the signature counts in a cluster, and which one it was is not known yet
		open = h.by.Read
	}
	c, err := open(*j.Signed)
	if err != nil {
		return err
	}
	is, err := wire.Marshal(j.Job)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	was, err := wire.Marshal(c.Submit)
	if err != nil || c.From != h.by.Self || !bytes.Equal(was, is) {
		return errors.New("it is not the job that was signed when it was taken")
	}
	return nil
}

// sign has this peer answer for a job, on disk.
func (h *heldJobs) sign(j *heldJob) error {
	q, err := h.by.Seal(calls.Call{Submit: &j.Job})
	if err != nil {
		return err
	}
	j.Signed = &q
	return h.write(*j)
}

func (h *heldJobs) file(id taskstate.JobID) string {
	return filepath.Join(h.dir, string(id)+heldSuffix)
}

// put makes a job durable here. One that is here already – it was submitted again, because its answer was lost – is errHeldHere and stays as it is.
func (h *heldJobs) put(j taskstate.Job, now int64) error {
	h.files.Lock()
	defer h.files.Unlock()
	if err := h.taken(j); err != nil {
		return err
	}
	if len(h.all()) >= maxHeld {
		return errHeldFull
	}
	rec := heldJob{Since: now, Job: j}
	keep := h.write
	if h.by != nil {
		keep = func(heldJob) error { return h.sign(&rec) }
	}
	if err := keep(rec); err != nil {
		return err
	}
	h.set(append(slices.Clone(h.all()), rec))
	return nil
}

// taken says what is here under a job's id.
func (h *heldJobs) taken(j taskstate.Job) error {
	all := h.all()
	i := slices.IndexFunc(all, func(x heldJob) bool { return x.Job.ID == j.ID })
	if i < 0 {
		return nil
	}
	here := all[i]
	was, err := wire.Marshal(here.Job)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	is, err := wire.Marshal(j)
	switch {
	case err != nil:
		return fmt.Errorf("encode job: %w", err)
	case here.Withdrawn != "":
		return fmt.Errorf("job %s was cancelled here (%s); submit it under another id", j.ID, here.Withdrawn)
	case !bytes.Equal(was, is):
		return fmt.Errorf("another job with the id %s is held here; submit this one under another id", j.ID)
	}
	return errHeldHere
}

func (h *heldJobs) write(rec heldJob) error {
	b, err := wire.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	return writeFile(h.file(rec.Job.ID), b)
}

// withdraw marks a held job as cancelled, on disk. It tells whether it was here and not withdrawn before.
func (h *heldJobs) withdraw(id taskstate.JobID, why string) (bool, error) {
	h.files.Lock()
	defer h.files.Unlock()
	jobs := slices.Clone(h.all())
	i := slices.IndexFunc(jobs, func(j heldJob) bool { return j.Job.ID == id && j.Withdrawn == "" })
	if i < 0 {
		return false, nil
	}
	jobs[i].Withdrawn = why
	if err := h.write(jobs[i]); err != nil {
		return true, fmt.Errorf("cancel held job: %w", err)
	}
	h.set(jobs)
	return true, nil
}

// drop forgets a job that was accepted, or one that was withdrawn and has not come to the ledger: whichever is said, and not the
// other. It tells whether it was here.
func (h *heldJobs) drop(id taskstate.JobID, withdrawn bool) (bool, error) {
	h.files.Lock()
	defer h.files.Unlock()
	jobs := slices.Clone(h.all())
	i := slices.IndexFunc(jobs, func(j heldJob) bool { return j.Job.ID == id && (j.Withdrawn != "") == withdrawn })
	if i < 0 {
		return false, nil
	}
	if err := os.Remove(h.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, fmt.Errorf("forget held job: %w", err)
	}
	h.set(slices.Delete(jobs, i, i+1))
	return true, nil
}

// all is every job here. Its holder must not write to it.
func (h *heldJobs) all() []heldJob {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs
}

func (h *heldJobs) set(jobs []heldJob) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs = jobs
}

// list is the jobs that wait for a coordinator, oldest first.
func (h *heldJobs) list() []heldJob { return h.some(false) }

// shown is list as people are shown it.
func (h *heldJobs) shown() (out []view.Held) {
	for _, j := range h.list() {
		out = append(out, view.Held{Since: j.Since, Job: j.Job})
	}
	return out
}

// has tells whether a job is held here.
func (h *heldJobs) has(id taskstate.JobID) bool {
	return slices.ContainsFunc(h.list(), func(j heldJob) bool { return j.Job.ID == id })
}

// withdrawals is the jobs that were cancelled while they waited, and may have gone out all the same.
func (h *heldJobs) withdrawals() []heldJob { return h.some(true) }

func (h *heldJobs) some(withdrawn bool) []heldJob {
	return slices.DeleteFunc(slices.Clone(h.all()), func(j heldJob) bool { return (j.Withdrawn != "") != withdrawn })
}
