//go:build unix

package view

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

const millionSlots = 1_000_000

// million is a job of a million slots on five peers: complete, failed for some reasons, running and
// waiting.
func million(b *testing.B) *scripted {
	s := newScripted(b)
	j := noopJob("million", millionSlots, 0)
	j.ID, j.Submitter = someJob, s.self
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
	const each, run = 160_000, 1000
	for p := range 5 {
		a := s.newAuthor()
		for first := p*each + 1; first <= (p+1)*each; first += run {
			index := s.assign(someJob, a, first, run)
			var ends []taskstate.Status
			for slot := first; slot < first+run; slot++ {
				switch {
				case slot%1000 == 0:
					s.report(a, uint64(slot), running(slot, index))
					continue
				case slot%7 == 0:
					continue // it is queued
				}
				end := complete(slot, index)
				end.At, end.Took, end.Waited = time.Now().UnixMilli(), int64(500+slot%4000), int64(slot%300)
				if slot%50 == 0 {
					end.State, end.Exit, end.Reason, end.Message = taskstate.Failed, slot%4+1, taskstate.ReasonExit, fmt.Sprint("exit code ", slot%4+1)
				}
				ends = append(ends, end)
			}
			s.write(ledger.Command{Settle: &ledger.Settle{Peer: a.id, Incarnation: a.inc, Statuses: ends}})
		}
	}
	return s
}

// look asks for all that the page of a job shows.
func look(b *testing.B, x *Shapes) {
	ctx := b.Context()
	_, err1 := x.Grid(ctx, "million", 4000)
	_, err2 := x.Timeline(ctx, "million", 1200)
	_, err3 := x.Failures(ctx, "million")
	_, err4 := x.SomeTasks(ctx, "million", api.TaskQuery{Sort: "-took", Limit: 10})
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil || x.pace(someJob).Ran == 0 {
		b.Fatal(err1, err2, err3, err4)
	}
}

// processor is how much time this process got.
func processor() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// What it costs to see a job of a million slots: all its pictures once, and while eight look at it
// four times a second and its ledger moves.
func BenchmarkAMillionSlots(b *testing.B) {
	s := million(b)
	b.Run("once", func(b *testing.B) {
		began := processor()
		for b.Loop() {
			look(b, &Shapes{view: s.View})
		}
		b.ReportMetric(float64((processor()-began).Milliseconds())/float64(b.N), "cpu-ms/op")
	})
	b.Run("watched", func(b *testing.B) {
		const long, readers = 20 * time.Second, 8
		look(b, s.Shapes)
		began, until := processor(), time.Now().Add(long)
		var all sync.WaitGroup
		for range readers {
			all.Go(func() {
				for time.Now().Before(until) {
					look(b, s.Shapes)
					time.Sleep(250 * time.Millisecond)
				}
			})
		}
		for n := 0; time.Now().Before(until); n++ {
			s.take(taskstate.JobID(fmt.Sprintf("other%05d", n)), fmt.Sprint("other", n), s.self, 1)
			time.Sleep(100 * time.Millisecond)
		}
		all.Wait()
		b.ReportMetric(float64((processor()-began).Milliseconds())/long.Seconds(), "cpu-ms/s")
	})
}
