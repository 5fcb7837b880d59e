package keep

import (
	"context"
	"net"

	"github.com/coveyproject/covey/taskstate"
)

// Bounds of one request about what tasks printed.
const (
	MaxPrinted  = 512      // tasks
	InlineBytes = 64 << 10 // of output that travels with the request; of the rest the keeper reads where it is (package tasklog)
	maxSoleJobs = 20
)

// Printed is what one task of a job printed.
type Printed struct {
	Slot    int    `cbor:"1,keyasint"`
	Attempt int    `cbor:"2,keyasint"`
	Out     int64  `cbor:"3,keyasint,omitempty"` // bytes of its stdout
	Err     int64  `cbor:"4,keyasint,omitempty"` // bytes of its stderr
	Failed  bool   `cbor:"5,keyasint,omitempty"` // the task did not end well: its output counts for more
	Stdout  []byte `cbor:"6,keyasint,omitempty"` // all of it, or nothing
	Stderr  []byte `cbor:"7,keyasint,omitempty"`
}

// Bytes is how much it is.
func (p *Printed) Bytes() int64 { return p.Out + p.Err }

// Inline reports whether the bytes are here. Those of an empty stream always are.
func (p *Printed) Inline() bool {
	return int64(len(p.Stdout)) == p.Out && int64(len(p.Stderr)) == p.Err
}

// Batch is what some tasks of a job printed.
type Batch struct {
	Job   taskstate.JobID
	Tasks []Printed
	Offer bool // the keeper says only what of it there is not
	Flush bool // it is on the keeper's disk before the keeper answers: the peer that asks is about to go
}

// Task is the name of one of its tasks.
func (b *Batch) Task(i int) taskstate.TaskID {
	return taskstate.Task(b.Job, b.Tasks[i].Slot, b.Tasks[i].Attempt)
}

// check refuses a batch that no honest peer sends.
func (b *Batch) check() error {
	if len(b.Tasks) > MaxPrinted {
		return errRequest
	}
	for i := range b.Tasks {
		p := &b.Tasks[i]
		if _, err := b.Task(i).Folder(); err != nil || p.Out < 0 || p.Err < 0 || p.Bytes() < 0 {
			return errRequest
		}
		if len(p.Stdout)+len(p.Stderr) > 0 && !p.Inline() {
			return errRequest
		}
	}
	return nil
}

// Sole is what tasks printed of which a peer has the only copy.
type Sole struct {
	Jobs   []SoleJob `cbor:"1,keyasint,omitempty"` // at most 20
	More   int       `cbor:"2,keyasint,omitempty"` // further jobs
	Unsure bool      `cbor:"3,keyasint,omitempty"` // that is being found out, or changed, at this moment
}

// SoleJob is that of one job.
type SoleJob struct {
	Job   string `cbor:"1,keyasint"`
	Tasks int    `cbor:"2,keyasint"`
	Bytes int64  `cbor:"3,keyasint"`
	Why   string `cbor:"4,keyasint,omitempty"` // none: it is being copied
}

// Tasks is how many tasks there are in the jobs that are named.
func (s Sole) Tasks() (n int) {
	for _, j := range s.Jobs {
		n += j.Tasks
	}
	return n
}

// PrintedKeeper keeps what tasks printed on other peers.
type PrintedKeeper interface {
	// Take keeps what a peer sends, and returns the places of what it does not keep. It calls going
	// while that takes time. A refusal of all is a *Refused.
	Take(ctx context.Context, peer string, b Batch, going func(bytes int64) error) (lacks []int, err error)
	// Sole is what this peer alone has of a job, or of all. leaving: as if it were about to go.
	Sole(ctx context.Context, job taskstate.JobID, leaving bool) (Sole, error)
}

// printed answers a request about what tasks printed.
func (s *Server) printed(ctx context.Context, peer string, c net.Conn, f *request, busy bool, say func(answer) error) {
	a, err := s.answerPrinted(ctx, peer, c, f, busy, func(bytes int64) error { return say(answer{Going: &going{bytes}}) })
	if err != nil {
		s.cfg.Log.Debug("a request about what tasks printed was refused", "peer", peer, "job", f.Job, "err", err)
		a = answer{Refused: s.refusal(err)}
	}
	_ = say(a)
}

func (s *Server) answerPrinted(ctx context.Context, peer string, c net.Conn, f *request, busy bool, going func(bytes int64) error) (a answer, err error) {
	b := Batch{Job: taskstate.JobID(f.Job), Tasks: f.Printed, Offer: f.Offer, Flush: f.Read}
	switch {
	case s.cfg.Printed == nil, !s.cfg.Stores && !f.Sole:
		return a, &Refused{Code: CodeNone}
	case busy:
		return a, &Refused{Code: CodeBusy}
	case b.check() != nil:
		return a, errRequest
	}
	ctx, cancel := s.while(ctx, c)
	defer cancel()
	if f.Sole {
		sole, err := s.cfg.Printed.Sole(ctx, b.Job, f.Read)
		a.Sole = sole.clip()
		return a, err
	}
	a.Kept = true
	a.Lacks, err = s.cfg.Printed.Take(ctx, peer, b, going)
	return a, err
}

// clip is as much as fits into an answer.
func (s Sole) clip() *Sole {
	out := s
	if n := len(out.Jobs) - maxSoleJobs; n > 0 {
		out.Jobs, out.More = out.Jobs[:maxSoleJobs], out.More+n
	}
	for i := range out.Jobs {
		out.Jobs[i].Why = taskstate.ClipText(out.Jobs[i].Why, 200)
	}
	return &out
}

// Send has a peer keep what tasks printed, or with Offer say what of it the peer lacks. It returns
// the places of what is not there.
func Send(ctx context.Context, d Dialer, peer string, b Batch, moved func(bytes int64)) (lacks []int, err error) {
	a, err := exchange(ctx, d, peer, request{Job: string(b.Job), Printed: b.Tasks, Offer: b.Offer, Read: b.Flush}, moved)
	if err == nil && !a.Kept {
		err = ErrHungUp
	}
	return a.Lacks, err
}

// AskSole asks a peer what it alone has of what tasks of a job printed, or of all jobs. leaving:
// the answer is unsure until the peer, which is drained, has handed over what it could.
func AskSole(ctx context.Context, d Dialer, peer string, job taskstate.JobID, leaving bool) (s Sole, err error) {
	a, err := exchange(ctx, d, peer, request{Job: string(job), Sole: true, Read: leaving}, nil)
	switch {
	case err != nil:
		return s, err
	case a.Sole == nil:
		return s, ErrHungUp
	}
	return *a.Sole.clip(), nil
}
