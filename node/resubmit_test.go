package node

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// withID gives a submission an id of its own, and something of each kind to compare.
func withID(j taskstate.Job) api.Submit {
	j.ID = taskstate.NewJobID()
	j.Run.Process.Env = map[string]string{"A": "b"}
	return api.Submit{Job: j}
}

func (l *living) resubmits(t *testing.T, what string, s api.Submit) {
	t.Helper()
	got, err := l.Submit(timed(t), s)
	if err != nil || got.Held || got.ID != string(s.Job.ID) {
		t.Errorf("%s at %s: %+v, %v", what, l.name, got, err)
	}
}

func TestTheSameSubmissionThroughAnotherPeerIsTheSameJob(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one, two := all[0], all[1]
	job := withID(shellJob("items", 2, "echo {}"))
	job.Job.Each = []string{"x", "y"}
	service := withID(shellJob("service", 1, "sleep 1000"))
	service.Job.Type = taskstate.ServiceJob
	for what, s := range map[string]api.Submit{"a job": job, "a service": service} {
		two.submit(s.Job)
		one.resubmits(t, what, s)
		two.resubmits(t, what, s)
		other := s
		other.Job.Run.Process = &taskstate.Process{Command: []string{"true"}}
		_, err := one.Submit(timed(t), other)
		wants(t, err, api.Conflict, "another job has the id", string(s.Job.ID))
	}
	if _, err := two.Scale(timed(t), string(service.Job.ID), api.Scale{Count: 0}); err != nil {
		t.Fatal(err)
	}
	one.resubmits(t, "a service that was changed meanwhile", service)
	read := withID(reading("reads", "cat"))
	two.submit(read.Job)
	_, err := one.Submit(timed(t), read)
	wants(t, err, api.Conflict, "takes its stdin", two.self)
	two.resubmits(t, "a job that reads", read)
	one.replica.Read(func(s *ledger.State) {
		if n := s.JobCount(); n != 3 {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestAPeerThatMayNotReadAJobDoesNotLearnThatItSubmittedTheSame(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	submitter, reader := newPuppet(t), newPuppet(t)
	l.admit(submitter, admission.Submit)
	l.admit(reader, admission.Submit, admission.Read)
	c := submitCall(l.self)
	l.submit(*c.Submit)
	c.From, c.Submit.Submitter = submitter.Self(), submitter.Self()
	wants(t, submitter.asks(l.self, c).Error, api.Conflict, "another job has the id")
	c.From, c.Submit.Submitter = reader.Self(), reader.Self()
	if r := reader.asks(l.self, c); r.Error != nil || r.Lost {
		t.Errorf("one that may read it: %+v", r)
	}
}

func TestTheSameSubmissionWithSecretsIsTheSameJobAtItsPeer(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one, two := all[0], all[1]
	s := withID(shellJob("secret", 1, "true"))
	s.Secrets = map[string][]byte{"PW": []byte("hunter2")}
	two.resubmits(t, "a first time", s)
	two.resubmits(t, "again", s)
	_, err := one.Submit(timed(t), s)
	wants(t, err, api.Conflict, "only the peer "+two.self)
	s.Secrets = map[string][]byte{"PW": []byte("hunter3")}
	_, err = two.Submit(timed(t), s)
	wants(t, err, api.Conflict, "other secrets")

	one.crash()
	held := withID(shellJob("held", 1, "true"))
	held.Secrets = map[string][]byte{"PW": []byte("hunter2")}
	for range 2 {
		if got, err := two.Submit(timed(t), held); err != nil || !got.Held {
			t.Fatalf("held: %+v, %v", got, err)
		}
	}
	if n := len(two.held.List()); n != 1 {
		t.Errorf("%d jobs are held", n)
	}
}
