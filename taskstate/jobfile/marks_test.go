package jobfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

func TestAMarkInAJobFileIsTheItemOrTheValueOfAnAxis(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"each: [a]\nrun: {process: {command: [echo, 'x{}', '\\{}']}}", `echo|x{}|\{}|filled`},
		{"each: [a]\nrun: {process: {command: [echo, '\\{}']}}", "echo|{}"},
		{"array: 1-3\nrun: {process: {shell: true, command: 'echo {}'}}", "echo {}|filled"},
		{"array: 1-3\nrun: {process: {shell: true, command: 'echo \\{}'}}", `echo \{}`},
		{"array: 1,3\nrun: {process: {script: \"#!/bin/sh\\necho {}\", command: ['{}']}}", "{}|filled"},
		{
			"matrix: {lr: [1], size: [s]}\nrun: {process: {command: ['{}', '{lr}-{size}', '\\{lr}', '${lr}', '{lr,size}', '{\"lr\":1}', '{x}']}}",
			`{}|${COVEY_LR}-${COVEY_SIZE}|{lr}|${lr}|{lr,size}|{"lr":1}|{x}|filled`,
		},
		{"matrix: {lr: [1]}\nrun: {process: {shell: true, command: 'echo {lr} \"{lr}\" \\{lr} ${lr}'}}", `echo "${COVEY_LR}" "${COVEY_LR}" \{lr} ${lr}`},
		{"run: {process: {command: ['{}', '\\{}']}}", `{}|\{}`},
		{"count: 3\nrun: {process: {command: ['{}']}}", "{}"},
	} {
		j, err := jobfile.Parse("x.yaml", []byte(c.file), jobfile.Options{})
		if err != nil {
			t.Errorf("%s\n%v", c.file, err)
			continue
		}
		got := strings.Join(j.Run.Process.Command, "|")
		if j.Run.Process.Braces {
			got += "|filled"
		}
		if got != c.want {
			t.Errorf("%s\n%s, want %s", c.file, got, c.want)
		}
	}
}

func TestWhatIsAlmostAMarkIsRefusedWithTheWordThatWasMeant(t *testing.T) {
	const axes = "matrix: {lr: [1], size: [s]}\n"
	for file, want := range map[string]string{
		"run: {process: {command: [echo, '{lrr}']}}":                                    `x.yaml:2:33: run.process.command[1]: there is no {lrr} to fill in: did you mean {lr}? For the text {lrr} itself write \{lrr}`,
		"run: {process: {command: [echo, 'a{LR}']}}":                                    "did you mean {lr}?",
		"run: {process: {shell: true, command: 'echo {sise}'}}":                         `run.process.command: there is no {sise} to fill in: did you mean {size}? For the text {sise} itself write \{sise}`,
		"run: {process: {shell: true, command: \"echo '{sise}'\"}}":                     `For the text {sise} itself write {''sise}`,
		"run: {process: {shell: true, command: \"echo '{lr}'\"}}":                       `{lr} stands inside single quotes, where an item cannot be put in safely: end the quotes before it, as in 'a '{lr}' b', or use "$COVEY_LR"`,
		"run: {process: {shell: true, command: \"echo '{}'\"}}":                         "{} stands inside single quotes",
		"outputs: ['{lr}.txt']\nrun: {process: {command: [x]}}":                         "outputs[0]: nothing is filled in here",
		"outputs: {globs: [a, 'b{sise}'], missing: ok}\nrun: {process: {command: [x]}}": "outputs[1]: nothing is filled in here",
	} {
		if _, err := jobfile.Parse("x.yaml", []byte(axes+file), jobfile.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", file, err, want)
		}
	}
}

func TestAnAxisIsAListOrARange(t *testing.T) {
	for in, want := range map[string]string{
		"1-3": "1 2 3", "08-10": "08 09 10", "1-5:2": "1 3 5", "'1-2,7'": "1 2 7", "['1-3']": "1-3", "[a, b]": "a b",
	} {
		j, err := jobfile.Parse("x.yaml", []byte("matrix: {seed: "+in+"}\nrun: {process: {command: [x]}}"), jobfile.Options{})
		if err != nil || strings.Join(j.Matrix[0].Values, " ") != want {
			t.Errorf("%s: %+v, %v", in, j, err)
		}
	}
	for in, want := range map[string][]string{
		"1-3": {"1", "2", "3"}, "a,1-2,7": {"a", "1", "2", "7"}, "5": {"5"}, "": {""}, "a-b": {"a-b"}, "2024-01": {"2024-01"}, "01-02,1.5": {"01", "02", "1.5"}, "1-3:2,x:1": {"1", "3", "x:1"},
	} {
		if got, err := jobfile.AxisValues(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"1-2000000", "1-600000,1-600000"} {
		if got, err := jobfile.AxisValues(in); err == nil || !strings.Contains(err.Error(), "the most a job has") {
			t.Errorf("%q: %d values, %v", in, len(got), err)
		}
	}
	if _, err := jobfile.Parse("x.yaml", []byte("matrix: {seed: 1-2000000}\nrun: {noop: {}}"), jobfile.Options{}); err == nil || !strings.Contains(err.Error(), "x.yaml:1:16: matrix.seed: 1-2000000 are more than") {
		t.Error(err)
	}
}

// A job that 0.2 made, or a program, has words that only look like marks: they stay what they are.
func TestAJobThatIsSubmittedAgainFromItsFileRunsTheSame(t *testing.T) {
	j := &taskstate.Job{Name: "x", Matrix: []taskstate.Axis{{Name: "size", Values: []string{"s"}}}, Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"{}", `\{}`, "{size}", `\{sise}`, "${size}"}}}}
	jobfile.Defaults(j)
	if got := rewritten(t, j).Run.Process; !slices.Equal(got.Command, j.Run.Process.Command) || got.Braces {
		t.Errorf("%q, %v", got.Command, got.Braces)
	}
}
