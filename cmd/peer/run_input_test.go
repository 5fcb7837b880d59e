package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// endless never stops giving lines.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "y\n"[i%2]
	}
	e.read += len(p)
	return len(p), nil
}

func TestItemsOnStdinAreReadAsInAJobFile(t *testing.T) {
	for in, want := range map[string][]string{"a\nb": {"a", "b"}, "a\r\nb\r\n": {"a", "b"}, "\ufeffa\n": {"a"}, " a \n \t\n\nb\n": {" a ", "b"}} {
		f := runFlags{eachLine: "-"}
		j, err := f.job([]string{"true"}, strings.NewReader(in))
		if err != nil || !slices.Equal(j.Each, want) || j.Count != len(want) {
			t.Errorf("%q: %+v, %v", in, j, err)
		}
		file := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(file, []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
		f = runFlags{eachLine: file}
		if j, err := f.job([]string{"true"}, nil); err != nil || !slices.Equal(j.Each, want) {
			t.Errorf("%q in a file: %+v, %v", in, j, err)
		}
	}
	for in, says := range map[string]string{"": "nothing to run", "\n \n": "nothing to run", "a\x00b": "zero bytes"} {
		f := runFlags{eachLine: "-"}
		_, err := f.job([]string{"true"}, strings.NewReader(in))
		if e := api.AsError(err); e == nil || e.Code != api.Usage || !strings.Contains(e.Message, says) {
			t.Errorf("%q: %v, want %q", in, err, says)
		}
	}
}

func TestInputsFromAnotherJobAreNamedInOneWord(t *testing.T) {
	for text, want := range map[string]taskstate.Input{
		"from:parts":           {From: "parts", Name: "parts"},
		"from:parts:in/a":      {From: "parts", Name: "in/a"},
		"from:parts.same":      {From: "parts", Name: "parts", SameSlot: true},
		"from:last.same:mine":  {From: "last", Name: "mine", SameSlot: true},
		"from:2p4mk7:.":        {From: "2p4mk7", Name: "."},
		"./from:parts":         {Name: "parts"}, // a path
		"from:parts:":          {},
		"from::parts":          {},
		"from:":                {},
		"from:parts.3:in":      {},
		"from:parts.same.same": {},
	} {
		in, path, err := parseInput(text)
		if in.Name == "" {
			in = taskstate.Input{}
		}
		if in != want || (err != nil) != (want.Name == "") || (path != "") != (want.From == "" && err == nil) {
			t.Errorf("%q: %+v, path %q, %v", text, in, path, err)
		}
	}
}

func TestAnEndlessListIsGivenUp(t *testing.T) {
	in := &endless{}
	f := runFlags{eachLine: "-"}
	_, err := f.job([]string{"true"}, in)
	if e := api.AsError(err); e == nil || e.Code != api.Usage || !strings.Contains(e.Message, "the list has more than 4,194,304 bytes") {
		t.Errorf("%v", err)
	}
	if in.read > 2*jobfile.MaxList {
		t.Errorf("%d bytes were read", in.read)
	}
	c := &cli{Streams: Streams{In: &endless{}}}
	if _, _, _, err := readJob("-", c.In); err == nil || !strings.Contains(err.Error(), "a job file has at most") {
		t.Errorf("an endless job file: %v", err)
	}
}

func TestAnExplicitZeroOfCPUsIsNotTheDefault(t *testing.T) {
	for cpus, want := range map[string]int64{"": jobfile.DefaultMilliCPU, "0": 0, "0.0": 0, "0m": 0, "0.5": 500, "2": 2000} {
		f := runFlags{cpus: cpus}
		j, err := f.job([]string{"true"}, nil)
		if err != nil || j.Resources.MilliCPU != want {
			t.Errorf("--cpus %q: %+v, %v", cpus, j.Resources, err)
		}
	}
}

func TestARangeIsReadStrictly(t *testing.T) {
	for in, want := range map[string][2]int{"1-100": {1, 100}, "0-0": {0, 1}, "7-7": {7, 1}, "5-1000004": {5, jobfile.MaxCount}} {
		f := runFlags{array: in}
		j, err := f.job([]string{"true"}, nil)
		if err != nil || !j.Numbered || j.First != want[0] || j.Count != want[1] {
			t.Errorf("%s: %+v, %v", in, j, err)
		}
	}
	for _, in := range []string{"-", "1-", "-1", "5-1", "a-b", "1-2-3", "1..5", " 1-2", "-5--1", "0-9223372036854775807", "1-1000001", "0x1-0x2", "99999999999999999999-1"} {
		f := runFlags{array: in}
		_, err := f.job([]string{"true"}, nil)
		if e := api.AsError(err); e == nil || e.Code != api.Usage || strings.Contains(e.Message, "got -") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestAScriptThatIsNoneIsRefused(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, says := range map[string]string{
		write("empty", nil): "is empty, so there is nothing to run", write("big", make([]byte, jobfile.MaxScript+9)): "at most 65,536 are allowed", dir: "directory",
		filepath.Join(dir, "none"): "there is no none in " + dir + "; check the name",
	} {
		f := runFlags{script: path}
		if _, err := f.job(nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
	f := runFlags{script: write("good", []byte("#!/bin/sh\n"))}
	if j, err := f.job([]string{"-x"}, nil); err != nil || string(j.Run.Process.Script) != "#!/bin/sh\n" || !slices.Equal(j.Run.Process.Command, []string{"-x"}) {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestFlagsThatExcludeEachOtherSaySo(t *testing.T) {
	for says, f := range map[string]runFlags{
		"use --array or --each-line, not both":                  {array: "1-2", eachLine: "-"},
		"use --at-most-once or --replace-after, not both":       {wait: true, replaceAfter: "1s"},
		"--cpus: expected a number of cpus":                     {cpus: "many"},
		"--memory: the unit of 1G is unclear":                   {memory: "1G"},
		"--timeout: no unit: write 10":                          {timeout: "10"},
		"--replace-after: expected a duration":                  {replaceAfter: "soon"},
		`--env "=v": expected K=V`:                              {env: []string{"=v"}},
		"run.process.env.COVEY_X: names that begin with COVEY_": {env: []string{"COVEY_X=1"}},
		"run.process.dir: expected a relative path":             {dir: "../x"},
		"parallel: expected 0 to":                               {parallel: -1},
	} {
		_, err := f.job([]string{"true"}, bytes.NewReader(nil))
		if e := api.AsError(err); e == nil || e.Code != api.Usage || !strings.Contains(e.Message, says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	f := runFlags{replaceAfter: "0"}
	if j, err := f.job([]string{"true"}, nil); err != nil || j.Unreachable.ReplaceAfter >= taskstate.DefaultReplaceAfter.Milliseconds() {
		t.Errorf("at once: %+v, %v", j, err)
	}
}
