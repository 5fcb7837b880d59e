package runner

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"covey/node/runner/supervise"
	"covey/taskstate"
)

// How long after the end of a task somebody looks whether its output is still being written, and how many wait for that at most: more
// ends in that time, and the rest is not looked at.
const (
	strayAfter = time.Second
	maxStrays  = 1 << 14
)

// strays sees to it that the output of ended tasks stays as it is. A process that left its group – a daemon, say – may hold the files open
// and could fill the disk. Looking takes a moment of its own, beside the way of a task: right at the end there may be a child of ours between
// fork and exec, which for an instant holds everything we had open.
type strays struct {
	log  *slog.Logger
	mu   sync.Mutex
	list []stray
	wake chan struct{} // one token: the list has waited long enough
	stop chan struct{}
	done chan struct{}
}

// stray is an ended task whose output was sizes long at the end.
type stray struct {
	task  taskstate.TaskID
	home  string
	sizes [2]int64
}

func newStrays(log *slog.Logger) *strays {
	s := &strays{log: log, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *strays) add(clock *timers, e stray) {
	s.mu.Lock()
	first := len(s.list) == 0
	if len(s.list) < maxStrays {
		s.list = append(s.list, e)
	}
	s.mu.Unlock()
	if first {
		clock.after(strayAfter, func() {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		})
	}
}

func (s *strays) run() {
	defer close(s.done)
	for {
		select {
		case <-s.wake:
			s.look()
		case <-s.stop:
			s.look()
			return
		}
	}
}

// look kills who still writes, and cuts away what was written since the end.
func (s *strays) look() {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	found := make(map[taskstate.TaskID]stray)
	for _, e := range list {
		for _, name := range supervise.Streams() {
			if !unwritten(filepath.Join(e.home, name)) {
				found[e.task] = e
			}
		}
	}
	if len(found) == 0 {
		return
	}
	n := supervise.KillByEnvironment(func(task string) bool {
		id, err := taskstate.ParseTaskID(task)
		_, ok := found[id]
		return ok && err == nil
	})
	for id, e := range found {
		s.log.Info("a process outside its group still wrote a task's output", "task", id.String(), "killed_in_all", n)
		for i, name := range supervise.Streams() {
			if path := filepath.Join(e.home, name); larger(path, e.sizes[i]) {
				_ = os.Truncate(path, e.sizes[i])
			}
		}
	}
}

func larger(path string, size int64) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().IsRegular() && st.Size() > size
}

// close looks a last time.
func (s *strays) close() {
	close(s.stop)
	<-s.done
}
