package supervise

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// history is what an engine should know, told by what was done to it.
type history struct {
	dir     string
	lives   int
	engine  *Engine
	puppets map[string]*puppet // run
	ends    map[string]Event   // told or to be told, not acknowledged
	kept    map[string]bool    // of these, on disk
	old     map[string]Event   // acknowledged, and may still be in the file of ends
	peer    chan Event         // nil: nobody hears
	n       int
}

func (h *history) begin(t *rapid.T) {
	h.n++
	task := fmt.Sprintf("j.%d.1", h.n)
	rec, err := h.engine.records.begin(task, outputCap{})
	if err != nil {
		t.Fatal(err)
	}
	h.puppets[task] = newPuppet(0)
	h.engine.enrol(task, h.puppets[task], rec.slot)
}

// end ends one and waits until that is noted.
func (h *history) end(t *rapid.T) {
	task := rapid.SampledFrom(slices.Sorted(maps.Keys(h.puppets))).Draw(t, "task")
	exit := rapid.IntRange(0, 255).Draw(t, "exit")
	h.puppets[task].end(ending{exit: exit})
	delete(h.puppets, task)
	h.ends[task] = Event{Kind: Ended, Task: task, Exit: exit}
	if h.peer == nil {
		h.await(func() bool { _, over := h.engine.taken[task]; return over })
		h.keep()
		return
	}
	h.same(t, <-h.peer, h.ends[task])
}

// await waits for what another goroutine is about to do, without a clock.
func (h *history) await(ok func() bool) {
	for {
		h.engine.mu.Lock()
		done := ok()
		h.engine.mu.Unlock()
		if done {
			return
		}
		runtime.Gosched()
	}
}

func (h *history) keep() {
	for task := range h.ends {
		h.kept[task] = true
	}
}

func (h *history) same(t *rapid.T, got, want Event) {
	got.At, want.At = 0, 0
	if got != want {
		t.Fatalf("told %+v instead of %+v", got, want)
	}
}

// attach brings a peer and checks that it hears of all there is, once.
func (h *history) attach(t *rapid.T) {
	peer := make(chan Event, len(h.puppets)+len(h.ends)+len(h.old)+2)
	h.engine.Attach(func(e Event) { peer <- e })
	h.peer = peer
	missing := maps.Clone(h.ends)
	for task := range h.puppets {
		missing[task] = Event{Kind: Started, Task: task}
	}
	for {
		e := <-peer
		if e.Kind == synced {
			break
		}
		want, ok := missing[e.Task]
		if !ok {
			if want, ok = h.old[e.Task]; !ok { // only what is still in the file may be told once more
				t.Fatalf("told %+v, which is not to be told", e)
			}
			h.ends[e.Task], h.kept[e.Task] = want, true
		}
		delete(missing, e.Task)
		h.same(t, e, want)
	}
	if len(missing) > 0 {
		t.Fatalf("not told: %+v", missing)
	}
}

func (h *history) ack(t *rapid.T) {
	var tasks []string
	for _, task := range slices.Sorted(maps.Keys(h.ends)) {
		if rapid.Bool().Draw(t, task) {
			tasks = append(tasks, task)
			if h.kept[task] {
				h.old[task] = h.ends[task]
			}
			delete(h.ends, task)
			delete(h.kept, task)
		}
	}
	h.engine.Ack(append(tasks, "j.0.1")) // and one that nobody knows
	if len(h.kept) == 0 {
		h.old = map[string]Event{} // the file was emptied
	}
}

// crash goes on with a new engine in a folder as the old one's was at this moment.
func (h *history) crash(t *rapid.T) {
	next := filepath.Join(h.dir, fmt.Sprint(h.lives))
	h.lives++
	if err := os.Mkdir(next, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{runningFile, endsName} {
		b, err := os.ReadFile(filepath.Join(h.engine.cfg.Dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(next, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h.close(t)
	h.open(t, next)
	for task := range h.ends {
		if !h.kept[task] { // its peer has heard how it ended, or was about to
			h.ends[task] = Event{Kind: Lost, Task: task, Unseen: true}
		}
	}
	for task := range h.puppets {
		h.ends[task] = Event{Kind: Lost, Task: task, Unseen: true}
	}
	clear(h.puppets)
}

func (h *history) open(t *rapid.T, dir string) {
	var err error
	if h.engine, err = NewEngine(EngineConfig{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	h.peer = nil
}

func (h *history) close(t *rapid.T) {
	h.engine.Detach()
	if err := h.engine.Close("interrupted"); err != nil {
		t.Fatal(err)
	}
}

// A client that comes is told of everything that runs or has ended, as it was, until it has said
// that it knows; and a crash costs exit codes, never an end.
func TestEveryTaskIsToldOfUntilItsEndIsAcknowledgedWhateverHappensBetween(t *testing.T) {
	if BootID() == "" {
		t.Skip("boots cannot be told apart here")
	}
	dir := inMemory(t)
	rapid.Check(t, func(t *rapid.T) {
		sub, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		h := &history{dir: sub, puppets: map[string]*puppet{}, ends: map[string]Event{}, kept: map[string]bool{}, old: map[string]Event{}}
		h.open(t, sub)
		defer func() { h.close(t) }()
		t.Repeat(map[string]func(*rapid.T){
			"begin": h.begin,
			"end": func(t *rapid.T) {
				if len(h.puppets) > 0 {
					h.end(t)
				}
			},
			"attach": h.attach,
			"detach": func(*rapid.T) {
				h.engine.Detach()
				h.peer = nil
				h.keep()
			},
			"ack": func(t *rapid.T) {
				if h.peer != nil {
					h.ack(t)
				}
			},
			"crash": func(t *rapid.T) {
				if h.lives < 3 {
					h.crash(t)
				}
			},
			"idle": func(t *rapid.T) {
				idle := h.engine.Idle()
				if idle != (len(h.puppets) == 0) {
					t.Fatalf("%d run, and it is idle: %v", len(h.puppets), idle)
				}
				if idle && h.peer == nil {
					h.keep() // it may end now
				}
			},
		})
	})
}
