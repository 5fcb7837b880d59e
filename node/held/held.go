package held

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

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Store keeps jobs that no coordinator has accepted yet: one file each, durable before anybody is
// told HELD. Only this disk holds them. The newest come last in order.
type Store struct {
	dir string
	by  *calls.Signer // nil in tests of the files alone: nothing is signed then

	files sync.Mutex // one change at a time, held while it is written
	mu    sync.Mutex // guards jobs; never held while anything is written, so that a stuck disk stops no question
	jobs  []Job      // replaced, never written to
}

// Job is a job that waits.
type Job struct {
	Since     int64         `cbor:"1,keyasint"` // milliseconds since 1970
	Job       taskstate.Job `cbor:"2,keyasint"`
	Withdrawn string        `cbor:"3,keyasint,omitempty"` // why it was cancelled here; it stays until no way out can bring it to the ledger
	Signed    *calls.Signed `cbor:"4,keyasint,omitempty"` // the submission as its peer signed it when it took it
}

const heldSuffix = ".held"

// most bounds the jobs that wait on one peer; above it a submission is refused.
const most = 1000

// ErrFull is of one job too many.
var ErrFull = fmt.Errorf("%d jobs are held here already", most)

// ErrHere: this very job is held already.
var ErrHere = errors.New("it is held here already")

// Open reads what is held in a folder. by signs what is taken, and vouches for what is there.
func Open(dir string, by *calls.Signer) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	h := &Store{dir: dir, by: by}
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
		var j Job
		if err := wire.Unmarshal(b, &j); err != nil {
			return nil, fmt.Errorf("held job %s is damaged: %w; move the file away to start without it", filepath.Join(dir, e.Name()), err)
		}
		if err := h.vouch(&j); err != nil {
			return nil, fmt.Errorf("held job %s: %w; move the file away to start without it", filepath.Join(dir, e.Name()), err)
		}
		h.jobs = append(h.jobs, j)
	}
	slices.SortFunc(h.jobs, func(a, b Job) int { return int(a.Since - b.Since) })
	return h, nil
}

// vouch checks that a job was signed by this peer when it was taken. One that was held by version
// 0.1, which signed nothing, is this peer's own, and signed now.
func (h *Store) vouch(j *Job) error {
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
func (h *Store) sign(j *Job) error {
	q, err := h.by.Seal(calls.Call{Submit: &j.Job})
	if err != nil {
		return err
	}
	j.Signed = &q
	return h.write(*j)
}

func (h *Store) file(id taskstate.JobID) string {
	return filepath.Join(h.dir, string(id)+heldSuffix)
}

// Put makes a job durable here. One that is here already – it was submitted again, because its
// answer was lost – is ErrHere and stays as it is.
func (h *Store) Put(j taskstate.Job, now int64) error {
	h.files.Lock()
	defer h.files.Unlock()
	if err := h.taken(j); err != nil {
		return err
	}
	if len(h.all()) >= most {
		return ErrFull
	}
	rec := Job{Since: now, Job: j}
	keep := h.write
	if h.by != nil {
		keep = func(Job) error { return h.sign(&rec) }
	}
	if err := keep(rec); err != nil {
		return err
	}
	h.set(append(slices.Clone(h.all()), rec))
	return nil
}

// taken says what is here under a job's id.
func (h *Store) taken(j taskstate.Job) error {
	all := h.all()
	i := slices.IndexFunc(all, func(x Job) bool { return x.Job.ID == j.ID })
	if i < 0 {
		return nil
	}
	here := all[i]
	j.Order, here.Job.Order = nil, nil // signed anew whenever it is submitted
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
	return ErrHere
}

func (h *Store) write(rec Job) error {
	b, err := wire.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	return atomicfile.Write(h.file(rec.Job.ID), b)
}

// Withdraw marks a held job as cancelled, on disk. It tells whether it was here and not withdrawn
// before.
func (h *Store) Withdraw(id taskstate.JobID, why string) (bool, error) {
	h.files.Lock()
	defer h.files.Unlock()
	jobs := slices.Clone(h.all())
	i := slices.IndexFunc(jobs, func(j Job) bool { return j.Job.ID == id && j.Withdrawn == "" })
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

// Drop forgets a job that was accepted, or one that was withdrawn and has not come to the ledger:
// whichever is said, and not the other. It tells whether it was here.
func (h *Store) Drop(id taskstate.JobID, withdrawn bool) (bool, error) {
	h.files.Lock()
	defer h.files.Unlock()
	jobs := slices.Clone(h.all())
	i := slices.IndexFunc(jobs, func(j Job) bool { return j.Job.ID == id && (j.Withdrawn != "") == withdrawn })
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
func (h *Store) all() []Job {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.jobs
}

func (h *Store) set(jobs []Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.jobs = jobs
}

// List is the jobs that wait for a coordinator, oldest first.
func (h *Store) List() []Job { return h.some(false) }

// Has tells whether a job is held here.
func (h *Store) Has(id taskstate.JobID) bool {
	return slices.ContainsFunc(h.List(), func(j Job) bool { return j.Job.ID == id })
}

// Withdrawals is the jobs that were cancelled while they waited, and may have gone out all the
// same.
func (h *Store) Withdrawals() []Job { return h.some(true) }

func (h *Store) some(withdrawn bool) []Job {
	return slices.DeleteFunc(slices.Clone(h.all()), func(j Job) bool { return (j.Withdrawn != "") != withdrawn })
}
