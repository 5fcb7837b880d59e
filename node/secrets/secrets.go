package secrets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/trust/seal"
)

// Net is how copies travel.
type Net interface {
	limit.Net
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
}

// Config joins the parts.
type Config struct {
	Self    taskstate.PeerID
	Key     *seal.Key
	Cluster func() string
	Net     Net
	// Readers are the recipients of the other peers that may run a job, as far as is known, those
	// that are here first.
	Readers func(context.Context, *taskstate.Job) []string
	// Grants tells whether the ledger gives a task to a peer that may run it, and the task's job;
	// an *Error is told to that peer.
	Grants func(ctx context.Context, peer taskstate.PeerID, q Request) (*taskstate.Job, error)
	// Given is a task of the job that the ledger gives to this peer, and where it says so.
	Given func(taskstate.JobID) (task taskstate.TaskID, index uint64, ok bool)
	Over  func(taskstate.JobID) (over, known bool) // as far as this peer can tell
	Name  func(taskstate.PeerID) string
	Tell  func(Report)                                  // must not block
	Next  func(*taskstate.Job)                          // stages the rest of a job whose secrets are here
	Note  func(l taskstate.Launch, by taskstate.PeerID) // hears of every task whose secrets are opened
	Log   *slog.Logger
}

// Report is how far the secrets of a job are here.
type Report struct {
	Job     taskstate.JobID
	Version int
	Here    bool
	Message string // what they wait for
}

// maxCopies bounds the copies that are remembered; one that was forgotten is asked for again.
const maxCopies = 256

// Secrets seals, opens and brings secrets. Its methods may be called by anybody.
type Secrets struct {
	cfg  Config
	wake wake.Signal

	mu     sync.Mutex
	todo   []*taskstate.Job
	copies map[string][]byte // sealed to this peer, by digest
}

// New makes it. Run does what Stage asks for.
func New(cfg Config) *Secrets {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Secrets{cfg: cfg, wake: wake.New(), copies: map[string][]byte{}}
}

// Seal seals the values of a job that has its id: to the peers that may run it, and to this one,
// which seals them for others later. Without values there is nothing.
func (s *Secrets) Seal(ctx context.Context, job *taskstate.Job, values map[string][]byte) (*taskstate.Secrets, error) {
	if len(values) == 0 {
		return nil, nil
	}
	if err := Check(values); err != nil {
		return nil, err
	}
	return s.seal(ctx, job, seal.NewBundle(s.cfg.Cluster(), string(job.SealedFor()), s.cfg.Self, values))
}

func (s *Secrets) seal(ctx context.Context, job *taskstate.Job, b seal.Bundle) (*taskstate.Secrets, error) {
	to := []string{s.cfg.Key.Recipient()}
	for _, r := range s.cfg.Readers(ctx, job) {
		if len(to) < seal.MaxRecipients && !slices.Contains(to, r) && seal.CheckRecipient(r) == nil {
			to = append(to, r)
		}
	}
	sealed, digest, err := seal.Seal(b, to)
	if err != nil {
		return nil, err
	}
	return &taskstate.Secrets{Names: slices.Sorted(maps.Keys(b.Values)), By: s.cfg.Self, Digest: digest, Sealed: sealed}, nil
}

// Check tells what is wrong with values that are to be kept secret.
func Check(values map[string][]byte) error {
	if len(values) > taskstate.MaxSecrets {
		return fmt.Errorf("%d secrets, at most %d are allowed; put several values into one file", len(values), taskstate.MaxSecrets)
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !jobfile.SecretName(name) {
			return fmt.Errorf("secret %.80q: its name is that of the file in which tasks find it: letters, digits and _, not beginning with a digit, at most %d of them", name, taskstate.MaxSecretName)
		}
		if len(values[name]) == 0 {
			return fmt.Errorf("secret %s: it is empty", name)
		}
		total += len(values[name])
	}
	if total > taskstate.MaxSecretBytes {
		return fmt.Errorf("the secrets have %d bytes together, at most %d are allowed; encrypt the file with a key of its own, bring the file with --in and only the key as a secret", total, taskstate.MaxSecretBytes)
	}
	return nil
}

// Update is what an update of a job has as secrets: those of the job itself if the values are the
// same, so that nothing changes and no task is restarted.
func (s *Secrets) Update(ctx context.Context, old *taskstate.Job, values map[string][]byte) (*taskstate.Secrets, error) {
	if old.Secrets != nil && len(values) > 0 {
		if b, err := s.open(old); err == nil && maps.EqualFunc(b.Values, values, bytes.Equal) {
			return s.own(ctx, old, b)
		}
	}
	return s.Seal(ctx, old, values)
}

// Own gives the secrets of a job that this peer orders: if another peer answers for them they are
// sealed again, in this one's name. That needs that this peer can open them.
func (s *Secrets) Own(ctx context.Context, job *taskstate.Job) (*taskstate.Secrets, error) {
	if job.Secrets == nil || job.Secrets.By == s.cfg.Self {
		return job.Secrets, nil
	}
	b, err := s.open(job)
	if err != nil {
		return nil, fmt.Errorf("the secrets of job %s were given to %s and cannot be opened here (%w): type the same there, or submit the file with its secrets here", job.ID, s.cfg.Name(job.Secrets.By), err)
	}
	return s.own(ctx, job, b)
}

func (s *Secrets) own(ctx context.Context, job *taskstate.Job, b seal.Bundle) (*taskstate.Secrets, error) {
	if job.Secrets.By == s.cfg.Self {
		return job.Secrets, nil
	}
	b.By = s.cfg.Self
	return s.seal(ctx, job, b)
}

// open opens the secrets of a job, and holds what is in them against the job: bytes that were
// sealed for one job are of no use in another.
func (s *Secrets) open(job *taskstate.Job) (seal.Bundle, error) {
	b, digest, err := s.cfg.Key.Open(job.Secrets.Sealed)
	if errors.Is(err, seal.ErrNotForMe) {
		if copied := s.copyOf(job); copied != nil {
			b, digest, err = s.cfg.Key.Open(copied)
		}
	}
	if err != nil {
		return seal.Bundle{}, err
	}
	return b, fits(job, s.cfg.Cluster(), b, digest)
}

// fits tells why a bundle is not for a job.
func fits(job *taskstate.Job, cluster string, b seal.Bundle, digest []byte) error {
	said := job.Secrets
	switch {
	case !bytes.Equal(digest, said.Digest):
		return errors.New("its secrets are not those it was submitted with")
	case b.Cluster != cluster:
		return errors.New("its secrets were sealed in another cluster")
	case b.Job != string(job.SealedFor()):
		return fmt.Errorf("its secrets were sealed for job %.40q", b.Job)
	case b.By != said.By, job.Order != nil && job.Order.By != said.By:
		return errors.New("its secrets were given by another peer than the one that asks for it")
	case !slices.Equal(said.Names, slices.Sorted(maps.Keys(b.Values))):
		return errors.New("its secrets have other names than it says")
	}
	return nil
}

func (s *Secrets) copyOf(job *taskstate.Job) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copies[string(job.Secrets.Digest)]
}

func (s *Secrets) remember(job *taskstate.Job, sealed []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for d := range s.copies { // any: it is asked for again
		if len(s.copies) < maxCopies {
			break
		}
		delete(s.copies, d)
	}
	s.copies[string(job.Secrets.Digest)] = sealed
}

// valuesWithin is how long a task that is being prepared waits for a copy that was forgotten.
const valuesWithin = 30 * time.Second

// Values are the secrets of a task that is about to start here.
func (s *Secrets) Values(ctx context.Context, l taskstate.Launch) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, valuesWithin)
	defer cancel()
	b, err := s.open(l.Job)
	if errors.Is(err, seal.ErrNotForMe) {
		if err = s.ask(ctx, l.Job, l.Task, l.Index); err == nil {
			b, err = s.open(l.Job)
		}
	}
	if err != nil {
		return nil, err
	}
	if s.cfg.Note != nil {
		s.cfg.Note(l, b.By)
	}
	return b.Values, nil
}
