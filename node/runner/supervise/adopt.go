package supervise

import (
	"cmp"
	"path/filepath"
	"strings"
	"time"
)

func (e *Engine) adopt() {
	gone, groups := map[string]bool{}, map[int]bool{}
	e.mu.Lock() // the first of them may end, or be told that its time is up, while the last is being looked for
	for _, rec := range e.records.left {
		if t, over := e.taken[rec.task]; over {
			t.slot = rec.slot
			e.taken[rec.task] = t
		} else if p, ok := findOrphan(rec); ok {
			e.takeUp(rec, p)
			groups[rec.group] = true
		} else {
			if rec.boot == e.records.boot {
				gone[rec.task] = true
			}
			e.taken[rec.task] = unackedEnd{slot: rec.slot, event: Event{
				Kind: Lost, Task: rec.task, At: now(), Held: rec.held, Unseen: true, Rebooted: rec.boot != e.records.boot,
			}}
		}
	}
	e.records.left = nil
	e.mu.Unlock()
	e.cfg.Groups.Sweep(groups)
	if len(gone) > 0 { // a fork that was not noted any more, or what its leader left behind: nobody would ever end it
		KillTasks(gone)
	}
}

// takeUp goes on with a process that is there. Called with e.mu held.
func (e *Engine) takeUp(rec record, p process) {
	x := &proc{spec: Spec{Task: rec.task, Home: filepath.Join(e.cfg.Dir, strings.Replace(rec.task, ".", "/", 1))}, p: p, slot: rec.slot, at: now(), held: rec.held, group: e.cfg.Groups.Adopt(rec.group)}
	x.began = time.Now().Add(-time.Duration(max(0, sinceBoot()-rec.before)) * time.Millisecond)
	kept := rec.cap
	kept.limit = cmp.Or(kept.limit, e.cfg.LogCap)
	if x.out, _ = openOutput(x.spec.Home, kept); x.out != nil { // without, its output is not capped
		x.out.takeUp()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if rec.deadline > 0 {
		x.waiting = time.AfterFunc(time.Duration(max(0, rec.deadline-sinceBoot()))*time.Millisecond, func() { e.timeUp(x) })
	}
	e.procs[rec.task] = x
	e.await(x)
}
