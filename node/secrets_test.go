package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/secrets"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/seal"
)

// secretJob is a job with a secret that runs on one peer, or on any.
func secretJob(name, on string) api.Submit {
	j := shellJob(name, 1, "cat $COVEY_SECRETS/PW")
	if on != "" {
		j.Constraints = []string{"peer.id == " + on}
	}
	return api.Submit{Job: j, Secrets: map[string][]byte{"PW": []byte("hunter2")}}
}

// jobOf is a job as this peer knows it.
func (l *living) jobOf(id string) (job *taskstate.Job) {
	eventually(l.t, "the job is known at "+l.name, func() (bool, string) {
		l.replica.Read(func(s *ledger.State) {
			if r, ok := s.Job(taskstate.JobID(id)); ok {
				job = r.Job()
			}
		})
		return job != nil, ""
	})
	return job
}

// Whoever coordinates may let a key of its own in as a worker, and may give it tasks: it has no
// secrets for that, neither when they are sealed nor when it asks for them later. Attack (j), and
// (m) for what is sealed: a constraint on peer.id is kept by the peer that seals.
func TestACoordinatorHasNoSecretsForAWorkerOfItsOwn(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	liar, two := all[0], all[1]
	p := newPuppet(t)
	if _, err := two.Set(timed(t), api.Settings{RequireOrders: "off"}); err != nil { // a cluster of before
		t.Fatal(err)
	}
	e, err := admission.Entry{Cluster: liar.roster.Cluster(), Peer: p.Self(), Name: "own key", Roles: admission.AllRoles(), At: now()}.Signed(liar.host)
	if err != nil {
		t.Fatal(err)
	}
	if _, r, err := liar.decides(
		ledger.Command{Admit: &ledger.Admit{Entry: e, Dialect: wire.Dialect}}, ledger.Command{Register: &ledger.Register{Peer: p.Self(), Incarnation: "i"}},
	); err != nil || r[1].Refused != ledger.CodeNone {
		t.Fatal(r, err)
	}
	// From here on nobody is let in so; this one is in.
	if _, err := two.Set(timed(t), api.Settings{RequireOrders: "on"}); err != nil {
		t.Fatal(err)
	}
	s := secretJob("waits", "")
	s.Job.Count, s.Job.Constraints = 1, []string{"peer.id in (" + p.Self() + ", " + two.self + ")", "peer.label.nobody == x"}
	sub, err := two.client().Submit(timed(t), s)
	if err != nil {
		t.Fatal(err)
	}
	index, r, err := liar.decides(ledger.Command{Assign: &ledger.Assign{
		Job: taskstate.JobID(sub.ID), Peer: p.Self(), Incarnation: "i", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}},
	}})
	if err != nil || r[0].Refused != ledger.CodeNone {
		t.Fatalf("the liar could not give it the task, so nothing is shown: %v, %v", r, err)
	}
	_, err = two.audience.Grants(timed(t), p.Self(), secrets.Request{Task: taskstate.Task(taskstate.JobID(sub.ID), 1, 1), Index: index})
	if told, ok := errors.AsType[*secrets.Error](err); !ok || told.Code != secrets.CodeNot || !strings.Contains(told.Message, "role worker") {
		t.Errorf("a worker that only the coordinator let in: %v", err)
	}
	eventually(t, "those whose tickets a person made, and no others, are taken for workers", func() (bool, string) {
		to := two.audience.Readers(timed(t), &taskstate.Job{})
		want := []string{liar.sealKey.Recipient(), all[2].sealKey.Recipient()}
		slices.Sort(to)
		slices.Sort(want)
		return slices.Equal(to, want), fmt.Sprintf("%v, want %v", to, want)
	})
}

// Sealed are secrets for the peers that may run the job, and for the one that was asked.
func TestSecretsAreSealedToThePeersThatMayRunTheJob(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two, three := all[0], all[1], all[2]
	eventually(t, "all say what is sealed to them", func() (bool, string) {
		return !slices.ContainsFunc(all, func(l *living) bool { m, _ := one.members.View().Get(l.self); return m.Recipient == "" }), ""
	})
	sub, err := one.client().Submit(timed(t), secretJob("job", two.self))
	if err != nil {
		t.Fatal(err)
	}
	job := one.jobOf(sub.ID)
	for l, want := range map[*living]bool{one: true, two: true, three: false} {
		_, _, err := l.sealKey.Open(job.Secrets.Sealed)
		if want && err != nil || !want && !errors.Is(err, seal.ErrNotForMe) {
			t.Errorf("%s: %v; may open it: %t", l.name, err, want)
		}
	}
	if row, _ := one.outcome(sub.ID); row.State != "complete" {
		t.Errorf("%+v", row)
	}

	// What somebody copied from the ledger into a job of his own is of no use.
	stolen := shellJob("stolen", 1, "cat $COVEY_SECRETS/PW")
	stolen.Constraints = []string{"peer.id == " + two.self}
	stolen.Secrets = job.Secrets
	if _, err := three.client().Submit(timed(t), api.Submit{Job: stolen}); err == nil {
		t.Error("sealed bytes were taken from a caller of the API")
	}
	stolen.ID, stolen.Submitter = taskstate.NewJobID(), three.self
	if err := three.line.Signer().Order(&stolen, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := three.line.Decide(timed(t), calls.Call{Submit: &stolen}); err != nil {
		t.Fatal(err)
	}
	row, tasks := one.outcome(string(stolen.ID))
	if row.State == "complete" || !strings.Contains(tasks[1].Message, "secrets were sealed for job") {
		t.Errorf("%+v, %+v", row, tasks)
	}
}
