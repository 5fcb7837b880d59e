package supervise

import (
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
)

// How long after the end of a task what it left behind is looked for: many that end together are
// looked for together. Where looking takes long, on a machine with very many processes, it is a
// tenth of the time at most, and a second later at the latest.
const (
	sweepAfter = 300 * time.Millisecond
	sweepLate  = time.Second
	sweepShare = 10
)

// maxSwept is for how many ended tasks is looked at once; more wait.
const maxSwept = 1 << 16

// sweeper ends what tasks leave behind outside of their process group: daemons, whole sessions. It
// is a goroutine of its own, beside the way of a task. A nil one does nothing.
type sweeper struct {
	kill func(tasks map[string]bool) int // ends all processes of these tasks
	term func(tasks map[string]int)      // asks those to end that are not in a group, by task

	mu      sync.Mutex
	ended   map[string]bool
	stopped map[string]int
	wake    wake.Signal
	quit    chan struct{}
	done    chan struct{}
}

func newSweeper(kill func(map[string]bool) int, term func(map[string]int)) *sweeper {
	s := &sweeper{
		kill: kill, term: term, ended: map[string]bool{}, stopped: map[string]int{},
		wake: wake.New(), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go s.run()
	return s
}

// over: a task has ended, with its group; nothing of it may stay.
func (s *sweeper) over(task string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	delete(s.stopped, task)
	if len(s.ended) < maxSwept {
		s.ended[task] = true
	}
	s.mu.Unlock()
	s.wake.Set()
}

// stop: the group of a task was asked to end; so are its processes outside of that.
func (s *sweeper) stop(task string, group int) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.stopped[task] = group
	s.mu.Unlock()
	s.wake.Set()
}

// again: a task with this id begins, nothing of it is left behind.
func (s *sweeper) again(task string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	delete(s.ended, task)
	s.mu.Unlock()
}

func (s *sweeper) run() {
	defer close(s.done)
	for wait := sweepAfter; ; {
		select {
		case <-s.wake:
		case <-s.quit:
			s.sweep()
			return
		}
		s.ask()
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-s.quit:
		}
		t.Stop()
		begin := time.Now()
		s.ask()
		s.sweep()
		wait = min(sweepLate, max(sweepAfter, sweepShare*time.Since(begin)))
	}
}

func (s *sweeper) ask() {
	if tasks := drain(s, &s.stopped); len(tasks) > 0 {
		s.term(tasks)
	}
}

func (s *sweeper) sweep() {
	if tasks := drain(s, &s.ended); len(tasks) > 0 {
		s.kill(tasks)
	}
}

func drain[V any](s *sweeper, from *map[string]V) map[string]V {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := *from
	if len(all) == 0 {
		return nil // not the map itself: others write to it
	}
	*from = map[string]V{}
	return all
}

// close looks a last time.
func (s *sweeper) close() {
	if s == nil {
		return
	}
	close(s.quit)
	<-s.done
}
