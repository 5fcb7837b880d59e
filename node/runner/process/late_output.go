package process

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// How long after its end a task's output is looked at again – its supervisor ends whatever the task
// left behind within a second – how much later at most, and how many tasks wait for that: more ends
// in that time, and the others are not looked at.
const (
	lateAfter = 2 * time.Second
	lateBatch = lateAfter / 4
	maxEnded  = 1 << 14
)

// lateOutput sees to it that the output of ended tasks stays as it is. A process that left its
// group – a daemon, say – may have gone on writing until the supervisor ended it; one of
// version 0.1 ends only the group.
type lateOutput struct {
	log *slog.Logger

	looking sync.Mutex

	mu    sync.Mutex
	list  []endedTask // in the order of their ends
	timer *time.Timer
}

// endedTask is one whose output was sizes long at the end.
type endedTask struct {
	at    time.Time
	task  taskstate.TaskID
	home  string
	sizes [2]int64
}

func (s *lateOutput) add(e endedTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) < maxEnded {
		s.list = append(s.list, e)
	}
	if len(s.list) == 1 {
		s.timer = time.AfterFunc(lateAfter, func() { s.look(time.Now().Add(-lateAfter)) })
	}
}

// due hands out the tasks that ended until then, and has the others looked at in their time.
func (s *lateOutput) due(until time.Time) []endedTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.list) && !s.list[n].at.After(until) {
		n++
	}
	due := s.list[:n]
	if s.list = s.list[n:]; len(s.list) > 0 {
		s.timer = time.AfterFunc(lateBatch, func() { s.look(time.Now().Add(-lateAfter)) })
	}
	return due
}

// look cuts away what was written since the end, and kills who wrote it.
func (s *lateOutput) look(until time.Time) {
	s.looking.Lock()
	defer s.looking.Unlock()
	due, grown := s.due(until), map[string]bool{}
	for _, e := range due {
		if e.eachGrown(func(string, int64) {}) {
			grown[e.task.String()] = true
		}
	}
	if len(grown) == 0 {
		return
	}
	s.log.Info("processes outside their group wrote output of tasks that had ended", "tasks", len(grown), "killed", supervise.KillTasks(grown))
	for _, e := range due {
		e.eachGrown(func(path string, size int64) { _ = os.Truncate(path, size) })
	}
}

// eachGrown calls f for the output files that are longer than at the end, and tells whether one is.
// The task may have put something else in their place.
func (e *endedTask) eachGrown(f func(path string, size int64)) (some bool) {
	for i, name := range supervise.Streams() {
		path := filepath.Join(e.home, name)
		if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() && st.Size() > e.sizes[i] {
			some = true
			f(path, e.sizes[i])
		}
	}
	return some
}

// close looks a last time.
func (s *lateOutput) close() {
	s.look(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}
