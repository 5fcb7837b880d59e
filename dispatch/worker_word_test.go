package dispatch

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// startsOf counts how often each slot of a job was started, in whatever attempt.
func (f *flock) startsOf(job string) map[int]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	starts := map[int]int{}
	for task, n := range f.ran {
		if task.Job == taskstate.JobID(job) {
			starts[task.Slot] += n
		}
	}
	return starts
}

// on counts a job's open tasks on a peer.
func (f *flock) on(job, peer string) (n int) {
	f.boss.ledger.Replica().Read(func(s *ledger.State) {
		if j, ok := s.Job(taskstate.JobID(job)); ok {
			for o := range j.OpenSlots() {
				if o.Peer == peer {
					n++
				}
			}
		}
	})
	return n
}

// takes says whether a peer is given tasks.
func (f *flock) takes(peer string, takes bool) {
	f.t.Helper()
	a := ledger.AvailActive
	if !takes {
		a = ledger.AvailPause
	}
	if _, res, err := f.boss.ledger.Propose(f.t.Context(), []ledger.Command{{Avail: &ledger.Avail{Peer: peer, Availability: a}}}); err != nil || res[0].Refused != "" {
		f.t.Fatal(res, err)
	}
}

// A peer whose disk takes nothing any more has eight tasks, of which four run. The others go where there is room, in bounded time, and
// none is started twice, whether the job allows that or not, and whoever coordinates.
func TestWhatAPeerWithAFullDiskHasNotBegunGoesElsewhere(t *testing.T) {
	for name, change := range map[string]func(*taskstate.Job){
		"may run twice":      func(*taskstate.Job) {},
		"must not run twice": func(j *taskstate.Job) { j.Unreachable.Wait = true },
	} {
		for _, elect := range []bool{false, true} {
			if elect && name == "must not run twice" {
				continue // waits for the disk: it cannot know about the new epoch
			}
			t.Run(name, func(t *testing.T) {
				inFlock(t, 3, func(t *testing.T, f *flock) {
					f.takes("p0", false)
					f.takes("p2", false)
					f.submit("long", 8, time.Hour, oneCPU, change)
					time.Sleep(2 * time.Second)
					if n := f.on("long", "p1"); n != 8 {
						t.Fatalf("p1 has %d of 8 tasks", n)
					}
					f.peers[1].disk.full.Store(true)
					f.takes("p0", true)
					if elect {
						f.elect(f.peers[2])
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if p0, p1 := f.on("long", "p0"), f.on("long", "p1"); p0 != 4 || p1 != 4 {
						t.Errorf("a minute later p0 has %d and p1 has %d of the 8 tasks; want 4 each", p0, p1)
					}
					f.peers[1].disk.full.Store(false)
					if c := f.finish("long", 3*time.Hour); c.Complete != 8 {
						t.Errorf("%+v", c)
					}
					for slot, n := range f.startsOf("long") {
						if n != 1 {
							t.Errorf("slot %d was started %d times", slot, n)
						}
					}
				})
			})
		}
	}
}

// The worker gives its word, and ends before its disk knows. What it comes back with, from its journal, it does not start.
func TestAWordHoldsWhenTheWorkerEndsBeforeItsDiskKnows(t *testing.T) {
	for _, job := range []taskstate.JobID{jobWork, jobOnce} {
		b := newWorkerBox(t)
		b.session(1, grantOf(job, 1, 5)) // two run, three wait
		b.settle()
		if len(b.running) != 2 {
			t.Fatalf("%v run", b.sorted())
		}
		b.step(wSick{errRecordSum})
		b.ups = nil
		d := setOf(false, 1, 1, 2)
		d.Assignments.Recall = []taskstate.TaskID{wtask(job, 2), wtask(job, 4), wtask(job, 5)}
		b.down(d)
		var back []taskstate.TaskID
		for _, u := range b.ups {
			if u.Dropped != nil {
				back = append(back, u.Dropped.Tasks...)
			}
			if u.Batch != nil {
				t.Error("an end was told that no disk knows")
			}
		}
		if want := []taskstate.TaskID{wtask(job, 4), wtask(job, 5)}; !slices.Equal(back, want) {
			t.Fatalf("given back: %v, want %v: what runs is not", back, want)
		}
		running := b.sorted()
		b.fate = func(taskstate.TaskID) fate { return fateRuns }
		b.crash(false)
		for _, id := range running {
			b.finish(id, taskstate.Complete, "")
		}
		b.session(1, grantOf(job, 1, 3)) // the ledger gave 4 and 5 to others
		b.settle()
		for _, id := range back {
			if b.started[id] > 0 {
				t.Errorf("%v was started after all", id)
			}
		}
		if b.started[wtask(job, 3)] != 1 {
			t.Errorf("%v, which it still has, does not start", wtask(job, 3))
		}
	}
}

func TestAWordIsRepeatedInEverySessionUntilTheDiskKnows(t *testing.T) {
	b := newWorkerBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.settle()
	b.step(wSick{errRecordSum})
	d := setOf(false, 1, 1, 2)
	d.Assignments.Recall = []taskstate.TaskID{wtask(jobWork, 3)}
	b.down(d)
	words := func() (n int) {
		for _, u := range b.ups {
			if u.Dropped != nil {
				n += len(u.Dropped.Tasks)
			}
		}
		b.ups = nil
		return n
	}
	if n := words(); n != 1 {
		t.Fatalf("said %d times at first", n)
	}
	for term := range uint64(2) {
		b.step(wClosed{b.link})
		b.open()
		b.down(welcomeIn(1 + term)) // the second one is of an epoch no disk knows yet
		if n := words(); n != 1 {
			t.Errorf("said %d times in a new session of term %d", n, 1+term)
		}
	}
	b.step(wSick{nil})
	b.settle()
	b.step(wClosed{b.link})
	b.open()
	b.down(welcomeIn(2))
	b.settle()
	if n := words(); n != 0 {
		t.Errorf("said %d times although the end is on disk, and told", n)
	}
}

// What is asked for before the worker knows how it is with its disk counts when it does.
func TestARecallThatWaitsForTheNewEpochIsAnsweredWhenTheDiskTurnsOutToTakeNothing(t *testing.T) {
	b := newWorkerBox(t)
	b.session(1, grantOf(jobWork, 1, 3))
	b.settle()
	b.step(wClosed{b.link})
	b.open()
	b.down(welcomeIn(2))
	d := setOf(true, 2, 0, 1, grantOf(jobWork, 1, 3))
	d.Assignments.Recall = []taskstate.TaskID{wtask(jobWork, 3)}
	b.down(d)
	b.ups = nil
	b.step(wSick{errRecordSum})
	if !slices.ContainsFunc(b.ups, func(u Up) bool { return u.Dropped != nil && slices.Equal(u.Dropped.Tasks, d.Assignments.Recall) }) {
		t.Errorf("it said %+v", b.ups)
	}
}
