package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/taskstate"
)

// letters are the short flags, and the long ones that they may stand for.
var letters = map[string][]string{
	"d": {"detach"}, "e": {"env"}, "f": {"follow"}, "h": {"help"}, "i": {"stdin"}, "j": {"parallel"},
	"n": {"tail", "limit", "peers"}, "o": {"output"}, "v": {"version"},
}

// sectionOf is what a heading of docs/coming-from.md is over.
func sectionOf(t *testing.T, heading string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(b), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no %s", heading)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

func TestOneLetterMeansTheSameInEveryCommandAndIsInTheDocuments(t *testing.T) {
	table, seen := sectionOf(t, "Short flags"), map[string]bool{}
	for _, cmd := range everyCommand() {
		cmd.InitDefaultHelpFlag()
		cmd.InitDefaultVersionFlag()
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand == "" {
				return
			}
			seen[f.Shorthand] = true
			row := regexp.MustCompile("(?m)^\\| `-" + f.Shorthand + "` \\|.*`--" + f.Name + "`")
			if !slices.Contains(letters[f.Shorthand], f.Name) || !row.MatchString(table) {
				t.Errorf("%s -%s is --%s", cmd.CommandPath(), f.Shorthand, f.Name)
			}
		})
	}
	if len(seen) != len(letters) || strings.Count(table, "\n| `-") != len(letters) {
		t.Errorf("%d letters are used, %d are in the table, and %d known", len(seen), strings.Count(table, "\n| `-"), len(letters))
	}
}

func TestAWordOfAnotherProgramAnswersWhatItIsCalledHere(t *testing.T) {
	table, root := sectionOf(t, "Words"), (&cli{}).root()
	for word, here := range calledHere {
		if cmd, _, err := root.Find([]string{word}); err == nil && cmd != root {
			t.Errorf("%s is a command", word)
		}
		if !strings.Contains(table, "`"+word+"`") {
			t.Errorf("%s is not in the documents", word)
		}
		for _, words := range [][]string{{word}, {word, "-a", "x"}, {"help", word}} {
			if code, out, talk := runWithout(t, words...); code != 2 || out != "" || !strings.Contains(talk, `unknown command "`+word+`": here it is `) {
				t.Errorf("%v: exit %d, %q, %q; want %q", words, code, out, talk, here)
			}
		}
	}
	if n := len(calledHere); strings.Count(strings.Split(table, "\nA test")[0], "`")/2 < n {
		t.Errorf("%d words", n)
	}
}

func TestAFlagOfAnotherProgramAnswersWhatItIsCalledHere(t *testing.T) {
	for word, here := range flagHere {
		known := false
		for _, cmd := range everyCommand() {
			if known = known || cmd.Flag(here) != nil; cmd.Flag(word) == nil && cmd.Flag(here) != nil && nearestFlag(cmd, word) != here {
				t.Errorf("%s --%s", cmd.CommandPath(), word)
			}
		}
		if !known {
			t.Errorf("there is no --%s", here)
		}
	}
	if code, _, talk := runWithout(t, "run", "-it", "--", "bash"); code != 125 || !strings.Contains(talk, "tasks have no terminal") {
		t.Errorf("exit %d, %q", code, talk)
	}
}

func TestHelpListsTheUsualCommandsInGroupsAndWithAllTheOthersToo(t *testing.T) {
	listed := func(words ...string) (names []string) {
		code, out, _ := runWithout(t, words...)
		if code != 0 {
			t.Errorf("%v: exit %d", words, code)
		}
		_, out, _ = strings.Cut(out, "\nUsage:\n")
		out, _, _ = strings.Cut(out, "\nFlags:\n")
		for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  +[A-Z]`).FindAllStringSubmatch(out, -1) {
			names = append(names, m[1])
		}
		return names
	}
	var grouped []string
	for _, g := range groups {
		names := strings.Fields(g.commands)
		slices.Sort(names)
		grouped = append(grouped, names...)
	}
	few, all := listed("--help"), listed("--help", "--all")
	if !slices.Equal(few, grouped) || !slices.Equal(listed(), grouped) {
		t.Errorf("%q, want %q", few, grouped)
	}
	for _, cmd := range (&cli{}).root().Commands() {
		if !cmd.Hidden && !slices.Contains(all, cmd.Name()) {
			t.Errorf("%s is left out", cmd.Name())
		}
	}
	if !slices.Equal(all, listed("help", "--all")) {
		t.Error("help --all lists others")
	}
}

func TestAFailedTaskThatNamesAFileOfTheFolderHereIsToldHowItComesAlong(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"render", "train.py", "a.flac"} {
		if err := os.WriteFile(name, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	job := func(words ...string) *taskstate.Job {
		return &taskstate.Job{Run: taskstate.Run{Process: &taskstate.Process{Command: words}}}
	}
	with, script := job("./render"), job("./render")
	with.Inputs = []taskstate.Input{{Name: "x"}}
	script.Run.Process.Script = []byte("#!/bin/sh\n")
	says := func(with string) string {
		return "peer: a task starts in an empty folder; bring " + with + " or --in .\n"
	}
	for name, c := range map[string]struct {
		job  *taskstate.Job
		item string
		want string
	}{
		"a program":        {job("./render", "x"), "", says("render with --script render")},
		"its file":         {job("python3", "train.py"), "", says("train.py with --in train.py")},
		"within a line":    {job("sh", "-c", "python3 'train.py'; true"), "", says("train.py with --in train.py")},
		"an item":          {job("flac", "{}"), "a.flac", says("a.flac with --in a.flac")},
		"a word that is a": {job("echo", "render"), "", ""},
		"not here":         {job("./other"), "", ""},
		"with inputs":      {with, "", ""},
		"with a script":    {script, "", ""},
	} {
		var talk strings.Builder
		a := &attached{Streams: Streams{Err: &talk}, bare: bareWords(c.job)}
		a.tellOfFolder(c.item)
		a.tellOfFolder(c.item)
		if talk.String() != c.want {
			t.Errorf("%s: %q, want %q", name, talk.String(), c.want)
		}
	}
}

func TestNoExampleRunsAFileThatItDoesNotBring(t *testing.T) {
	for _, cmd := range everyCommand() {
		for line := range strings.SplitSeq(cmd.Long+"\n"+cmd.Example, "\n") {
			if strings.Contains(line, "-- ./") && !strings.Contains(line, "--in ") {
				t.Errorf("%s: %s", cmd.CommandPath(), line)
			}
		}
	}
}
