package supervise

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However a task writes and whenever its files are looked at: the beginning is kept to the byte, the rest is counted, and the end says so once.
func TestOfOutputTheBeginningIsKeptAndTheRestCounted(t *testing.T) {
	home := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 300).Draw(t, "cap")
		for _, name := range Streams() {
			_ = os.Remove(filepath.Join(home, name))
		}
		o, err := openOutput(home, limit)
		if err != nil {
			t.Fatal(err)
		}
		task, err := openOutput(home, limit) // the task's own descriptors
		if err != nil {
			t.Fatal(err)
		}
		defer task.close()
		var kept [2]bytes.Buffer
		var lost [2]int64
		for i := range rapid.IntRange(0, 8).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "look") {
				over := o.look()
				for stream := range kept {
					lost[stream] += max(0, int64(kept[stream].Len())-limit)
					kept[stream].Truncate(min(kept[stream].Len(), int(limit)))
				}
				if over != (lost[0]+lost[1] > 0) {
					t.Fatalf("it was over its cap: %v, lost %v", over, lost)
				}
				continue
			}
			stream := rapid.IntRange(0, 1).Draw(t, "stream")
			b := bytes.Repeat([]byte{byte('a' + i)}, rapid.IntRange(0, 200).Draw(t, "bytes"))
			if _, err := task.files[stream].f.Write(b); err != nil {
				t.Fatal(err)
			}
			kept[stream].Write(b)
		}
		sizes, err := o.finish("j.1.1")
		if err != nil {
			t.Fatal(err)
		}
		for stream, name := range Streams() {
			want := kept[stream].String()
			if n := lost[stream] + max(0, int64(len(want))-limit); n > 0 {
				want = want[:limit] + fmt.Sprintf("\n[covey: %s of task j.1.1 was cut here, at its cap of %d bytes; at least %d bytes more were not kept]\n", name, limit, n)
			}
			got, err := os.ReadFile(filepath.Join(home, name))
			if err != nil || string(got) != want || sizes[stream] != int64(len(want)) {
				t.Fatalf("%s is %q (%d bytes are said, %v)\nnot %q", name, got, sizes[stream], err, want)
			}
		}
	})
}

// An end whose output cannot be completed is an end all the same.
func TestOutputThatCannotBeCompletedIsWarnedOfAndTheTaskEnds(t *testing.T) {
	home := t.TempDir()
	out, err := openOutput(home, 10)
	if err != nil {
		t.Fatal(err)
	}
	_ = out.files[1].f.Close() // as if the disk were gone
	var warned []string
	var told []Event
	e := &Engine{
		cfg: EngineConfig{Warn: func(s string) { warned = append(warned, s) }}, procs: map[string]*proc{}, taken: map[string]end{},
		sink: func(ev Event) { told = append(told, ev) },
	}
	e.ended(&proc{spec: Spec{Task: "a.1.1"}, out: out}, ending{exit: 3})
	if len(told) != 1 || told[0].Exit != 3 {
		t.Errorf("told %+v", told)
	}
	if len(warned) != 1 || !strings.Contains(warned[0], "output of task a.1.1 could not be completed") {
		t.Errorf("warned %q", warned)
	}
	e.cfg.Warn = nil
	e.warn("to nobody")
}
