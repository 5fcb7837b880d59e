package view

import (
	"testing"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/taskstate"
)

func TestAJobIsShownAsItsLedgerAndItsWorkersHaveIt(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, 10)
	index := s.assign(someJob, a, 1, 6)
	run := running(1, index)
	run.Waited = 500
	s.report(a, 1, run)
	for slot := 2; slot <= 4; slot++ {
		end := complete(slot, index)
		end.Took, end.Waited = int64(slot)*1000, 250
		if slot == 4 {
			end.State, end.Exit, end.Reason, end.Message = taskstate.Failed, 3, taskstate.ReasonExit, "exit code 3"
		}
		s.settle(a, end)
	}
	s.write(ledger.Command{Supersede: &ledger.Supersede{Task: taskstate.Task(someJob, 5, 1), Reason: taskstate.ReasonUnreachable, Again: true}})
	g, err := s.Shapes.Grid(t.Context(), "job", 4000)
	if err != nil || g.Cells != "rccfpqpppp" || g.Each != 1 || g.Counts["pending"] != 5 || g.Counts["queued"] != 1 || g.Legend["q"] != "queued" {
		t.Errorf("%+v, %v", g, err)
	}
	if g, _ := s.Shapes.Grid(t.Context(), "job", 4); g.Cells != "rfpp" || g.Each != 3 || g.Slots != 10 {
		t.Errorf("%+v", g)
	}
	line, err := s.Shapes.Timeline(t.Context(), "job", 100)
	if err != nil || len(line.Lanes) != 1 || len(line.Lanes[0].Bars) != 5 || line.Lanes[0].Peer != a.id {
		t.Fatalf("%+v, %v", line, err)
	}
	bars := line.Lanes[0].Bars
	if b := bars[2]; b.Slot != 3 || b.State != "complete" || b.End-b.Start != 3 {
		t.Errorf("%+v", b)
	}
	if b := bars[0]; !b.Open || b.State != "running" {
		t.Errorf("%+v", b)
	}
	if b := bars[4]; !b.Earlier || b.Slot != 5 || b.State != "shutdown" {
		t.Errorf("%+v", b)
	}
	bad, err := s.Shapes.Failures(t.Context(), "job")
	if err != nil || bad.Count != 1 || *bad.Groups[0].ExitCode != 3 || bad.Groups[0].Examples[0].Task != string(someJob)+".4.1" {
		t.Errorf("%+v, %v", bad, err)
	}
	page, err := s.Shapes.SomeTasks(t.Context(), "job", api.TaskQuery{States: []string{"complete", "failed"}, Sort: "-took", Limit: 2})
	if err != nil || page.All != 3 || len(page.Tasks) != 2 || page.Tasks[0].Slot != 4 || page.Tasks[1].Slot != 3 || page.Tasks[1].Took != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	rest, err := s.Shapes.SomeTasks(t.Context(), "job", api.TaskQuery{States: []string{"complete", "failed"}, Sort: "-took", Limit: 2, After: page.Next})
	if err != nil || len(rest.Tasks) != 1 || rest.Tasks[0].Slot != 2 || rest.Next != "" {
		t.Errorf("%+v, %v", rest, err)
	}
}

func TestAJobThatNobodyHasAcceptedIsShownAsWaiting(t *testing.T) {
	s := newScripted(t)
	j := noopJob("held", 3, 0)
	j.ID = someJob
	s.held = append(s.held, Held{Since: now(), Job: j})
	g, err := s.Shapes.Grid(t.Context(), "held", 10)
	page, err2 := s.Shapes.SomeTasks(t.Context(), "held", api.TaskQuery{Limit: 2})
	line, err3 := s.Shapes.Timeline(t.Context(), "held", 10)
	if err != nil || g.Cells != "ppp" || err2 != nil || page.All != 3 || len(page.Tasks) != 2 || err3 != nil || line.Lanes == nil || !line.From.Equal(line.To) {
		t.Errorf("%+v, %v; %+v, %v; %+v, %v", g, err, page, err2, line, err3)
	}
}

func TestWhatIsAskedOfATaskListIsChecked(t *testing.T) {
	s := newScripted(t)
	s.take(someJob, "job", s.self, 1)
	_, err := s.Shapes.SomeTasks(t.Context(), "job", api.TaskQuery{States: []string{"fine"}})
	wants(t, err, api.Usage, "fine", "complete")
	_, err = s.Shapes.SomeTasks(t.Context(), "job", api.TaskQuery{Sort: "age"})
	wants(t, err, api.Usage, "age", "took")
	_, err = s.Shapes.SomeTasks(t.Context(), "job", api.TaskQuery{Peer: "nobody"})
	wants(t, err, api.NotFound, "nobody")
	_, err = s.Shapes.Grid(t.Context(), "none", 1)
	wants(t, err, api.NotFound, "none")
}

func TestThePaceOfALargeJobIsLookedForOnceAndSaysTheSame(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	s.take(someJob, "job", s.self, piece+1)
	end := complete(1, s.assign(someJob, a, 1, 1))
	end.Took = 1500
	s.settle(a, end)
	s.write(ledger.Command{Cancel: &ledger.Cancel{Job: someJob}}) // it is over: its pace changes no more
	first, err := s.Job(t.Context(), "job")
	if err != nil || first.Job.Pace == nil || first.Job.Pace.LongestTook != 1.5 {
		t.Fatalf("%+v, %v", first.Job.Pace, err)
	}
	if again, _ := s.Job(t.Context(), "job"); again.Job.Pace != first.Job.Pace {
		t.Error("all slots are looked at again")
	}
}
