package jobfile_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestATextIsReadAsItIsSpelt(t *testing.T) {
	for in, want := range map[string]string{
		"-5": "-5", "+5": "+5", "1e3": "1e3", ".5": ".5", "1.": "1.", "0x10": "0x10", "0o17": "0o17", "1_000": "1_000", "-0.0": "-0.0", "0b11": "0b11",
		".inf": ".inf", "-.inf": "-.inf", ".nan": ".nan", "True": "True", "FALSE": "FALSE", "yes": "yes", "Off": "Off",
		"2026-01-01": "2026-01-01", "12:30:45": "12:30:45", "a#b": "a#b", "https://x.y/z?a=b&c": "https://x.y/z?a=b&c",
		"'it''s'": "it's", `"tab\t"`: "tab\t", `"\u00e4"`: "ä", "'null'": "null", `"~"`: "~", "'a # b'": "a # b",
	} {
		for form, text := range map[string]string{"in brackets": "each: [" + in + "]\n", "after a dash": "each:\n- " + in + "\n", "after a key": "each: [x]\nname: x\nmatrix: {}\n"} {
			if form == "after a key" {
				got := mustParse(t, "x.yaml", "run: {process: {command: [a], env: {V: "+in+"}}}\n").Run.Process.Env["V"]
				if got != want {
					t.Errorf("%s %s: %q, want %q", in, form, got, want)
				}
				continue
			}
			if got := mustParse(t, "x.yaml", text+"run: {noop: {}}\n").Each; !slices.Equal(got, []string{want}) {
				t.Errorf("%s %s: %q, want %q", in, form, got, want)
			}
		}
	}
}

func TestTheEndOfABlockIsAsItsMarkSays(t *testing.T) {
	head := "run:\n  process:\n    shell: true\n    command: "
	for body, want := range map[string]string{
		"|\n      a\n      b": "a\nb\n", "|\n      a\n      b\n": "a\nb\n", "|-\n      a\n": "a", "|-\n      a": "a", "|+\n      a\n": "a\n", "|+\n      a\n\n": "a\n\n",
		">\n      a\n      b\n": "a b\n", ">\n      a\n      b": "a b\n", ">-\n      a\n      b\n": "a b", ">+\n      a\n": "a\n",
	} {
		if got := mustParse(t, "x.yaml", head+body).Run.Process.Command[0]; got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// pieces are parts of a job file, of which each key is used once at most.
func pieces() map[string][]string {
	return map[string][]string{
		"name":        {"name: x-1", "name: 'y'", "name: 7"},
		"run":         {"run: {noop: {}}", "run:\n  process:\n    command:\n    - a\n    - 'b c'\n    env:\n      K: 1\n", "run:\n  process:\n    shell: true\n    command: |\n      echo a\n      echo b\n", "run: {noop: {duration: 5s}}"},
		"slots":       {"count: 3", "each: [a, b]", "each:\n- a\n- \"b\n  c\"\n", "matrix:\n  a: [1, 2]\n  b: [x]\n", "each_line: list.txt", "count: 0"},
		"type":        {"type: batch", "type: service", "type: global"},
		"resources":   {"resources: {cpus: 0.5, memory: 1GiB}", "resources:\n  gpus: 1\n  seats: 2\n", "resources: {cpus: 0}"},
		"unreachable": {"unreachable: {wait: true}", "unreachable: {replace_after: 3s}", "unreachable: {replace_after: 0}"},
		"restart":     {"restart: {}", "restart: {condition: any, attempts: 2, window: 1h}", "restart: {condition: none}"},
		"update":      {"update: {parallelism: 2, max_failure_ratio: .25}", "update: {}"},
		"placement":   {"placement: {strategy: binpack}", "placement:\n  over: peer.os\n  max_per_peer: 2\n"},
		"constraints": {"constraints: [peer.os == linux]", "constraints:\n- peer.name =~ ^a\n- peer.memory >= 1GiB\n"},
		"timeout":     {"timeout: 1h30m", "timeout: 1d"},
		"schedule":    {"schedule: 0 3 * * *", "schedule: {cron: '*/5 * * * *', zone: Europe/Berlin}"},
		"after":       {"after: [a, b]", "after: []"},
		"priority":    {"priority: 0", "priority: 100"},
	}
}

// drawFile puts pieces together in any order; often the result makes no sense.
func drawFile(t *rapid.T) string {
	all := pieces()
	keys := make([]string, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var lines []string
	for _, k := range rapid.Permutation(keys).Draw(t, "keys") {
		if k == "run" || rapid.IntRange(0, 2).Draw(t, k) == 0 {
			lines = append(lines, strings.TrimSuffix(rapid.SampledFrom(all[k]).Draw(t, k+" as"), "\n"))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestAFileMeansTheSameWhateverItsLineEndsAndComments(t *testing.T) {
	opts := jobfile.Options{ReadFile: lists}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := drawFile(t)
		want, err := jobfile.Parse("x.yaml", []byte(text), opts)
		for what, same := range map[string]string{
			"\\r\\n":            strings.ReplaceAll(text, "\n", "\r\n"),
			"\\r":               strings.ReplaceAll(text, "\n", "\r"),
			"no last line end":  strings.TrimSuffix(text, "\n"),
			"comments around":   "# first\n" + text + "# last",
			"a document's mark": "---\n" + text,
			"a byte order mark": "\ufeff" + text,
		} {
			got, err2 := jobfile.Parse("x.yaml", []byte(same), opts)
			if (err == nil) != (err2 == nil) {
				t.Fatalf("%s: %v, without: %v\n%s", what, err2, err, text)
			}
			if d := cmp.Diff(want, got, ignoreUnexported()); d != "" {
				t.Fatalf("%s:\n%s", what, d)
			}
		}
		if err == nil {
			accepted++
		}
	})
	if accepted < 3 {
		t.Errorf("only %d of the files made sense", accepted)
	}
}

func TestAJobThatIsReadIsCompleteAndStaysAsItIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, err := jobfile.Parse("x.yaml", []byte(drawFile(t)), jobfile.Options{ReadFile: lists})
		if err != nil {
			var all jobfile.Errors
			if !errors.As(err, &all) || !slices.IsSortedFunc(all, func(a, b *jobfile.Error) int { return a.Line - b.Line }) {
				t.Fatalf("faults out of order: %v", err)
			}
			return
		}
		if err := jobfile.Validate(j); err != nil {
			t.Fatalf("read and refused: %v", err)
		}
		if changes := taskstate.Changes(j, j); len(changes) > 0 {
			t.Fatalf("it differs from itself: %v", changes)
		}
	})
}

func TestAFaultIsOneLineThatNoKeyCanBreak(t *testing.T) {
	for _, shape := range []string{
		`run: {process: {command: [a], env: {KEY: 1}}}`, `run: {process: {command: [a], env: {KEY: ~}}}`, `{run: {noop: {}}, matrix: {KEY: [1]}}`, `{run: {noop: {}}, matrix: {KEY: }}`,
		`{run: {noop: {}}, resources: {KEY: 1}}`, `{run: {noop: {}}, KEY: 1}`, `{run: {noop: {}}, name: KEY}`, `{run: {noop: {}}, each_line: KEY}`, `{run: {noop: {}}, schedule: KEY}`,
		`{run: {noop: {}}, constraints: [KEY]}`, `{run: {noop: {}}, placement: {over: KEY}}`, `{run: {noop: {}}, timeout: KEY}`, `{run: {noop: {}}, after: [KEY]}`,
		`{run: {noop: {}}, schedule: {cron: 0 3 * * *, zone: KEY}}`, `{run: {process: {command: [a], dir: KEY}}}`, `{run: {noop: {}}, type: KEY}`,
	} {
		for _, key := range []string{`"/A\nB"`, `"/\e[31mred"`, `"/a\rb"`, `"/\x00"`, `"/\x7f"`} {
			text := strings.ReplaceAll(shape, "KEY", key)
			_, err := jobfile.Parse("x.yaml", []byte(text), jobfile.Options{ReadFile: lists})
			if err == nil {
				t.Errorf("%s was accepted", text)
				continue
			}
			for line := range strings.SplitSeq(err.Error(), "\n") {
				if !strings.HasPrefix(line, "x.yaml:1:") || strings.ContainsFunc(line, unicode.IsControl) {
					t.Errorf("%s: %q", text, line)
				}
			}
		}
	}
	j := process(func(_ *taskstate.Job, p *taskstate.Process) { p.Env = map[string]string{"A\nB": "", "\x1b[31m": ""} })
	if err := jobfile.Validate(j); err == nil || strings.Count(err.Error(), "\n") != 1 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("from elsewhere: %v", err)
	}
}

func TestKeysAreCountedWhetherTheyHaveAValueOrNot(t *testing.T) {
	many := func(n int, entry string) string {
		return "run: {noop: {}}\nmatrix: {" + strings.Repeat(entry+",", n) + "z: [1]}\n"
	}
	for entry, n := range map[string]int{"a": 5000, "a: [1]": 5000, "a\n ": 5000, "'a'": 5000, "a: {b}": 5000, "a: {b: 1}": 2500} {
		_, err := jobfile.Parse("x.yaml", []byte(many(n, entry)), jobfile.Options{})
		if err == nil || !strings.Contains(err.Error(), "more than 5,000 keys") {
			t.Errorf("%d times %q: %.200v", n, entry, err)
		}
	}
	if _, err := jobfile.Parse("x.yaml", []byte(many(4990, "a")), jobfile.Options{}); err == nil || strings.Contains(err.Error(), "more than 5,000 keys") {
		t.Errorf("4990 are not too many: %.200v", err)
	}
	items := mustParse(t, "x.yaml", "run: {noop: {}}\neach: ["+strings.Repeat("a,", 9_000)+"]\n")
	if items.Count != 9_000 {
		t.Errorf("items of a list are no keys: %d", items.Count)
	}
}

func TestAClosedBracketTooManyHidesNoDepth(t *testing.T) {
	text := "a: []" + strings.Repeat("]", 100) + strings.Repeat("[", 100)
	_, err := jobfile.Parse("x.yaml", []byte(text), jobfile.Options{})
	if err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Error(err)
	}
}
