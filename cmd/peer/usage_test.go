package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/node/api"
)

// everyCommand is the whole program, command by command.
func everyCommand() (all []*cobra.Command) {
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, sub := range cmd.Commands() {
			add(sub)
		}
	}
	root := (&cli{}).root()
	root.InitDefaultHelpCmd()
	add(root)
	return all
}

// run is one command line without a peer that would answer.
func runWithout(t *testing.T, words ...string) (code int, out, talk string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), append([]string{"--data", filepath.Join(t.TempDir(), "nobody")}, words...), Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

// The words that a flag's help has for a duration.
var namesADuration = regexp.MustCompile("`(D|DURATION)`")

func TestEveryFlagThatTakesADurationTakesItsUnitAndWantsIt(t *testing.T) {
	// Flags that are read with the whole command, with what that needs.
	words := map[string][]string{
		"peer run --timeout": {"--", "true"}, "peer run --replace-after": {"--", "true"}, "peer run --delay": {"--array", "1-2", "--", "true"},
		"peer logs --since": {"last"}, "peer audit --since": {},
	}
	read := map[string]string{"peer audit --since": "no audit log"} // from the disk, whether a peer answers or not
	seen := 0
	for _, cmd := range everyCommand() {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			which := cmd.CommandPath() + " --" + f.Name
			switch {
			case f.Value.Type() == "duration":
				seen++
				for text, good := range map[string]bool{"5s": true, "1d": true, "1h30m": true, "5": false, "soon": false, "-5s": false} {
					err := f.Value.Set(text)
					if (err == nil) != good || text == "5" && !strings.Contains(err.Error(), "no unit: write 5") {
						t.Errorf("%s %s: %v", which, text, err)
					}
				}
			case namesADuration.MatchString(f.Usage):
				seen++
				rest, known := words[which]
				if !known {
					t.Errorf("%s is a duration by its help and no flag of that type: say here how it is read", which)
					return
				}
				line := strings.Fields(which)[1:]
				for text, says := range map[string]string{"5": "no unit: write 5", "soon": "soon", "5s": cmp.Or(read[which], "no peer answers"), "1d": cmp.Or(read[which], "no peer answers")} {
					if code, _, talk := runWithout(t, slices.Concat(line, []string{text}, rest)...); code == 0 || !strings.Contains(talk, says) {
						t.Errorf("%s %s: exit %d, %q", which, text, code, talk)
					}
				}
			}
		})
	}
	if seen < 9 {
		t.Errorf("only %d flags were found", seen)
	}
}

// helpWidth is how wide help may be: two columns of a wide screen.
const helpWidth = 100

func TestHelpFitsAHundredColumns(t *testing.T) {
	for _, cmd := range everyCommand() {
		if strings.HasPrefix(cmd.CommandPath(), "peer completion ") {
			continue // cobra's own
		}
		var b bytes.Buffer
		cmd.Root().SetOut(&b)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if n := utf8.RuneCountInString(line); n > helpWidth {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	}
}

// inMessage is a command that a message says to type.
var inMessage = regexp.MustCompile("`peer ([^`]+)`")

func TestEveryCommandThatAMessageNamesIsOneOfTheProgram(t *testing.T) {
	root, found := (&cli{}).root(), 0
	root.InitDefaultHelpCmd()
	check := func(at token.Position, words []string) {
		found++
		cmd, rest, err := root.Find(words)
		if err != nil || cmd == root && words[0] != "--data" {
			t.Errorf("%s: there is no `peer %s`", at, strings.Join(words, " "))
			return
		}
		cmd.InitDefaultHelpFlag()
		for _, w := range rest {
			name, isFlag := strings.CutPrefix(w, "--")
			if w == "--" {
				return
			}
			if isFlag && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
				t.Errorf("%s: `peer %s`: %s has no flag %s", at, strings.Join(words, " "), cmd.CommandPath(), w)
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				for _, m := range inMessage.FindAllStringSubmatch(text, -1) {
					if m[1] != "--help" && m[1] != "ARGS…" {
						check(files.Position(lit.Pos()), strings.Fields(m[1]))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("%d commands were found: %v", found, err)
	}
}

// clockTime is a layout with a time of day in it.
var clockTime = regexp.MustCompile(`15:04|TimeOnly|DateTime`)

func TestEveryTimeOfDayInATextSaysItsZone(t *testing.T) {
	for _, dir := range []string{".", "../../node"} {
		paths, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 1 {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Format" {
					return true
				}
				layout := words(call.Args[0])
				if clockTime.MatchString(layout) && !strings.Contains(layout, "MST") && !strings.Contains(layout, "Z07") && path != "explain.go" { // there the line of the day says it
					t.Errorf("%s: %s names no zone", files.Position(call.Pos()), layout)
				}
				return true
			})
		}
	}
}

// words are the literals and names of an expression.
func words(e ast.Expr) (text string) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.BasicLit:
			text += x.Value
		case *ast.Ident:
			text += x.Name
		}
		return true
	})
	return text
}

// said is what a command that was asked for JSON says went wrong.
func saidAsJSON(t *testing.T, talk string) (code, message string) {
	t.Helper()
	var v struct{ Error api.Error }
	if err := json.Unmarshal([]byte(talk), &v); err != nil || strings.Count(talk, "\n") != 1 {
		t.Errorf("no line of JSON: %q: %v", talk, err)
	}
	return string(v.Error.Code), v.Error.Message
}

func TestWhoAsksForJSONIsToldInJSONWhatWentWrong(t *testing.T) {
	words := map[string][]string{ // what a command needs to get as far as asking a peer
		"run": {"--detach", "--", "true"}, "submit": {"../../examples/service.yaml"}, "scale": {"web=2"}, "bench": {"--only", "latency"},
		"put": {"usage_test.go"}, "get": {"b3:" + strings.Repeat("0", 64) + "/"},
		"test": {"../../examples/service.yaml"},
		"api":  {"GET", "/v1/status"},
	}
	stays := []string{"peer", "peer up", "peer version", "peer help", "peer trust edit", "peer token", "peer doctor"} // no error without a peer, or none at once
	for _, cmd := range everyCommand() {
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.Hidden || strings.HasPrefix(cmd.CommandPath(), "peer testnet") || strings.HasPrefix(cmd.CommandPath(), "peer completion") || slices.Contains(stays, cmd.CommandPath()) {
			continue
		}
		for _, form := range []string{"json", "jsonl"} {
			// A flag that cannot be read comes before what says that JSON is wanted.
			_, out, talk := runWithout(t, slices.Concat(path, []string{"--nosuch", "-o", form})...)
			if code, _ := saidAsJSON(t, talk); code != "usage" || out != "" {
				t.Errorf("%s --nosuch: %s on stderr, %q on stdout", cmd.CommandPath(), talk, out)
			}
			rest := words[cmd.Name()]
			if rest == nil && strings.Contains(cmd.Use, " ") && !strings.Contains(cmd.Use, " [N") {
				rest = []string{"self"}
			}
			_, out, talk = runWithout(t, slices.Concat([]string{"-o", form}, path, rest)...)
			want := "no_coordinator"
			if _, refused := withoutFormat[cmd.CommandPath()]; refused {
				want = "usage"
			}
			if cmd.Name() == "audit" { // it reads what a peer wrote down and asks none
				want = "not_found"
			}
			if cmd.Name() == "watch" && form == "jsonl" {
				continue // it waits for the peer
			}
			if code, _ := saidAsJSON(t, talk); code != want || out != "" {
				t.Errorf("%s %s: %s on stderr, %q on stdout", cmd.CommandPath(), rest, talk, out)
			}
		}
	}
}

func TestAFormatThatNothingComesOfIsRefused(t *testing.T) {
	for _, words := range [][]string{{"-o", "json"}, {"completion", "bash", "-o", "json"}, {"help", "-o", "json"}, {"ticket", "--revoke", "x", "-o", "json"}, {"testnet", "heal", "-o", "json"}, {"wait", "x", "-o", "jsonl"}} {
		code, out, talk := runWithout(t, words...)
		if said, _ := saidAsJSON(t, talk); said != "usage" || out != "" || code != 2 && code != ownFailure {
			t.Errorf("%q: exit %d, %q, %q", words, code, out, talk)
		}
	}
}

// A command in a message is for pasting wherever the message is, quoted as the data folder needs
// it.
func TestACommandInAnErrorAsJSONCarriesTheDataFolder(t *testing.T) {
	data := filepath.Join(t.TempDir(), `a "quoted" folder`)
	var o, e bytes.Buffer
	if code := Main(t.Context(), []string{"--data", data, "jobs", "-o", "json"}, Streams{In: strings.NewReader(""), Out: &o, Err: &e}); code != 4 {
		t.Fatal(code, e.String())
	}
	if _, message := saidAsJSON(t, e.String()); !strings.Contains(message, "`peer --data '"+data+"' up`") {
		t.Error(message)
	}
}

func TestACommandThatNamesItsDataFolderIsLeftAlone(t *testing.T) {
	h := &hints{data: " --data /a", dir: " --dir /t"}
	for text, want := range map[string]string{
		"stop it with `peer down --data /b`":             "stop it with `peer down --data /b`",
		"see `peer jobs`, and `peer wait x`":             "see `peer --data /a jobs`, and `peer --data /a wait x`",
		"start `peer up` there":                          "start `peer up` there",
		"`peer testnet exec 1 -- peers`":                 "`peer testnet --dir /t exec 1 -- peers`",
		"see `peer jobs --help`, or `peer up --join -`.": "see `peer jobs --help`, or `peer up --join -`.",
	} {
		if got := h.carry(text); got != want {
			t.Errorf("%q\nnot %q", got, want)
		}
	}
}

// A soak is drawn from its seed for so many peers: with others it is another one.
func TestASoakSaysHowToHaveItAgainWithTheNumberOfItsPeers(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("TMPDIR", t.TempDir())
	for typed, says := range map[string]string{"-n 4": "--seed 7 --peers 4\n", "--for 2s": "--for 2s --seed 7\n"} {
		var talk bytes.Buffer
		words := append([]string{"testnet", "soak", "--seed", "7"}, strings.Fields(typed)...)
		if code := Main(ended, words, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &talk}); code == 0 || !strings.Contains(talk.String(), says) {
			t.Errorf("%s: exit %d, %q", typed, code, &talk)
		}
	}
}

func TestEveryCommandSaysInASentenceWhatItNeeds(t *testing.T) {
	for _, cmd := range everyCommand() {
		if cmd.Args == nil || !cmd.Runnable() {
			continue
		}
		if err := cmd.Args(cmd, nil); err != nil && regexp.MustCompile("needs (expected|to|needs)").MatchString(err.Error()) {
			t.Errorf("%s without arguments: %v", cmd.CommandPath(), err)
		}
	}
}

func TestAShellIsOfferedJobsAndPeersWhereverOneIsMeant(t *testing.T) {
	one := regexp.MustCompile(`^\S+ \[?(ID|JOB|PEER)\b`)
	found := 0
	for _, cmd := range everyCommand() {
		if !one.MatchString(cmd.Use) {
			continue
		}
		if found++; completed[cmd.Name()] == nil {
			t.Errorf("peer %s: nothing is offered", cmd.Use)
		}
	}
	if found < 15 {
		t.Errorf("only %d commands take a job or a peer", found)
	}
}
