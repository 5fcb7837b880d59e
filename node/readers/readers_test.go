package readers_test

import (
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/readers"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

const (
	admin  = "admin"
	reader = "reader"
	submit = "submitter"
	worker = "worker"
	guest  = "guest"
)

// world is a replica and those who read it.
type world struct {
	t *testing.T
	*readers.Readers
	replica *ledger.Replica
	n       uint64
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, replica: ledger.NewReplica()}
	w.Readers = readers.New(readers.Config{Self: worker, Replica: w.replica, Roles: func(p taskstate.PeerID) []admission.Role {
		return map[string][]admission.Role{admin: {admission.Admin}, reader: {admission.Read}}[p]
	}})
	w.replica.Observe(w.Hear)
	member := admission.Entry{Cluster: "simsimsimsimsims", Peer: worker, Name: worker, Roles: admission.AllRoles(), By: worker}
	w.do(ledger.Command{Found: &ledger.Found{Cluster: member.Cluster, Generation: 1, Founder: member}})
	w.do(ledger.Command{Register: &ledger.Register{Peer: worker, Incarnation: "w1"}})
	return w
}

func (w *world) do(c ledger.Command) {
	w.t.Helper()
	w.n++
	for _, r := range w.replica.Apply(ledger.Entry{Index: w.n, Epoch: taskstate.At(1, 1), Stamp: int64(w.n), By: worker, Commands: []ledger.Command{c}}) {
		if r.Refused != ledger.CodeNone {
			w.t.Fatalf("%+v is refused: %s", c, r.Refused)
		}
	}
}

func (w *world) job(id taskstate.JobID, by string, inputs ...piece.Root) {
	job := taskstate.Job{
		ID: id, Name: string(id), Type: taskstate.BatchJob, Count: 1, Submitter: by, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Outputs: &taskstate.Outputs{Globs: []string{"out"}},
	}
	for _, r := range inputs {
		job.Inputs = append(job.Inputs, taskstate.Input{Name: "in", Ref: tree.Ref{Root: r}.String()})
	}
	w.do(ledger.Command{Submit: &ledger.Submit{Job: job}})
}

func (w *world) assign(id taskstate.JobID) {
	w.do(ledger.Command{Assign: &ledger.Assign{Job: id, Peer: worker, Incarnation: "w1", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}}})
}

func (w *world) end(id taskstate.JobID, root, logs piece.Root, besides ...taskstate.PeerID) {
	saved := &taskstate.Saved{Root: root, Logs: logs, Keepers: append([]taskstate.PeerID{worker}, besides...), Keep: 1}
	st := taskstate.Status{Task: taskstate.Task(id, 1, 1), Seq: 3, State: taskstate.Complete, Saved: saved}
	w.do(ledger.Command{Settle: &ledger.Settle{Peer: worker, Incarnation: "w1", Statuses: []taskstate.Status{st}}})
}

func (w *world) blob(what string, root piece.Root, want ...string) {
	w.t.Helper()
	for _, p := range []string{admin, reader, submit, worker, guest} {
		if got := w.Blob(p, root); got != slices.Contains(want, p) {
			w.t.Errorf("%s: %s may have it: %v", what, p, got)
		}
	}
}

func name(s string) piece.Root { return piece.Sum([]byte(s)) }

// Attack (i): a worker that is nobody's friend asks for what tasks of others left.
func TestWhatTasksLeftIsForItsSubmitterReadersAndKeepers(t *testing.T) {
	w := newWorld(t)
	everybody := []string{admin, reader, submit, worker, guest}
	w.blob("before any job names it", name("out"), everybody...)
	w.job("j", submit)
	w.assign("j")
	w.end("j", name("out"), name("logs"))
	for _, what := range []string{"out", "logs"} {
		w.blob(what, name(what), admin, reader, submit, worker)
	}
	w.blob("what nobody names", name("else"), everybody...)

	w.job("same", guest)
	w.assign("same")
	w.end("same", name("out"), name("other logs"))
	w.blob("what a task of the guest left, too", name("out"), everybody...)
	w.blob("and what only that left", name("other logs"), admin, reader, worker, guest)
}

func TestWhoKeepsWhatManyTasksOfOneSubmitterLeftMayHaveItForAnyOfThem(t *testing.T) {
	w := newWorld(t)
	for i, id := range []taskstate.JobID{"first", "second", "third"} {
		w.job(id, submit)
		w.assign(id)
		w.end(id, name("out"), name("logs"), [][]taskstate.PeerID{{guest}, {}, {}}[i]...)
		w.blob(string(id), name("out"), admin, reader, submit, worker, guest)
	}
}

func TestInputsAreForWhoRunsATaskOfTheJobAsLongAsItDoes(t *testing.T) {
	w := newWorld(t)
	w.job("j", submit, name("in"))
	w.blob("not given to anybody", name("in"), admin, reader, submit)
	w.assign("j")
	w.blob("given to the worker", name("in"), admin, reader, submit, worker)
	w.end("j", name("out"), piece.Root{})
	w.blob("ended", name("in"), admin, reader, submit)
}

func TestOutputIsForTheSubmitterAndReaders(t *testing.T) {
	w := newWorld(t)
	w.job("j", submit)
	for _, p := range []string{admin, reader, submit, worker, guest} {
		if may, known := w.Job(p, "j"); !known || may != (p == admin || p == reader || p == submit) {
			t.Errorf("%s: may %v, known %v", p, may, known)
		}
	}
	if may, known := w.Job(guest, "unknown"); may || known {
		t.Error("of a job that is not known")
	}
}

// A copy of the ledger that came whole is asked as one that was followed.
func TestTheIndexIsMadeAnewWhenTheLedgerIs(t *testing.T) {
	w := newWorld(t)
	w.job("j", submit, name("in"))
	w.assign("j")
	w.end("j", name("out"), name("logs"))
	w.blob("followed", name("out"), admin, reader, submit, worker)
	other := newWorld(t)
	w.replica.Read(func(s *ledger.State) { other.replica.Reset(s) })
	other.blob("from a snapshot", name("out"), admin, reader, submit, worker)
	other.blob("from a snapshot, what it needs", name("in"), admin, reader, submit)
}
