package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"covey/node/runner/supervise"
	"covey/taskstate"
)

// How long after the end of a task somebody looks whether its output is still being written, and
// how many wait for that at most: more ends in that time, and the rest is not looked at.
const (
	strayAfter = time.Second
	maxStrays  = 1 << 14
)

// strays sees to it that the output of ended tasks stays as it is. A process that left its group –
// a daemon, say – may hold the files open and could fill the disk. Looking takes a moment of its
// own, beside the way of a task: right at the end there may be a child of ours between fork and
// exec, which for an instant holds everything we had open.
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

func (s *strays) add(e stray) {
	s.mu.Lock()
	first := len(s.list) == 0
	if len(s.list) < maxStrays {
		s.list = append(s.list, e)
	}
	s.mu.Unlock()
	if first {
		time.AfterFunc(strayAfter, func() {
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
		if e.written() {
			found[e.task] = e
		}
	}
	if len(found) > 0 {
		n := endWriters(found)
		for id := range found {
			s.log.Info("a process outside its group still wrote a task's output", "task", id.String(), "killed_in_all", n)
		}
	}
	for _, e := range list { // the supervisor may have ended who wrote
		for i, path := range streams(e.home) {
			if larger(path, e.sizes[i]) {
				_ = os.Truncate(path, e.sizes[i])
			}
		}
	}
}

// written tells whether somebody has one of the files open for writing.
func (e *stray) written() bool {
	return slices.ContainsFunc(streams(e.home), func(path string) bool { return !unwritten(path) })
}

func streams(home string) []string {
	names := supervise.Streams()
	return []string{filepath.Join(home, names[0]), filepath.Join(home, names[1])}
}

// How often those who write are looked for, and how often in a row in vain: a process that is just
// being started shows no environment, one that has ended lets go of its files a moment later, and
// one that carries another task's name, or none, is not ours to kill.
const (
	strayRounds = 100
	strayInVain = 3
	strayPause  = 5 * time.Millisecond
)

// endWriters kills the processes of these tasks until nobody writes their output any more, or none
// is found who does.
func endWriters(found map[taskstate.TaskID]stray) (killed int) {
	tasks := make(map[string]bool, len(found))
	for id := range found {
		tasks[id.String()] = true
	}
	vain := 0
	for range strayRounds {
		n := supervise.KillTasks(tasks)
		killed += n
		if vain++; n > 0 {
			vain = 0
		}
		if vain == strayInVain || !anyWritten(found) {
			break
		}
		time.Sleep(strayPause)
	}
	return killed
}

func anyWritten(found map[taskstate.TaskID]stray) bool {
	for _, e := range found {
		if e.written() {
			return true
		}
	}
	return false
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
