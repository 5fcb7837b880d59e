package supervise

import (
	"maps"
	"slices"
	"time"
)

// Stop ends a process: SIGTERM to its group, after the grace SIGKILL. The first reason stands.
func (e *Engine) Stop(task, reason string) {
	e.mu.Lock()
	x := e.procs[task]
	e.mu.Unlock()
	if x != nil {
		e.halt(x, reason)
	}
}

func (e *Engine) halt(x *proc, reason string) {
	_, grace := e.limits()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.stop != "" || x.timeout {
		return
	}
	switch {
	case x.p == nil: // being started: fork looks
		x.stop = reason
	case x.p.signal(sigTerm):
		x.stop = reason
		e.kill(x, grace)
		e.sweeper.stop(x.spec.Task, x.p.group())
	}
}

// kill is called with x.mu held, after SIGTERM.
func (e *Engine) kill(x *proc, after time.Duration) {
	if x.waiting != nil {
		x.waiting.Stop()
	}
	p := x.p
	x.waiting = time.AfterFunc(after, func() { p.signal(sigKill) })
}

func (e *Engine) timeUp(x *proc) {
	_, grace := e.limits()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended || x.stop != "" || x.timeout || !x.p.signal(sigTerm) {
		return
	}
	x.timeout = true
	e.kill(x, grace)
	e.sweeper.stop(x.spec.Task, x.p.group())
}

// StopAll ends everything that runs.
func (e *Engine) StopAll(reason string) {
	for _, x := range e.present() {
		e.halt(x, reason)
	}
}

// KillAll ends everything that runs, at once, also what was asked to stop before and has some of
// its grace left.
func (e *Engine) KillAll(reason string) {
	e.Configure(0, time.Nanosecond)
	e.StopAll(reason)
	for _, x := range e.present() {
		x.mu.Lock()
		if x.p != nil && !x.ended { // otherwise fork looks
			e.kill(x, 0)
		}
		x.mu.Unlock()
	}
}

func (e *Engine) present() []*proc {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.AppendSeq(make([]*proc, 0, len(e.procs)), maps.Values(e.procs))
}

// Close lets nothing start any more, stops what runs and waits until all has ended.
func (e *Engine) Close(reason string) error {
	e.mu.Lock()
	if e.shut {
		e.mu.Unlock()
		return nil
	}
	e.shut = true
	e.mu.Unlock()
	e.queued.Broadcast()
	e.StopAll(reason)
	close(e.quit)
	e.all.Wait()
	e.reaper.close()
	e.sweeper.close()
	e.Detach()
	e.cfg.Groups.Close()
	_ = e.null.Close()
	e.ends.close()
	return e.records.close()
}
