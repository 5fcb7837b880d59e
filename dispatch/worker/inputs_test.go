package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// states are those that were said of a job's tasks, in order of slots.
func (b *box) states(job taskstate.JobID) (all []taskstate.State) {
	for _, h := range b.core.held.all() {
		if h.id.Job == job {
			all = append(all, h.durable.State)
		}
	}
	return all
}

func (b *box) ran(job taskstate.JobID) (n int) {
	for id := range b.running {
		if id.Job == job {
			n++
		}
	}
	return n
}

func TestTasksWithoutTheirInputsHoldNoSlotAndArePassed(t *testing.T) {
	for _, job := range []taskstate.JobID{jobFed, jobFedOne} {
		b := newBox(t)
		b.session(1, grantOf(job, 1, 200), grantOf(jobWork, 1, 2))
		b.settle()
		if b.ran(job) != 0 || b.ran(jobWork) != 2 {
			t.Fatalf("%s: %d run, and %d of others", job, b.ran(job), b.ran(jobWork))
		}
		if len(b.stages) != 1 {
			t.Fatalf("%s: its inputs were asked for %d times", job, len(b.stages))
		}
		b.stage(StageReport{Here: true})
		b.settle()
		for id := range b.running {
			b.finish(id, taskstate.Complete, "")
		}
		b.settle()
		if b.ran(job) != 2 {
			t.Errorf("%s: %d run when its inputs are here", job, b.ran(job))
		}
	}
}

func TestATaskSaysHowFarItsInputsAre(t *testing.T) {
	b := newBox(t)
	b.gather = gatherEnds
	b.boot()
	b.step(Adopted{})
	b.session(1, grantOf(jobFed, 1, 1), grantOf(jobWork, 1, 2))
	b.wait()
	b.settle()
	b.stage(StageReport{Message: "fetching 2.1 GiB, 40 % here"})
	b.wait()
	b.settle()
	if h := b.core.held.all()[0]; h.durable.State != taskstate.Preparing || h.durable.Message != "fetching 2.1 GiB, 40 % here" {
		t.Errorf("it says %+v", h.durable)
	}
	b.stage(StageReport{Here: true})
	b.wait()
	b.settle()
	if h := b.core.held.all()[0]; h.durable.State != taskstate.Ready || h.durable.Message != "" {
		t.Errorf("in line, with its inputs here, it says %+v", h.durable)
	}
}

func TestWhatWasBeingPreparedHasNotBegunWhateverTheMarkSays(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobFedOne, 1, 1), grantOf(jobWork, 1, 1))
	b.settle()
	if got := b.states(jobFedOne); !slices.Equal(got, []taskstate.State{taskstate.Preparing}) || b.ran(jobWork) != 1 {
		t.Fatalf("%v, and %d of others run", got, b.ran(jobWork))
	}
	b.crash(true) // of the whole machine: nobody knows what ran
	for _, l := range b.begun {
		if l.Task.Job == jobFedOne {
			t.Errorf("%v counts as begun", l.Task)
		}
	}
	b.session(2, grantOf(jobFedOne, 1, 1))
	b.stage(StageReport{Here: true})
	b.settle()
	if b.ran(jobFedOne) != 1 {
		t.Error("it does not run when its inputs are here")
	}
}

func TestWhatThereIsNoRoomForIsGivenBackWithoutHavingBegun(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobFed, 1, 3))
	b.stage(StageReport{NoRoom: true, Message: "no room in the store"})
	b.settle()
	for _, h := range b.core.held.all() {
		if h.durable.State != taskstate.Rejected || h.durable.Reason != taskstate.ReasonNoRoom || h.durable.Message != "no room in the store" {
			t.Errorf("it ends as %+v", h.durable)
		}
	}
	if b.ran(jobFed) != 0 {
		t.Error("it runs")
	}
}

func TestATaskSaysHowFarItsInputsArePlaced(t *testing.T) {
	b := newBox(t)
	b.session(1, grantOf(jobFedOne, 1, 1))
	b.stage(StageReport{Here: true})
	b.settle()
	id := wtask(jobFedOne, 1)
	since := b.now.Add(time.Millisecond).UnixMilli()
	for _, message := range []string{"placing 2.1 GiB, 10 % here", "placing 2.1 GiB, 40 % here"} {
		b.places(id, message)
		b.settle()
		if h := b.core.held.of[id]; h.durable.State != taskstate.Starting || h.durable.Message != message || h.durable.At != since {
			t.Errorf("it says %+v", h.durable)
		}
	}
	seq := b.core.held.of[id].status.Seq
	b.places(id, "placing 2.1 GiB, 40 % here")
	if h := b.core.held.of[id]; h.status.Seq != seq {
		t.Errorf("the same is said again: %+v", h.status)
	}
	b.runs(id)
	b.places(id, "placing 2.1 GiB, 50 % here") // too late
	b.settle()
	if h := b.core.held.of[id]; h.durable.State != taskstate.Running || h.durable.Message != "" {
		t.Errorf("when it runs it says %+v", h.durable)
	}
}

func TestATaskWhoseInputsWerePlacedStartsAfterARestartIfItsProcessNeverBegan(t *testing.T) {
	for _, job := range []taskstate.JobID{jobFed, jobFedOne} {
		b := newBox(t)
		b.session(1, grantOf(job, 1, 1))
		b.stage(StageReport{Here: true})
		b.settle()
		b.places(wtask(job, 1), "placing 2.1 GiB, 10 % here")
		b.settle()
		b.fate = func(taskstate.TaskID) fate { return fateLost }
		b.crash(true)
		b.session(2, grantOf(job, 1, 1))
		if b.ran(job) != 0 {
			t.Errorf("%s: it starts without its inputs", job)
		}
		b.stage(StageReport{Here: true})
		b.settle()
		if b.ran(job) != 1 {
			t.Errorf("%s: it does not start again: %v", job, b.core.held.all())
		}
	}
}
