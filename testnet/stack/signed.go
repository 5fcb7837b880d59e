package stack

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// signed is what people have asked for, and what came of it: I19 holds it against what the ledger
// takes and what starts. The zero value is of a life in which nobody has asked for anything.
type signed struct {
	mu    sync.Mutex
	jobs  map[taskstate.JobID][][]byte // as people handed them in, encoded
	taken map[string]bool              // orders and acts that counted
	said  []ledger.Command             // those that did, for who says them again
}

// wants notes that a person asks for a job: whoever is asked signs it.
func (s *signed) wants(j *taskstate.Job) {
	b := asked(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs == nil {
		s.jobs, s.taken = map[taskstate.JobID][][]byte{}, map[string]bool{}
	}
	s.jobs[j.ID] = append(s.jobs[j.ID], b)
}

// has tells whether a person asked for just this job.
func (s *signed) has(j *taskstate.Job) bool {
	b := asked(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.jobs[j.ID] {
		if bytes.Equal(known, b) {
			return true
		}
	}
	return false
}

// asked is a job as a person asks for it, encoded: without what the peer that is asked puts in.
func asked(j *taskstate.Job) []byte {
	plain := *j
	plain.Order, plain.Submitter = nil, ""
	b, err := wire.Marshal(plain)
	if err != nil {
		panic(err) // a job of these lives always encodes
	}
	return b
}

// counts holds a command that the ledger carried out against what people asked for.
func (s *signed) counts(w *world, cmd ledger.Command, r ledger.Result) {
	var key string
	switch {
	case r.Refused != ledger.CodeNone || r.Existed || r.Skipped:
		return
	case cmd.Submit != nil:
		if j := &cmd.Submit.Job; j.Order == nil || !s.has(j) {
			w.fail("I19", "the ledger takes job %s, which nobody asked for: %+v", j.ID, *j)
			return
		}
		key = string(cmd.Submit.Job.Order.Digest())
	case cmd.Act != nil:
		if w.check.clusterID() == "" {
			return // of the founding
		}
		if err := cmd.Act.Verify(w.check.clusterID(), cmd.Asked(), p2p.Verify); err != nil {
			w.fail("I19", "the ledger takes %s, which nobody signed: %v", named(cmd), err)
			return
		}
		key = string(cmd.Act.Sig)
	default:
		return
	}
	s.mu.Lock()
	twice := s.taken[key]
	if s.taken == nil {
		s.taken = map[string]bool{}
	}
	s.taken[key] = true
	if !twice {
		s.said = append(s.said, cmd)
	}
	s.mu.Unlock()
	if twice {
		w.fail("I19", "%s was signed once, and counts twice", named(cmd))
	}
}

// some is what people asked for, so far.
func (s *signed) some() []ledger.Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said[:len(s.said):len(s.said)]
}

// named is a command for people.
func named(c ledger.Command) string {
	switch {
	case c.Submit != nil:
		return fmt.Sprintf("the submission of %s", c.Submit.Job.ID)
	case c.Cancel != nil:
		return fmt.Sprintf("the cancel of %s", c.Cancel.Job)
	}
	return fmt.Sprintf("%+v", c)
}
