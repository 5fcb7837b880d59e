package supervise

import (
	"path/filepath"
	"strings"
	"time"
)

// adopt takes up the processes of .running.
func (e *Engine) adopt() {
	gone := map[string]bool{}
	for _, rec := range e.records.left {
		if t, over := e.taken[rec.task]; over {
			t.slot = rec.slot
			e.taken[rec.task] = t
			continue
		}
		p, ok := findOrphan(rec)
		if !ok {
			gone[rec.task] = rec.boot == e.records.boot
			e.taken[rec.task] = end{slot: rec.slot, event: Event{
				Kind: Lost, Task: rec.task, At: now(), Unseen: true, Rebooted: rec.boot != e.records.boot,
			}}
			continue
		}
		x := &proc{spec: Spec{Task: rec.task, Home: filepath.Join(e.cfg.Dir, strings.Replace(rec.task, ".", "/", 1))}, p: p, slot: rec.slot, at: now()}
		x.out, _ = openOutput(x.spec.Home, e.cfg.LogCap) // without, its output is not capped
		if rec.deadline > 0 {
			x.waiting = time.AfterFunc(time.Duration(max(0, rec.deadline-sinceBoot()))*time.Millisecond, func() { e.timeUp(x) })
		}
		e.procs[rec.task] = x
		e.await(x)
	}
	e.records.left = nil
	if len(gone) > 0 { // a fork that was not noted any more, or what its leader left behind: nobody would ever end it
		KillByEnvironment(func(task string) bool { return gone[task] })
	}
}
