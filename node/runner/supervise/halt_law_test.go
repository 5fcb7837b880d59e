package supervise

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// puppet is a process in name: it ends when it is told to, and notes what it is told.
type puppet struct {
	born  time.Time
	heeds time.Duration // from SIGTERM to its end; below zero: it does not heed it

	mu    sync.Mutex
	heard []string
	over  bool
	how   chan ending
}

func newPuppet(heeds time.Duration) *puppet {
	return &puppet{born: time.Now(), heeds: heeds, how: make(chan ending, 1)}
}

func (p *puppet) signal(sig syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return false
	}
	p.heard = append(p.heard, fmt.Sprint(int(sig), " at ", time.Since(p.born).Truncate(time.Millisecond)))
	switch {
	case sig == sigKill:
		p.over = true
		p.how <- ending{signal: int(sig)}
	case p.heeds >= 0:
		time.AfterFunc(p.heeds, func() { p.end(ending{exit: 1}) })
	}
	return true
}

func (p *puppet) group() int { return 0 }

func (p *puppet) wait() ending { return <-p.how }

func (p *puppet) end(how ending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.over = true
		p.how <- how
	}
}

// enrol makes a puppet one of the engine's processes, as fork and adopt do.
func (e *Engine) enrol(task string, p process, slot int) *proc {
	x := &proc{spec: Spec{Task: task}, p: p, slot: slot}
	e.mu.Lock()
	e.procs[task] = x
	e.mu.Unlock()
	e.await(x)
	return x
}

// A course is what happens to one process: when its time is up, when it would end by itself, and
// what is asked of it when. All moments are chosen so that no two are the same: those of orders end
// in 001, of the time limit in 200, of the grace in 300, of its obedience in 050, of its own end in
// 700.
type course struct {
	grace, limit, heeds, life time.Duration
	orders                    []demand
}

type demand struct {
	at     time.Duration
	all    bool // KillAll, else Stop
	reason string
}

func drawCourse(t *rapid.T) course {
	seconds := func(name string, low, high, plus int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, name)*1000+plus) * time.Millisecond
	}
	c := course{grace: seconds("grace", 0, 6, 300), limit: seconds("limit", 0, 12, 200), heeds: seconds("heeds", 0, 6, 50), life: seconds("life", 0, 20, 700)}
	if rapid.Bool().Draw(t, "deaf") {
		c.heeds = -1
	}
	for i, at := range rapid.SliceOfNDistinct(rapid.IntRange(0, 15), 0, 5, rapid.ID).Draw(t, "orders") {
		c.orders = append(c.orders, demand{at: time.Duration(at*1000+1) * time.Millisecond, all: rapid.Bool().Draw(t, "all"), reason: fmt.Sprint("reason ", i)})
	}
	slices.SortFunc(c.orders, func(a, b demand) int { return int(a.at - b.at) })
	return c
}

// fate is what becomes of it.
type fate struct {
	heard []string
	at    time.Duration
	end   Event
}

const never = time.Duration(1<<63 - 1)

// foretell is the rule, without clocks and locks: who comes first is obeyed, the grace counts from
// then, and KillAll waits for nobody.
func (c course) foretell() fate {
	var f fate
	f.end.Kind, f.end.Task, f.end.Exit, f.at = Ended, "a.1.1", 3, c.life
	asked, kill, limit, heeds := false, never, c.limit, never
	ask := func(at time.Duration) {
		asked, limit, kill = true, never, at+c.grace
		f.heard = append(f.heard, fmt.Sprint(int(sigTerm), " at ", at))
		if c.heeds >= 0 {
			heeds = at + c.heeds
		}
	}
	orders := c.orders
	for {
		next := never
		if len(orders) > 0 {
			next = orders[0].at
		}
		switch first := min(next, kill, limit, heeds, c.life); first {
		case c.life:
			return f
		case heeds:
			f.end.Exit, f.at = 1, heeds
			return f
		case kill:
			f.heard = append(f.heard, fmt.Sprint(int(sigKill), " at ", kill))
			f.end.Exit, f.end.Signal, f.at = 0, int(sigKill), kill
			return f
		case limit:
			f.end.Timeout = true
			ask(first)
		case next:
			if !asked {
				f.end.Reason = orders[0].reason
				ask(first)
			}
			if orders[0].all {
				kill = first
			}
			orders = orders[1:]
		}
	}
}

func (c course) play(t *testing.T) (f fate) {
	synctest.Test(t, func(t *testing.T) {
		var told []Event
		e := &Engine{cfg: EngineConfig{Grace: c.grace}, procs: map[string]*proc{}, taken: map[string]unackedEnd{}, sink: func(ev Event) { told = append(told, ev) }}
		p, born := newPuppet(c.heeds), time.Now()
		x := e.enrol("a.1.1", p, -1)
		x.mu.Lock()
		x.waiting = time.AfterFunc(c.limit, func() { e.timeUp(x) })
		x.mu.Unlock()
		time.AfterFunc(c.life, func() { p.end(ending{exit: 3}) })
		for _, o := range c.orders {
			time.AfterFunc(o.at, func() {
				if o.all {
					e.KillAll(o.reason)
				} else {
					e.Stop("a.1.1", o.reason)
				}
			})
		}
		e.all.Wait()
		f.at = time.Since(born).Truncate(time.Millisecond)
		time.Sleep(time.Minute) // what is still to come must not change anything
		p.mu.Lock()
		defer p.mu.Unlock()
		f.heard = p.heard
		if len(told) != 1 || told[0].At != born.UnixMilli()+f.at.Milliseconds() {
			t.Fatalf("told %+v of an end after %s", told, f.at)
		}
		f.end = told[0]
		f.end.At = 0
		if len(e.procs) != 0 || e.taken["a.1.1"].event != told[0] {
			t.Errorf("it runs on (%d), its end is %+v", len(e.procs), e.taken)
		}
	})
	return f
}

func TestAProcessEndsByWhatCameFirstAndIsKilledOnceItsGraceIsOver(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawCourse(rt)
		want, got := c.foretell(), c.play(t)
		if !slices.Equal(got.heard, want.heard) || got.at != want.at || got.end != want.end {
			rt.Fatalf("%+v\nis  %+v\nnot %+v", c, got, want)
		}
	})
}
