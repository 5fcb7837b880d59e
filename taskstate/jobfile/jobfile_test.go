package jobfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t *testing.T, name, text string) *taskstate.Job {
	t.Helper()
	j, err := jobfile.Parse(name, []byte(text), jobfile.Options{ReadFile: lists})
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return j
}

func TestTheSmallestFileHasEveryDefault(t *testing.T) {
	got := mustParse(t, "some/dir/Frame Maker.v2.yaml", "run: {process: {command: [hostname]}}")
	want := &taskstate.Job{
		Name: "frame-maker-v2", Type: taskstate.BatchJob, Count: 1,
		Run:         taskstate.Run{Process: &taskstate.Process{Command: []string{"hostname"}}},
		Resources:   taskstate.Resources{MilliCPU: 1000},
		Unreachable: taskstate.Unreachable{ReplaceAfter: 10_000}, Priority: 50,
	}
	if d := cmp.Diff(want, got, ignoreUnexported()); d != "" {
		t.Error(d)
	}
}

func TestEveryKeyReachesTheJob(t *testing.T) {
	got := mustParse(t, "x.yaml", `
# every key that is built
name: frames
type: batch
each: [a.jpg, "b c.jpg", 007, 1.50, true]
run:
  process:
    command: [convert, "${COVEY_ITEM}", -scale, 5, out.png]
    env: {K: v, N: 4, EMPTY: "", ON: yes}
    dir: work/here
    shell: false
resources: {cpus: 0.5, memory: 256MiB, disk: 20GiB, gpus: 2, license: 1, floating-seats: 3, tpus: 0}
constraints: ["peer.os == linux", peer.memory >= 8GiB]
placement: {strategy: spread, over: peer.label.zone, max_per_peer: 2}
parallel: 50
restart: {condition: on-failure, attempts: 3, delay: 1s, window: 1h}
unreachable: {wait: true}
timeout: 10m
max_fails: 5
after: [other-job, k3v5q7x2ab]
priority: 70
`)
	want := &taskstate.Job{
		Name: "frames", Type: taskstate.BatchJob, Count: 5, Each: []string{"a.jpg", "b c.jpg", "007", "1.50", "true"},
		Run: taskstate.Run{Process: &taskstate.Process{
			Command: []string{"convert", "${COVEY_ITEM}", "-scale", "5", "out.png"},
			Env:     map[string]string{"K": "v", "N": "4", "EMPTY": "", "ON": "yes"}, Dir: "work/here",
		}},
		Resources: taskstate.Resources{MilliCPU: 500, Memory: 256 << 20, Disk: 20 << 30, Others: "floating-seats=3,gpus=2,license=1"}, Timeout: 600_000, Parallel: 50,
		Unreachable: taskstate.Unreachable{Wait: true}, MaxPerPeer: 2, Constraints: []string{"peer.os == linux", "peer.memory >= 8GiB"},
		Strategy: taskstate.Spread, Over: "peer.label.zone", MaxFails: 5, After: []taskstate.JobID{"other-job", "k3v5q7x2ab"}, Priority: 70,
		Restart: &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 3, Delay: 1000, Window: 3_600_000},
	}
	if d := cmp.Diff(want, got, ignoreUnexported()); d != "" {
		t.Error(d)
	}
}

func ignoreUnexported() cmp.Option {
	return cmp.FilterPath(func(p cmp.Path) bool { return strings.HasPrefix(p.Last().String(), "._") }, cmp.Ignore())
}

func TestWaysToWriteTheSame(t *testing.T) {
	for what, text := range map[string]string{
		"one line of shell":  "run: {process: {command: \"echo a; echo b\", shell: true}}",
		"shell comes first":  "run: {process: {shell: true, command: [\"echo a; echo b\"]}}",
		"windows line ends":  "run:\r\n  process:\r\n    shell: true\r\n    command: echo a; echo b\r\n",
		"a byte order mark":  "\ufeffrun: {process: {command: \"echo a; echo b\", shell: true}}",
		"a document's marks": "---\nrun: {process: {command: \"echo a; echo b\", shell: true}}\n...\n",
		"comments":           "# first\nrun: # here\n  process: # and here\n    # and here\n    shell: true\n    command: echo a; echo b # end\n# last\n",
	} {
		if got := mustParse(t, "x.yaml", text).Run.Process; !got.Shell || !reflect.DeepEqual(got.Command, []string{"echo a; echo b"}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestAScriptInAFileKeepsItsLines(t *testing.T) {
	got := mustParse(t, "x.yaml", "run:\n  process:\n    shell: true\n    command: |\n      set -e\n      if [ a = [ ]; then\n        echo 'b: {c'\n      fi\n").Run.Process.Command
	if want := "set -e\nif [ a = [ ]; then\n  echo 'b: {c'\nfi\n"; len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got = mustParse(t, "x.yaml", "run:\n  process:\n    shell: true\n    command: >-\n      echo a\n      b").Run.Process.Command
	if len(got) != 1 || got[0] != "echo a b" {
		t.Errorf("folded: got %q", got)
	}
}

func TestAnExplicitZeroIsNotADefault(t *testing.T) {
	got := mustParse(t, "x.yaml", "run: {process: {command: [a]}}\nresources: {cpus: 0}\nunreachable: {replace_after: 0s}\n")
	if got.Resources.MilliCPU != 0 || got.Unreachable.ReplaceAfter != 0 || got.Unreachable.Wait {
		t.Errorf("%+v %+v", got.Resources, got.Unreachable)
	}
	if got := mustParse(t, "x.yaml", "run: {noop: {duration: 250ms}}\nunreachable: {wait: false}"); got.Resources.MilliCPU != 0 || got.Run.Noop.Duration != 250 || got.Unreachable.ReplaceAfter != 10_000 {
		t.Errorf("a noop takes nothing: %+v", got)
	}
}

func TestALineOfAListIsASlot(t *testing.T) {
	got := mustParse(t, "x.yaml", "each_line: list.txt\nrun: {noop: {}}")
	if want := []string{"a.jpg", "b c.jpg", "last"}; !reflect.DeepEqual(got.Each, want) || got.Count != 3 {
		t.Errorf("%q in %d slots", got.Each, got.Count)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "list"), []byte("one\ntwo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"list", "./list", filepath.Join(dir, "list")} {
		j, err := jobfile.Parse(filepath.Join(dir, "job.yaml"), []byte("each_line: "+path+"\nrun: {noop: {}}"), jobfile.Options{})
		if err != nil || len(j.Each) != 2 {
			t.Errorf("%s, from the job file's folder: %v", path, err)
		}
	}
	_, err := jobfile.Parse(filepath.Join(dir, "job.yaml"), []byte("each_line: .\nrun: {noop: {}}"), jobfile.Options{})
	if err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("a folder for a list: %v", err)
	}
}

func TestAFileIsBounded(t *testing.T) {
	big := []byte("run: {noop: {}}\n#" + strings.Repeat("x", jobfile.MaxFile))
	if _, err := jobfile.Parse("big.yaml", big, jobfile.Options{}); err == nil || !strings.Contains(err.Error(), "each_line") {
		t.Errorf("got %v", err)
	}
	_, err := jobfile.Parse("x.yaml", []byte("run: {noop: {}}\nname: \"\xff\"\n"), jobfile.Options{})
	var e *jobfile.Error
	if !errors.As(err, &e) || e.Line != 2 || e.Col != 8 {
		t.Errorf("not UTF-8: %v", err)
	}
}

func TestNothingSmallBecomesLargeOrSlow(t *testing.T) {
	deep := 200_000
	for what, text := range map[string]string{
		"laughs":        "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\neach: *c\n",
		"brackets":      strings.Repeat("[", deep),
		"braces":        strings.Repeat("{a: ", deep),
		"dashes":        strings.Repeat("- ", deep),
		"questions":     strings.Repeat("? ", deep),
		"steps":         steps(600),
		"keys":          strings.Repeat("k: 1\n", deep),
		"empty items":   "each:\n" + strings.Repeat("-\n", deep),
		"indented ones": "each:\n" + strings.Repeat("  -\n  # none\n", deep/4),
		"documents":     strings.Repeat("--- a\n", deep/2),
		"block in flow": "a: [" + strings.Repeat("\n - [", 1000),
	} {
		if _, err := jobfile.Parse("x.yaml", []byte(text), jobfile.Options{ReadFile: lists}); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// steps nests a block n deep, one space at a time.
func steps(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestAsManyItemsAsAFrameHolds(t *testing.T) {
	many := "run: {noop: {}}\neach_line: many\n"
	read := func(size, n int) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(strings.Repeat(strings.Repeat("i", size)+"\n", n)), nil }
	}
	j, err := jobfile.Parse("x.yaml", []byte(many), jobfile.Options{ReadFile: read(9, jobfile.MaxItems/9)})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := wire.Marshal(j); err != nil || len(b) > jobfile.MaxJob {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for what, f := range map[string]func(string) ([]byte, error){
		"long items": read(1000, 1000), "short items": read(1, 600_000), "a long list": read(10, 500_000), "too many slots": read(1, jobfile.MaxCount+1),
	} {
		_, err := jobfile.Parse("x.yaml", []byte(many), jobfile.Options{ReadFile: f})
		if err == nil || !strings.Contains(err.Error(), "x.yaml:") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// FuzzParse: whatever the file, Parse ends with a place in the file or a job that every peer
// accepts and that survives the wire.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"run: {process: {command: [hostname]}}\n", "each_line: list.txt\nrun:\n  noop:\n    duration: 5s\n", "name: x\ncount: 3\nrun: {noop: {}}\n",
		"run:\n  process:\n    command: |\n      a\n    shell: true\n    env: {A: b}\nresources: {cpus: 1.5, memory: 1GB, gpus: 1, seats: 2}\n",
		"type: service\ncount: 0\nrun: {noop: {}}\nrestart: {attempts: 3, window: 1h}\nupdate: {parallelism: 2, max_failure_ratio: 0.2, order: start-first}\n",
		"type: global\nrun: {noop: {}}\nconstraints: [peer.os == linux]\nafter: [a]\npriority: 0\n",
		"matrix: {size: [s, l], seed: [1, 2]}\nrun: {noop: {}}\nschedule: {cron: \"*/5 9-17 1,15 * MON-FRI\", zone: Europe/Berlin, overlap: skip}\n", "- a", "a: [", "? a\n: b", "a: &x b", "\t",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		j, err := jobfile.Parse("x.yaml", []byte(text), jobfile.Options{ReadFile: lists})
		if err != nil {
			var all jobfile.Errors
			if !errors.As(err, &all) || len(all) == 0 || len(all) > 10 {
				t.Fatalf("not an Errors: %v", err)
			}
			for _, e := range all {
				if e.Line < 1 || e.Col < 1 || e.Msg == "" || e.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+2 {
					t.Fatalf("an error without a place: %+v", e)
				}
			}
			return
		}
		if err := jobfile.Validate(j); err != nil {
			t.Fatalf("parsed and invalid: %v", err)
		}
		b, err := wire.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		var back taskstate.Job
		if err := wire.Unmarshal(b, &back); err != nil {
			t.Fatalf("it does not survive the wire: %v", err)
		}
	})
}
