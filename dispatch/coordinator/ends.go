package coordinator

import (
	"cmp"
	"slices"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

// stoppingFor is how long a peer that gives its running tasks back gets no new ones, if its session
// does not end before.
const stoppingFor = 10 * time.Second

// ackWindow knows which batches of a session have ends that are not decided yet: the contiguous
// decided ones are acknowledged. It is as long as what the worker has unacknowledged, and so
// bounded by the worker's own limit and by what it may have outstanding.
type ackWindow struct {
	base uint64 // all up to here are decided
	open []int  // ends not decided of base+1, base+2, …; the last one is being received while busy
	busy bool
}

// What begin answers.
const (
	ackNew = iota
	ackOld // received before
	ackGap // one before it is missing: a stream does not do that
	ackFull
)

// maxUnacked bounds the batches that wait for decisions: far more than what a peer's outstanding
// tasks can fill.
const maxUnacked = 1 << 16

func (w *ackWindow) begin(n uint64) int {
	switch next := w.base + uint64(len(w.open)) + 1; {
	case n < next:
		return ackOld
	case n > next:
		return ackGap
	case len(w.open) >= maxUnacked:
		return ackFull
	}
	w.open, w.busy = append(w.open, 0), true
	return ackNew
}

func (w *ackWindow) add() { w.open[len(w.open)-1]++ }

// received closes the batch begun last.
func (w *ackWindow) received() {
	w.busy = false
	w.advance()
}

// done counts one end of batch n as decided.
func (w *ackWindow) done(n uint64) {
	if n <= w.base || n-w.base > uint64(len(w.open)) {
		return
	}
	w.open[n-w.base-1]--
	w.advance()
}

func (w *ackWindow) advance() {
	k, most := 0, len(w.open)
	if w.busy {
		most--
	}
	for k < most && w.open[k] <= 0 {
		k++
	}
	w.base += uint64(k)
	w.open = w.open[k:]
}

// A task whose peer's disk did not take all of its output is no failure of the task: its slot gets
// another attempt, as with an attempt that was interrupted, and the peer gets nothing until it had
// time to say how its disk stands.

// givesBack tells whether the worker of an attempt that ended so takes nothing for the moment: it
// stops, or its disk takes nothing.
func givesBack(why taskstate.Reason) bool {
	return why == taskstate.ReasonInterrupted || why == taskstate.ReasonOutputLost || why == taskstate.ReasonStuck
}

// maxLost is how often a slot gets another attempt because its output was lost: a task that fills
// the disk of every peer it runs on must not go through all of them.
const maxLost = 3

// lostOutputs counts such attempts by slot. A new coordinator begins anew.
type lostOutputs map[int]int

// again counts one more and tells whether the slot gets another attempt.
func (l *lostOutputs) again(slot int) bool {
	if *l == nil {
		*l = lostOutputs{}
	}
	(*l)[slot]++
	return (*l)[slot] <= maxLost
}

// A version of a job of which so many tasks in a row failed on a peer in so short a time is not
// given to that peer for as long, if there is another one that is not known to be as bad. A machine
// that lacks what the job needs fails at once, has room at once, and would get all of it.
const (
	faultCount = 5
	faultTime  = 5 * time.Minute
)

// faults remembers where tasks of the present version failed: for each peer when, newest last,
// since one last ended well there. No more than count.
type faults map[taskstate.PeerID][]time.Time

func (f faults) any() bool { return len(f) > 0 }

func (f *faults) add(p taskstate.PeerID, now time.Time) {
	if *f == nil {
		*f = faults{}
	}
	list := append((*f)[p], now)
	(*f)[p] = list[max(0, len(list)-faultCount):]
}

// often tells whether the last tasks on a peer all failed, however long it took.
func (f faults) often(p taskstate.PeerID) bool { return len(f[p]) == faultCount }

// faulty tells whether they did so in a short time, and lately.
func (f faults) faulty(p taskstate.PeerID, now time.Time) bool {
	return f.often(p) && now.Sub(f[p][0]) < faultTime
}

// until is when a faulty peer may have tasks again.
func (f faults) until(p taskstate.PeerID) time.Time { return f[p][0].Add(faultTime) }

// A worker that keeps its session and starts nothing of what it has, although by its own reports it
// has room for it, or does not even say that it has it, loses it after StartWithin and is passed
// over for a while. No other peer can
// tell whether it is broken or lies.
const (
	stallLook = 5 * time.Second
	stallShun = 5 * time.Minute // passed over, unless it starts something it has
)

// heldAttempt is a task a worker has, as far as its own reports go. Workers start what they have in
// the order in which it came.
type heldAttempt struct {
	task  taskstate.TaskID
	index uint64 // of the assignment
	need  taskstate.Resources
	begun bool
	mute  bool // its worker has said nothing of it
}

// stalls watches the tasks of one worker that have not begun. It is pure.
type stalls struct {
	watched map[taskstate.TaskID]stalled
	mute    map[taskstate.TaskID]time.Time // since when the worker says nothing of it
}

// look tells which tasks could have begun for too long. A task's clock runs while there is room for
// it and for each of those that came before it and wait as well: whichever of them is the first in
// the worker's queue could begin. It starts anew when one of those did, or went away.
func (s *stalls) look(free taskstate.Resources, tasks []heldAttempt, now time.Time, within time.Duration) (due []taskstate.TaskID) {
	slices.SortFunc(tasks, func(a, b heldAttempt) int { return cmp.Or(cmp.Compare(a.index, b.index), a.task.Compare(b.task)) })
	var wait []heldAttempt
	for _, g := range tasks {
		if g.begun {
			free = free.Sub(g.need)
		} else {
			wait = append(wait, g)
		}
	}
	next := map[taskstate.TaskID]stalled{}
	for i, room := 0, true; i < len(wait) && room; { // those of one entry came together
		k := i
		for ; k < len(wait) && wait[k].index == wait[i].index; k++ {
			room = room && wait[k].need.Fits(free)
		}
		for ; i < k && room; i++ {
			x, ok := s.watched[wait[i].task]
			if !ok || k < x.ahead {
				x.since = now
			}
			x.ahead = k
			next[wait[i].task] = x
			if now.Sub(x.since) >= within {
				due = append(due, wait[i].task)
			}
		}
	}
	s.watched = next
	return s.addMute(due, tasks, now, within)
}

// addMute adds to due the tasks of which the worker has said nothing for too long. It says at once
// that it has a task, whether or not there is room.
func (s *stalls) addMute(due []taskstate.TaskID, tasks []heldAttempt, now time.Time, within time.Duration) []taskstate.TaskID {
	next := map[taskstate.TaskID]time.Time{}
	for _, g := range tasks {
		if !g.mute {
			continue
		}
		since, ok := s.mute[g.task]
		if !ok {
			since = now
		}
		next[g.task] = since
		if now.Sub(since) >= within && !slices.Contains(due, g.task) {
			due = append(due, g.task)
		}
	}
	s.mute = next
	return due
}

type stalled struct {
	since time.Time // it could have begun
	ahead int       // so many waited with it or before it
}
