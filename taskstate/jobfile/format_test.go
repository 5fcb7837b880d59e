package jobfile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// rewritten is a job after it was written as a file and read again.
func rewritten(t interface{ Fatalf(string, ...any) }, j *taskstate.Job) *taskstate.Job {
	b, err := jobfile.Format(j)
	if err != nil {
		t.Fatalf("%+v: %v", j, err)
	}
	again, err := jobfile.Parse("other.yaml", b, jobfile.Options{})
	if err != nil {
		t.Fatalf("%s\n%v", b, err)
	}
	return again
}

func TestAJobThatIsWrittenAsAFileIsTheSameJob(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := json.Marshal(anyJobFile(t).file)
		if err != nil {
			t.Fatal(err)
		}
		j, err := jobfile.Parse("x.yaml", b, jobfile.Options{})
		if err != nil {
			t.Fatalf("%s\n%v", b, err)
		}
		if d := cmp.Diff(j, rewritten(t, j)); d != "" {
			t.Fatalf("%s", d)
		}
	})
}

func TestEveryExampleIsWrittenAsTheSameJob(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var local []jobfile.LocalInput
		j, err := jobfile.Parse(f, b, jobfile.Options{Local: &local, Secrets: new([]jobfile.LocalSecret)})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range local {
			j.Inputs[l.Index].Ref = "b3:" + strings.Repeat("0", 64) + "/"
		}
		if d := cmp.Diff(j, rewritten(t, j)); d != "" {
			t.Errorf("%s: %s", f, d)
		}
	}
}

func TestAFileSaysWhatAPersonWouldWrite(t *testing.T) {
	j, err := jobfile.Parse("x.yaml", []byte(`
name: frames
array: 1-100
run:
  process:
    script: |
      #!/bin/sh
      echo "frame $1" # ${COVEY_ITEM}

      exit 0
    command: ["--fast", "${COVEY_ITEM}", "yes", "a b", "ends:", "é"]
    env: {LANG: C, EMPTY: ""}
resources: {cpus: 0.5, memory: 2GiB, gpus: 1}
restart: on-failure:3
unreachable: {wait: true}
max_output: 1GiB
timeout: 90m
schedule: {cron: "0 3 * * *", zone: Europe/Berlin}
priority: 0
`), jobfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := jobfile.Format(j)
	if err != nil {
		t.Fatal(err)
	}
	want := `name: frames
array: 1-100
run:
  process:
    command: ["--fast", "${COVEY_ITEM}", "yes", a b, "ends:", "é"]
    env:
      EMPTY: ""
      LANG: C
    script: |
      #!/bin/sh
      echo "frame $1" # ${COVEY_ITEM}

      exit 0
resources: {cpus: 0.5, memory: 2GiB, gpus: 1}
restart: {condition: on-failure, attempts: 3}
unreachable: {wait: true}
max_output: 1GiB
timeout: 1h30m
schedule:
  cron: "0 3 * * *"
  zone: Europe/Berlin
priority: 0
`
	if string(got) != want {
		t.Error(cmp.Diff(want, string(got)))
	}
}

func TestACommandIsWrittenWithTheMarksThatItsFileHas(t *testing.T) {
	each, matrix := []string{"a", "b"}, []taskstate.Axis{{Name: "size", Values: []string{"s"}}}
	for _, c := range []struct {
		want string
		p    taskstate.Process
		each []string
		axes []taskstate.Axis
	}{
		{`["x{}.png", "\\{}"]`, taskstate.Process{Command: []string{"x{}.png", `\{}`}, Braces: true}, each, nil},
		{`["\\{}"]`, taskstate.Process{Command: []string{`\{}`}, Braces: true}, each, nil}, // as 0.2 has it
		{`["\\{}"]`, taskstate.Process{Command: []string{"{}"}}, each, nil},
		{`["x${COVEY_ITEM}"]`, taskstate.Process{Command: []string{"x{}"}, Braces: true}, nil, nil}, // a program's
		{`["{}", "{size}"]`, taskstate.Process{Command: []string{"{}", "{size}"}}, nil, nil},
		{`["{}", "\\{size}", "\\{siez}", "{other}", "${size}"]`, taskstate.Process{Command: []string{"{}", "{size}", "{siez}", "{other}", "${size}"}, Braces: true}, nil, matrix},
		{`"echo {} \"{}\" \\{}"`, taskstate.Process{Command: []string{`echo {} "{}" \{}`}, Shell: true, Braces: true}, each, nil},
		{`"find . -exec ls \\{} \\; -o -name '{''}' \"{\"\"}\" # {}"`, taskstate.Process{Command: []string{`find . -exec ls {} \; -o -name '{}' "{}" # {}`}, Shell: true}, each, nil},
		{`"echo {} \\{size} '{''siez}'"`, taskstate.Process{Command: []string{`echo {} {size} '{siez}'`}, Shell: true, Braces: true}, nil, matrix},
	} {
		j := &taskstate.Job{Name: "x", Each: c.each, Matrix: c.axes, Run: taskstate.Run{Process: &c.p}}
		jobfile.Defaults(j)
		b, err := jobfile.Format(j)
		if err != nil || !strings.Contains(string(b), "command: "+c.want+"\n") {
			t.Errorf("%+v\nwant %s\n%s%v", c.p, c.want, b, err)
		}
	}
}

func TestWhatAFileCannotHoldIsRefusedAndNotWrittenWrong(t *testing.T) {
	for says, p := range map[string]taskstate.Process{
		"is a program and not text":        {Command: []string{"x"}, Script: []byte("\x7fELF\xff")},
		"{} stands inside backquotes":      {Command: []string{"echo `echo {}`"}, Shell: true},
		"{} stands behind a here-document": {Command: []string{"cat <<E\n{}\nE"}, Shell: true},
	} {
		j := &taskstate.Job{Name: "x", Each: []string{"a"}, Run: taskstate.Run{Process: &p}}
		jobfile.Defaults(j)
		if b, err := jobfile.Format(j); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", b, err)
		}
	}
}

// Scripts are kept to the letter, whatever is in them.
func TestAScriptIsWrittenToTheLetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.OneOf(rapid.StringMatching(`[ -~]{0,20}`), rapid.SampledFrom([]string{"", "\t", " ", "# x", "é", "%YAML", "---", "...", "a: b", "\r"}))
		text := "#!/bin/sh\n" + strings.Join(rapid.SliceOfN(line, 0, 6).Draw(t, "lines"), "\n") + rapid.SampledFrom([]string{"", "\n", "\n\n"}).Draw(t, "end")
		j := &taskstate.Job{Name: "x", Run: taskstate.Run{Process: &taskstate.Process{Script: []byte(text)}}}
		jobfile.Defaults(j)
		if got := rewritten(t, j).Run.Process.Script; string(got) != text {
			t.Fatalf("%q, not %q", got, text)
		}
	})
}
