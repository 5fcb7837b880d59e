package node

import (
	"encoding/binary"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// A coordinator in bad hands, against what submitters signed.

// refusals are the lines of the peer's audit log about orders of a job that it refused.
func (l *living) refusals(job string) (out []string) {
	text, _ := os.ReadFile(l.folder.path("audit.log"))
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, `"order-refused"`) && strings.Contains(line, job) {
			out = append(out, line)
		}
	}
	return out
}

// Attack (c), of jobs: a voter, even the one that coordinates, submits or changes a job in an
// admin's name, or does again what that admin asked for once. It is a no-op on every follower.
func TestACoordinatorForgesNoJobOfAnAdmin(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	liar, admin := all[0], all[1]
	order := func(of *living, j taskstate.Job, old *taskstate.Order) taskstate.Job {
		j.Submitter = admin.self
		if err := of.line.Signer().Order(&j, old); err != nil {
			t.Fatal(err)
		}
		return j
	}
	inAdminsName := func(j taskstate.Job, old *taskstate.Order) taskstate.Job {
		j = order(liar, j, old)
		j.Order.By = admin.self
		return j
	}
	fresh := func(name string) taskstate.Job {
		j := noopJob(name, 1, 600_000)
		j.ID = taskstate.NewJobID()
		return j
	}
	service := noopJob("service", 1, 600_000)
	service.Type, service.Restart = taskstate.ServiceJob, &taskstate.Restart{Condition: taskstate.RestartAny}
	id := admin.submit(service)
	if _, err := admin.Backend().Scale(timed(t), id, api.Scale{Count: 2}); err != nil {
		t.Fatal(err)
	}
	nightly := noopJob("nightly", 1, 0)
	nightly.Schedule = &taskstate.Schedule{Cron: "0 3 1 1 *"}
	schedule := admin.submit(nightly)
	applied := admin.replica.Applied()
	eventually(t, "the coordinator has them", func() (bool, string) { return liar.replica.Applied() >= applied, "" })
	spec := func(id string) (j taskstate.Job) {
		liar.replica.Read(func(s *ledger.State) {
			r, _ := s.Job(taskstate.JobID(id))
			j = *r.Job()
		})
		return j
	}
	now, planned := spec(id), spec(schedule)
	if now.Count != 2 || now.Order == nil || now.Order.By != admin.self {
		t.Fatalf("%+v", now)
	}
	changed := order(admin, fresh("changed"), nil)
	changed.Count = 100
	elsewhere := fresh("elsewhere")
	elsewhere.Submitter = admin.self
	if err := taskstate.SignOrder(&elsewhere, "another-cluster", admin.self, admin.ledgerTime(), nil, admin.host.Sign); err != nil {
		t.Fatal(err)
	}
	late := fresh("late")
	late.Submitter = admin.self
	if err := taskstate.SignOrder(&late, admin.roster.Cluster(), admin.self, 1000, nil, admin.host.Sign); err != nil {
		t.Fatal(err)
	}
	again := now
	again.ID = taskstate.NewJobID()
	again.Name = "again"
	back := now
	back.Count = 1 // as it was before it was scaled, with the order of now
	wider := inAdminsName(now, now.Order)
	wider.Count = 50
	byHand := planned.RunAt(liar.ledgerTime())
	byHand.ID = taskstate.NewJobID()
	unsigned := fresh("unsigned")
	var last uint64
	for what, c := range map[string]struct {
		cmd  ledger.Command
		code ledger.Code
	}{
		"a job in another's name":           {ledger.Command{Submit: &ledger.Submit{Job: inAdminsName(fresh("forged"), nil)}}, ledger.CodeUnsigned},
		"a job that nobody signed":          {ledger.Command{Submit: &ledger.Submit{Job: unsigned}}, ledger.CodeUnsigned},
		"a job that was changed":            {ledger.Command{Submit: &ledger.Submit{Job: changed}}, ledger.CodeUnsigned},
		"a job of another cluster":          {ledger.Command{Submit: &ledger.Submit{Job: elsewhere}}, ledger.CodeUnsigned},
		"a job of long ago":                 {ledger.Command{Submit: &ledger.Submit{Job: late}}, ledger.CodeLate},
		"a job again, under another id":     {ledger.Command{Submit: &ledger.Submit{Job: again}}, ledger.CodeUnsigned},
		"an update in another's name":       {ledger.Command{Update: &ledger.Update{Job: wider}}, ledger.CodeUnsigned},
		"an update with the order of now":   {ledger.Command{Update: &ledger.Update{Job: back}}, ledger.CodeConflict},
		"a run of a schedule, its id drawn": {ledger.Command{Submit: &ledger.Submit{Job: byHand}}, ledger.CodeUnsigned},
	} {
		index, results, err := liar.decides(c.cmd)
		if err != nil || results[0].Refused != c.code {
			t.Errorf("%s: %+v, %v; want it refused: %s", what, results, err, c.code)
		}
		last = max(last, index)
	}
	for _, l := range all {
		eventually(t, l.name+" has all of it", func() (bool, string) { return l.replica.Applied() >= last, "" })
		l.replica.Read(func(s *ledger.State) {
			j, _ := s.Job(taskstate.JobID(id))
			if n := s.JobCount(); n != 2 || j.Job().Count != 2 {
				t.Errorf("%s has %d jobs, and the service runs %d times", l.name, n, j.Job().Count)
			}
		})
	}
}

// A coordinator decides that a job runs where its submitter did not want it. The worker holds what
// was signed against itself.
func TestAJobRunsOnlyWhereItsSignedConstraintsHoldWhicheverPeerCoordinates(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	liar, worker, admin := all[0], all[1], all[2]
	if _, err := admin.Backend().SetLabels(timed(t), worker.self, api.Labels{Set: map[string]string{"lab": "north"}}); err != nil {
		t.Fatal(err)
	}
	pinned := func(name, where string) string {
		j := noopJob(name, 1, 0)
		j.Constraints = []string{where, "peer.label.nowhere == x"} // honest placement leaves it alone
		if where == "" {
			j.Constraints = []string{"peer.id == " + worker.self, "peer.name == two", "peer.label.lab == north", "peer.addr != 203.0.113.0/24"}
		}
		return admin.submit(j)
	}
	for name, where := range map[string]string{
		"id": "peer.id == " + admin.self, "not-this": "peer.id != " + worker.self, "name": "peer.name == three", "label": "peer.label.lab == south", "os": "peer.os == plan9",
	} {
		id := pinned(name, where)
		if _, r, err := liar.decides(ledger.Command{Assign: &ledger.Assign{
			Job: taskstate.JobID(id), Peer: worker.self, Incarnation: worker.worker.Incarnation(), Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}},
		}}); err != nil || r[0].Refused != ledger.CodeNone {
			t.Fatalf("the liar could not give it the task, so nothing is shown: %v, %v", r, err)
		}
		eventually(t, where+" is kept", func() (bool, string) {
			lines := worker.refusals(id)
			return len(lines) == 1 && strings.Contains(lines[0], "its constraint peer."), strings.Join(lines, "")
		})
	}
	if last, _ := worker.outcome(pinned("here", "")); last.State != "complete" {
		t.Errorf("where all of them hold it is %+v", last)
	}
}

// lies is what a coordinator adds, once, to what it gives a worker next. Nil: it is honest.
type lies struct {
	atomic.Pointer[func(*session.Assignments)]
}

// sessions stands before what serves workers, as Machine.Sessions.
func (l *lies) sessions(serve func(string, net.Conn)) func(string, net.Conn) {
	return func(peer string, c net.Conn) { serve(peer, lying{c, l}) }
}

// lying is a coordinator's session with a worker.
type lying struct {
	net.Conn
	*lies
}

// Write has whole frames, one or several that were queued.
func (c lying) Write(p []byte) (int, error) {
	var said []byte
	for rest := p; len(rest) > 0; {
		end := len(rest)
		if len(rest) >= 4 {
			end = min(end, 4+int(binary.BigEndian.Uint32(rest)))
		}
		said = append(said, c.frame(rest[:end])...)
		rest = rest[end:]
	}
	if _, err := c.Conn.Write(said); err != nil {
		return 0, err
	}
	return len(p), nil
}

// frame is one as it is sent instead.
func (c lying) frame(p []byte) []byte {
	var d session.Down
	if len(p) < 4 || wire.Unmarshal(p[4:], &d) != nil || d.Assignments == nil || d.Assignments.Complete || len(d.Assignments.Grants) == 0 {
		return p
	}
	more := c.Swap(nil)
	if more == nil {
		return p
	}
	(*more)(d.Assignments)
	b, err := wire.Marshal(d)
	if err != nil {
		return p // the test misses what it waits for
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

// A coordinator has nothing decided, and only tells a worker that it has: an attempt, a run of a
// schedule and a slot that nobody asks for, of what somebody signed. The worker holds that against
// its own copy of the ledger.
func TestACoordinatorBeginsNothingThatTheLedgerDoesNotSay(t *testing.T) {
	t.Parallel()
	var told lies
	liar := alive(t, Config{Name: "one", Machine: Machine{Sessions: told.sessions}})
	worker := alive(t, Config{Name: "two", Join: liar.ticket(api.TicketRequest{Expires: 600}).Ticket})
	worker.sees("one", "two")
	there := func(j taskstate.Job) taskstate.Job {
		j.Constraints = []string{"peer.name == two"}
		return j
	}
	once := noopJob("once", 1, 0)
	once.Unreachable = taskstate.Unreachable{Wait: true}
	service := there(noopJob("service", 1, 600_000*time.Millisecond))
	service.Type, service.Restart = taskstate.ServiceJob, &taskstate.Restart{Condition: taskstate.RestartAny}
	planned := there(noopJob("planned", 1, 0))
	planned.Schedule = &taskstate.Schedule{Cron: "0 3 1 1 *"}
	finished, goes, yearly := worker.submit(there(once)), worker.submit(service), worker.submit(planned)
	worker.outcome(finished)
	spec := func(id string) (j taskstate.Job) {
		worker.replica.Read(func(s *ledger.State) {
			r, _ := s.Job(taskstate.JobID(id))
			j = *r.Job()
		})
		return j
	}
	again, more, plan := spec(finished), spec(goes), spec(yearly)
	passed := plan.RunAt(time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC).UnixMilli())
	coming := plan.RunAt(time.Date(2199, 1, 1, 3, 0, 0, 0, time.UTC).UnixMilli())
	tell := func(a *session.Assignments) {
		index := a.Grants[0].Index
		give := func(j taskstate.Job, slot, attempt int) {
			a.Jobs = append(a.Jobs, j)
			a.Grants = append(a.Grants, session.Grant{Job: j.ID, Version: j.Version, Index: index, Slots: []ledger.Slots{{First: slot, N: 1, Attempt: attempt}}})
		}
		give(again, 1, 2)
		give(more, 7, 1)
		give(passed, 1, 1)
		give(coming, 1, 1)
	}
	told.Store(&tell)
	worker.outcome(worker.submit(there(noopJob("honest", 1, 0))))
	for what, id := range map[string]string{
		"a second attempt of what is over":       finished,
		"a slot that the service has not":        goes,
		"a run of a moment that has passed":      string(passed.ID),
		"a run of a moment that has yet to come": string(coming.ID),
	} {
		eventually(t, what+" is refused", func() (bool, string) {
			lines := worker.refusals(id)
			return len(lines) == 1 && strings.Contains(lines[0], "copy of the ledger does not bear out"), strings.Join(lines, "")
		})
	}
}
