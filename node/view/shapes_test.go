package view

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
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

func TestAJobTellsHowLongItsTasksTakeOnEachPeer(t *testing.T) {
	s := newScripted(t)
	fast, pi := s.newAuthor(), s.newAuthor()
	s.take(someJob, "job", s.self, 9)
	end := func(a author, slot int, took int64) {
		st := complete(slot, s.assign(someJob, a, slot, 1))
		st.Took = took
		s.settle(a, st)
	}
	for slot := 1; slot <= 4; slot++ {
		end(fast, slot, 2400)
	}
	for slot := 5; slot <= 7; slot++ {
		end(pi, slot, 12_000)
	}
	s.report(pi, 1, running(8, s.assign(someJob, pi, 8, 1)))
	j, err := s.Job(t.Context(), "job")
	if err != nil || j.Job.Pace == nil || len(j.Job.Pace.Peers) != 2 {
		t.Fatalf("%+v, %v", j.Job.Pace, err)
	}
	a, b := j.Job.Pace.Peers[0], j.Job.Pace.Peers[1]
	if a.Peer != pi.id || a.Took != 12 || a.Ended != 3 || a.Running != 1 || a.Others != 2.4 || a.Slower != 5 {
		t.Errorf("%+v", a)
	}
	if b.Peer != fast.id || b.Took != 2.4 || b.Ended != 4 || b.Others != 12 || b.Slower != 0 {
		t.Errorf("%+v", b)
	}
	if n := j.Job.Pace.Running; len(n) != 1 || n[pi.id] != 1 {
		t.Errorf("%v", n)
	}
}

// saysLast is what tasks here have printed; it counts how often that is read.
type saysLast struct {
	asked atomic.Int64
	line  func(task string) ([]byte, error)
}

func (o *saysLast) Copy(ctx context.Context, r tasklog.Request, f func(tasklog.Chunk) error) error {
	o.asked.Add(1)
	b, err := o.line(r.Task.String())
	if err == nil && b == nil {
		<-ctx.Done()
		err = ctx.Err()
	}
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n := min(len(b), tasklog.MaxChunk)
		if err := f(tasklog.Chunk{Stream: tasklog.Stderr, Data: b[:n]}); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// failing is a job of which every slot has failed here, each in its own way.
func failing(t *testing.T, slots int, out *saysLast) *scripted {
	return failingWith(t, slots, out, func(slot int) int { return slot })
}

// failingWith is a job of which every slot has failed here, with that exit code.
func failingWith(t *testing.T, slots int, out *saysLast, exit func(slot int) int) *scripted {
	s := newScripted(t)
	me := author{s.self, "0123456789abcdef"}
	j := taskstate.Job{ID: someJob, Name: "job", Submitter: s.self, Count: slots, Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"render"}}}}
	jobfile.Defaults(&j)
	s.write(
		ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: me.id, Roles: admission.AllRoles(), At: time.Now().UnixMilli()}}},
		ledger.Command{Register: &ledger.Register{Peer: me.id, Incarnation: me.inc}},
	)
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
	index := s.assign(someJob, me, 1, slots)
	for slot := 1; slot <= slots; slot++ {
		end := complete(slot, index)
		end.State, end.Exit, end.Reason, end.Message = taskstate.Failed, exit(slot), taskstate.ReasonExit, fmt.Sprint("exit code ", exit(slot))
		s.settle(me, end)
	}
	s.cfg.Output = func() Output { return out }
	return s
}

func TestAGroupOfFailuresSaysWhatOneOfThemPrintedLastAndThatIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &saysLast{line: func(task string) ([]byte, error) {
			if strings.HasSuffix(task, ".2.1") {
				return nil, &tasklog.Error{Code: tasklog.CodeNotFound, Message: "none"}
			}
			return []byte("loading\nno such texture: " + task + "\n"), nil
		}}
		s := failing(t, lastGroups+3, out)
		for range 3 {
			bad, err := s.Shapes.Failures(t.Context(), "job")
			if err != nil || len(bad.Groups) != lastGroups+3 {
				t.Fatalf("%+v, %v", bad, err)
			}
			said := 0
			for _, g := range bad.Groups {
				task := g.Examples[0].Task
				switch {
				case g.Last == "":
				case g.Last != "no such texture: "+task || strings.HasSuffix(task, ".2.1"):
					t.Errorf("%s says %q", task, g.Last)
				default:
					said++
				}
			}
			if n := out.asked.Load(); n != lastGroups || said != lastGroups && said != lastGroups-1 {
				t.Errorf("%d groups say something, after %d questions", said, n)
			}
		}
	})
}

func TestFailuresWithOneExitCodeShowEachThingThatWasPrintedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &saysLast{line: func(task string) ([]byte, error) {
			switch {
			case strings.HasSuffix(task, ".2.1"):
				return []byte("other b\n"), nil
			case strings.HasSuffix(task, ".8.1"): // after five others
				return []byte("disk full\n"), nil
			}
			return []byte("boom a at line " + task + "\n"), nil
		}}
		s := failingWith(t, 12, out, func(int) int { return 1 })
		for range 2 {
			bad, err := s.Shapes.Failures(t.Context(), "job")
			if err != nil || len(bad.Groups) != 1 || bad.Groups[0].Count != 12 {
				t.Fatalf("%+v, %v", bad, err)
			}
			var said []string
			for _, e := range bad.Groups[0].Said() {
				said = append(said, e.Last)
			}
			if got := strings.Join(said, "; "); got != "boom a at line "+string(someJob)+".1.1; other b; disk full" || bad.Groups[0].Last != said[0] {
				t.Errorf("%s, and %q of the group", got, bad.Groups[0].Last)
			}
		}
		if n := out.asked.Load(); n != 5 {
			t.Errorf("%d questions", n)
		}
	})
}

func TestALastLineThatDoesNotComeInTimeOrNeverEndsIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &saysLast{line: func(task string) ([]byte, error) {
			if strings.HasSuffix(task, ".1.1") {
				return bytes.Repeat([]byte("x"), 10<<20), nil
			}
			return nil, nil
		}}
		s := failing(t, 2, out)
		bad, err := s.Shapes.Failures(t.Context(), "job")
		if err != nil || len(bad.Groups) != 2 || len(bad.Groups[0].Last) != 103 || bad.Groups[1].Last != "" {
			t.Errorf("%+v, %v", bad, err)
		}
		if again, _ := s.Shapes.Failures(t.Context(), "job"); len(again.Groups) != 2 || out.asked.Load() != 2 {
			t.Errorf("asked %d times: %+v", out.asked.Load(), again)
		}
	})
}
