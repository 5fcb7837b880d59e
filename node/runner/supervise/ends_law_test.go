package supervise

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// inMemory is a folder on which fsync costs nothing, where there is one.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "covey-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// What was synced survives any crash, and a crash invents nothing: the file is cut or garbled at
// any byte behind what was synced.
func TestEndsThatWereSyncedSurviveACrash(t *testing.T) {
	dir := inMemory(t)
	path := filepath.Join(dir, endsName)
	rapid.Check(t, func(t *rapid.T) {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		e, left, err := openEnds(dir)
		if err != nil || len(left) > 0 {
			t.Fatal(left, err)
		}
		defer func() { e.close() }()
		added, synced := map[string]Event{}, map[string]Event{} // not taken yet
		forgotten := map[string]bool{}                          // taken: they may be told again, until all are
		ever := map[Event]bool{}                                // what was lost in one crash may come to light in the next
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				ev := Event{Kind: Ended, Task: rapid.StringN(1, 3, 12).Draw(t, "task"), Exit: rapid.IntRange(0, 255).Draw(t, "exit"), Err: rapid.String().Draw(t, "err")}
				if _, here := added[ev.Task]; here || forgotten[ev.Task] {
					return // a task has one end
				}
				if err := e.add(ev); err != nil {
					t.Fatal(err)
				}
				if err := e.add(Event{Kind: Ended, Task: ev.Task, Exit: -7}); err != nil {
					t.Fatal(err)
				}
				added[ev.Task], ever[ev] = ev, true
			},
			"sync": func(t *rapid.T) {
				if err := e.sync(); err != nil {
					t.Fatal(err)
				}
				synced = maps.Clone(added)
			},
			"gone": func(t *rapid.T) {
				tasks := slices.Sorted(maps.Keys(added))
				if len(tasks) == 0 {
					return
				}
				task := rapid.SampledFrom(tasks).Draw(t, "task")
				e.gone(task)
				e.gone(task)
				delete(added, task)
				delete(synced, task)
				if forgotten[task] = true; len(added) == 0 {
					forgotten = map[string]bool{}
				}
			},
			"crash": func(t *rapid.T) {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if n := int(e.safe); n < len(b) { // what was not synced may be there, or a part of it, or something else
					b = b[:rapid.IntRange(n, len(b)).Draw(t, "kept")]
					if len(b) > n && rapid.Bool().Draw(t, "garbled") {
						b[rapid.IntRange(n, len(b)-1).Draw(t, "where")] ^= 0x55
					}
				}
				e.close()
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				if e, left, err = openEnds(dir); err != nil {
					t.Fatal(err)
				}
				added = map[string]Event{}
				for _, ev := range left {
					if !ever[ev] {
						t.Fatalf("told %+v, which never was", ev)
					}
					if forgotten[ev.Task] {
						e.gone(ev.Task) // what took it takes it again
						continue
					}
					added[ev.Task] = ev
				}
				for task := range synced {
					if _, ok := added[task]; !ok {
						t.Fatalf("the end of %q was synced and is lost", task)
					}
				}
				synced = maps.Clone(added)
				if len(added) == 0 {
					forgotten = map[string]bool{}
				}
			},
		})
	})
}

func TestAnEndIsReadOnlyWhole(t *testing.T) {
	dir := t.TempDir()
	e, _, err := openEnds(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer e.close()
	for _, task := range []string{"a.1.1", "a.2.1"} {
		if err := e.add(Event{Kind: Ended, Task: task, Exit: 3}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, endsName))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(b) {
		want := 0
		if n >= len(b)/2 {
			want = 1
		}
		if left, good := parseEnds(b[:n]); len(left) != want || good != want*len(b)/2 {
			t.Errorf("of %d bytes %d ends and %d good bytes", n, len(left), good)
		}
		garbled := slices.Clone(b)
		garbled[n] ^= 1
		if left, _ := parseEnds(garbled); len(left) != want {
			t.Errorf("with byte %d changed: %d ends, want %d", n, len(left), want)
		}
	}
	if err := e.add(Event{Kind: Started, Task: "a.3.1"}); err != nil {
		t.Fatal(err)
	}
	if b, err = os.ReadFile(filepath.Join(dir, endsName)); err != nil {
		t.Fatal(err)
	}
	if left, _ := parseEnds(b); len(left) != 2 {
		t.Errorf("a start passes for an end: %+v", left)
	}
}
