package view

import (
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// unread is a table that fails a test whose goroutine asks it while it reads the ledger: then no
// entry can be applied until it is done, and the table asks the ledger under its own lock.
type unread struct {
	*taskstate.Table
	t       *testing.T
	replica *ledger.Replica
	asked   *int
}

func (u unread) check() {
	u.t.Helper()
	*u.asked++
	free := make(chan struct{})
	go func() {
		u.replica.Verify(nil) // waits, like an entry, until nobody reads
		close(free)
	}()
	select {
	case <-free:
	case <-time.After(10 * time.Second):
		u.t.Fatal("the table is asked while the ledger is read")
	}
}

func (u unread) Get(id taskstate.TaskID) (taskstate.Status, bool) {
	u.check()
	return u.Table.Get(id)
}

func (u unread) OfJob(id taskstate.JobID) map[taskstate.TaskID]taskstate.Status {
	u.check()
	return u.Table.OfJob(id)
}

func (u unread) All() iter.Seq[taskstate.Status] {
	u.check()
	return u.Table.All()
}

func TestWhatWasHeardOfTasksIsNotAskedForWhileTheLedgerIsRead(t *testing.T) {
	for name, ask := range map[string]func(*scripted) error{
		"job": func(s *scripted) error {
			x, err := s.Job(t.Context(), "job")
			if err == nil && (len(x.Job.Unreachable) != 1 || x.Job.Unreachable[0].Tasks != 5 || x.Job.Unreachable[0].Running != 1 || x.Job.Pace == nil) {
				t.Errorf("%+v", x.Job)
			}
			return err
		},
		"jobs":  func(s *scripted) error { _, err := s.Jobs(t.Context()); return err },
		"tasks": func(s *scripted) error { _, err := s.Tasks(t.Context(), "job"); return err },
		"some": func(s *scripted) error {
			_, err := s.Shapes.SomeTasks(t.Context(), "job", api.TaskQuery{States: []string{"running"}})
			return err
		},
		"grid":     func(s *scripted) error { _, err := s.Shapes.Grid(t.Context(), "job", 4000); return err },
		"timeline": func(s *scripted) error { _, err := s.Shapes.Timeline(t.Context(), "job", 100); return err },
		"failures": func(s *scripted) error { _, err := s.Shapes.Failures(t.Context(), "job"); return err },
		"explain":  func(s *scripted) error { _, err := s.Explain(t.Context(), "job"); return err },
		"follow": func(s *scripted) error {
			var got []api.Progress
			stop := errors.New("enough")
			err := s.Follow(t.Context(), "job", true, func(p api.Progress) error { got = append(got, p); return stop })
			if len(got) == 0 || err != stop {
				t.Errorf("%+v, %v", got, err)
			}
			return nil
		},
	} {
		s := newScripted(t)
		a := s.newAuthor()
		s.take(someJob, "job", s.self, 10)
		index := s.assign(someJob, a, 1, 6)
		s.report(a, 1, running(1, index))
		s.settle(a, complete(2, index))
		s.cfg.Members = func() *membership.View {
			return &membership.View{Members: []membership.Member{{ID: a.id, Verdict: membership.Dead, Since: time.Now()}}}
		}
		asked := 0
		s.cfg.Table = unread{s.table, t, s.cfg.Replica.(*ledger.Replica), &asked}
		if err := ask(s); err != nil || asked == 0 {
			t.Errorf("%s: %v; the table was asked %d times", name, err, asked)
		}
	}
}
