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

// However a task writes and whenever its files are looked at: the beginning is kept to the byte,
// the rest is counted, and the end says so once, in stderr.
func TestOfOutputTheBeginningIsKeptAndTheRestCounted(t *testing.T) {
	home := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 300).Draw(t, "cap")
		for _, name := range Streams() {
			_ = os.Remove(filepath.Join(home, name))
		}
		o, err := openOutput(home, outputCap{limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		task, err := openOutput(home, outputCap{limit: limit}) // the task's own descriptors
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
		end, err := o.finish("j.1.1")
		if err != nil {
			t.Fatal(err)
		}
		var want [2]string
		var notes string
		for stream, name := range Streams() {
			want[stream] = kept[stream].String()
			n := lost[stream] + max(0, int64(len(want[stream]))-limit)
			if n > 0 {
				want[stream] = want[stream][:limit]
				notes += fmt.Sprintf("\n[covey: %s of task j.1.1 was cut at %d bytes, its cap; at least %d bytes more were not kept]\n", name, limit, n)
			}
			if end.cut[stream] != (n > 0) {
				t.Fatalf("%s lost %d bytes, and it is said: %v", name, n, end.cut[stream])
			}
		}
		want[1] += notes
		for stream, name := range Streams() {
			got, err := os.ReadFile(filepath.Join(home, name))
			if err != nil || string(got) != want[stream] || end.sizes[stream] != int64(len(want[stream])) {
				t.Fatalf("%s is %q (%d bytes are said, %v)\nnot %q", name, got, end.sizes[stream], err, want[stream])
			}
		}
	})
}

// An end whose output cannot be completed is an end all the same.
func TestOutputThatCannotBeCompletedIsWarnedOfAndTheTaskEnds(t *testing.T) {
	home := t.TempDir()
	out, err := openOutput(home, outputCap{limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	_ = out.files[1].f.Close() // as if the disk were gone
	var warned []string
	var told []Event
	e := &Engine{
		cfg: EngineConfig{Warn: func(s string) { warned = append(warned, s) }}, procs: map[string]*proc{}, taken: map[string]unackedEnd{},
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

// However a service writes and whenever its files are looked at: what is there is the newest, at
// least half of the cap of it, where it was written, and the rest takes no room. A reader that
// takes the files up later goes on with that.
func TestOfAServiceTheNewestOutputIsKeptWhereItWasWritten(t *testing.T) {
	home := t.TempDir()
	if f, err := openLog(filepath.Join(home, "probe")); err != nil || f.drop(0, dropAlign) != nil {
		t.Skip("this disk cannot give back the beginning of a file")
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(4*dropAlign, 64*dropAlign).Draw(t, "cap")
		for _, name := range Streams() {
			_ = os.Remove(filepath.Join(home, name))
		}
		kept := outputCap{limit: limit, newest: true}
		o, err := openOutput(home, kept)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { o.close() }()
		var all bytes.Buffer
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			b := bytes.Repeat([]byte{byte('a' + i)}, rapid.IntRange(0, 20*dropAlign).Draw(t, "bytes"))
			if _, err := o.files[0].f.Write(b); err != nil {
				t.Fatal(err)
			}
			all.Write(b)
			if rapid.Bool().Draw(t, "look") && o.look() {
				t.Fatal("something of a service was cut away")
			}
			if rapid.IntRange(0, 4).Draw(t, "another supervisor") == 0 {
				was := o.files[0].start
				o.close()
				if o, err = openOutput(home, kept); err != nil {
					t.Fatal(err)
				}
				if o.takeUp(); o.files[0].start > was || was-o.files[0].start >= dropAlign {
					t.Fatalf("it begins at %d, not at %d", o.files[0].start, was)
				}
			}
		}
		start := func() int64 { return o.files[0].start }
		end, err := o.finish("j.1.1")
		if err != nil || end.cut != [2]bool{} || end.sizes[0] != int64(all.Len()) {
			t.Fatalf("%+v of %d, %v", end, all.Len(), err)
		}
		there, err := os.ReadFile(filepath.Join(home, "stdout"))
		if err != nil || !bytes.Equal(there[start():], all.Bytes()[start():]) {
			t.Fatalf("what is kept from %d on is not what was written there; %v", start(), err)
		}
		if n := int64(all.Len()) - start(); n > limit || start() > 0 && n < limit/2 {
			t.Fatalf("%d bytes are kept of %d, the cap is %d", n, all.Len(), limit)
		}
		if len(bytes.Trim(there[:start()], "\x00")) > 0 {
			t.Fatal("what was dropped is there")
		}
		o.files[0].f, o.files[1].f = noLog, noLog
	})
}

// A task that may write much does not take the room that others need: on a disk that is low it
// keeps what it has, if that is more than tasks may write otherwise.
func TestOnADiskThatIsLowALargeCapIsNoMoreThanWhatIsThere(t *testing.T) {
	home := t.TempDir()
	const had = DefaultLogCap + 1000
	o, err := openOutput(home, outputCap{limit: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.files[0].f.Truncate(had); err != nil {
		t.Fatal(err)
	}
	o.secure(shortage{low: true, hold: minHold})
	o.secure(shortage{})
	if _, err := o.files[0].f.Write([]byte("more")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.files[1].f.Write([]byte("small")); err != nil {
		t.Fatal(err)
	}
	end, err := o.finish("j.1.1")
	if err != nil || end.cut != [2]bool{true, false} || end.sizes[0] != had {
		t.Errorf("%+v, %v", end, err)
	}
	if b, err := os.ReadFile(filepath.Join(home, "stderr")); !strings.HasPrefix(string(b), "small\n[covey: stdout of task j.1.1 was cut at") || !strings.Contains(string(b), "full disk") {
		t.Errorf("stderr is %q, %v", b, err)
	}
}
