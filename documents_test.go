package covey_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate/jobfile"
)

func TestThePageOfFloorsHasThemAsTheyAre(t *testing.T) {
	page := read(t, "docs/floors.md")
	written := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\|").FindAllStringSubmatch(page, -1) {
		written[row[2]], _ = strconv.Atoi(row[1])
	}
	if !maps.Equal(written, floors) {
		t.Errorf("docs/floors.md says %v, floors_test.go says %v: a reader finds the way by the first and the compiler by the second", written, floors)
	}
}

func TestEveryDocumentLinksToWhatIsThere(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	adrs, errs := filepath.Glob("docs/adr/*.md")
	pages, err = append(pages, adrs...), errors.Join(err, errs)
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^):]+))?\)`) // nothing with a colon: those lead elsewhere
	also := []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "SECURITY.md", "clients/python/README.md", "clients/snakemake/README.md"}
	anchors := 0
	for _, page := range append(pages, also...) {
		for _, to := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := page
			if to[1] != "" {
				target = filepath.Join(filepath.Dir(page), to[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", page, to[1], err)
				continue
			}
			if to[2] == "" {
				continue
			}
			anchors++
			if !headings(read(t, target))[to[2]] {
				t.Errorf("%s links to %s#%s: there is no such heading", page, to[1], to[2])
			}
		}
	}
	if anchors < 20 {
		t.Errorf("only %d links name a heading", anchors)
	}
}

// headings are a page's, as links name them.
func headings(page string) map[string]bool {
	all, code := map[string]bool{}, false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		title := strings.TrimLeft(line, "#")
		if code || title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		title = regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		all[strings.ReplaceAll(title, " ", "-")] = true
	}
	return all
}

// program is what docs/commands.md says, which is made from the program: the flags of each command.
func program(t *testing.T) (commands map[string]map[string]bool) {
	t.Helper()
	commands = map[string]map[string]bool{"": {"--help": true, "-h": true, "--version": true}}
	at := ""
	for line := range strings.Lines(read(t, "docs/commands.md")) {
		if title, ok := strings.CutPrefix(line, "## peer "); ok {
			at = strings.TrimSpace(title)
			commands[at] = map[string]bool{}
		}
		if cell, ok := strings.CutPrefix(line, "| `-"); ok {
			cell, _, _ = strings.Cut("-"+cell, "`")
			for _, flag := range regexp.MustCompile(`(^|[ ,])(--?[a-z][a-z-]*)`).FindAllStringSubmatch(cell, -1) {
				commands[at][flag[2]] = true
			}
		}
	}
	return commands
}

// Which of the words of a line are of the command itself: up to what it runs, a comment, or what
// the shell does next.
var endOfCommand = regexp.MustCompile(`(^|\s)(--(\s|$)|#|\||&&|;|>|<|2>)|;`)

// wrong is what is not so in a command line, without its first word.
func wrong(commands map[string]map[string]bool, line string) string {
	if end := endOfCommand.FindStringIndex(line); end != nil {
		line = line[:end[0]]
	}
	line, _, _ = strings.Cut(line, "$(") // that is another line
	name, flagged := "", false
	words := strings.Fields(line)
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], "[]()\"'")
		if strings.HasPrefix(word, "-") && len(word) > 1 {
			if name == "" && (word == "--data" || word == "-o") {
				i++
			}
			flagged = name != ""
			continue
		}
		if longer := strings.TrimSpace(name + " " + word); commands[longer] != nil {
			name = longer
			continue
		}
		plain := regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) && word != "help"
		if name == "" && !plain { // COMMAND, ARGS…
			return ""
		}
		parent := name == ""
		for c := range commands {
			parent = parent || strings.HasPrefix(c, name+" ")
		}
		if parent && plain && !flagged { // behind a flag it may be its value
			return fmt.Sprintf("there is no command %q", strings.TrimSpace(name+" "+word))
		}
		break // what follows are its words
	}
	for _, word := range words {
		flag, _, _ := strings.Cut(strings.Trim(word, "[]()\"',"), "=")
		if strings.HasPrefix(flag, "--") && !commands[name][flag] && !commands[""][flag] {
			return fmt.Sprintf("`peer %s` has no flag %s", name, flag)
		}
	}
	return ""
}

func TestEveryCommandThatADocumentNamesIsOneOfTheProgram(t *testing.T) {
	commands := program(t)
	if len(commands) < 60 || !commands["run"]["--array"] || !commands[""]["--data"] || commands["trust add"] == nil {
		t.Fatalf("docs/commands.md was not understood: %v", commands)
	}
	for line, want := range map[string]string{
		"run --array 1-3 -- x --no-such": "", "-o json jobs": "", "--data /x status": "", "trust add KEY": "", "drain NAME --wait": "", "COMMAND --help": "", "": "",
		"rnu -- x": "no command", "trust give KEY": "no command", "run --arry 1-3": "no flag", "--data /x stats": "no command", "up --api :1 --apicert f": "no flag", "jobs --wait": "no flag",
	} {
		if got := wrong(commands, line); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("peer %s: %q, expected %q", line, got, want)
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "README.md", "SECURITY.md", "CONTRIBUTING.md", "clients/python/README.md", "clients/snakemake/README.md")
	inText := regexp.MustCompile("`(?:sudo )?peer ([^`]*)`")
	inCode := regexp.MustCompile(`(?:^ *(?:[a-z]*\$ )?|\$\(|[|;] |&& )(?:sudo )?peer ([^\n]*)`)
	lines := 0
	for _, page := range pages {
		if page == filepath.Join("docs", "commands.md") {
			continue
		}
		var text strings.Builder
		code := false
		look := func(found [][]string) {
			for _, f := range found {
				lines++
				if w := wrong(commands, strings.ReplaceAll(f[1], "\n", " ")); w != "" {
					t.Errorf("%s: peer %s: %s", page, f[1], w)
				}
			}
		}
		for line := range strings.Lines(read(t, page)) {
			switch {
			case strings.HasPrefix(line, "```"):
				code = !code
			case code:
				look(inCode.FindAllStringSubmatch(line, -1))
			default:
				text.WriteString(line)
			}
		}
		look(inText.FindAllStringSubmatch(text.String(), -1))
	}
	if lines < 300 {
		t.Errorf("only %d commands were found", lines)
	}
}

// What a page of files and tests names is there: the one who moves one corrects the page.
func TestThePageOfWhatToChangeWhereNamesFilesAndTestsThatAreThere(t *testing.T) {
	page := read(t, "docs/where-to-change.md")
	for _, name := range regexp.MustCompile("`([a-z]+/[a-z_./-]+)`").FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(name[1]); err != nil {
			t.Error(err)
		}
	}
	tests := ""
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			tests += read(t, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`\*\*(Test\w+)\*\*`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(tests, "func "+name[1]+"(") {
			t.Errorf("there is no %s", name[1])
		}
	}
}

func TestEveryExampleIsAJobAPeerTakes(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	shown := map[string]bool{}
	for _, file := range files {
		for _, key := range regexp.MustCompile(`(?m)^([a-z_]+):`).FindAllStringSubmatch(read(t, file), -1) {
			shown[key[1]] = true
		}
		var local []jobfile.LocalInput
		var secret []jobfile.LocalSecret
		job, err := jobfile.Parse(file, []byte(read(t, file)), jobfile.Options{Local: &local, Secrets: &secret})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, l := range secret {
			if _, err := os.Stat(l.Path); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		for _, l := range local { // what is put when it is submitted
			if _, err := os.Stat(l.Path); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			job.Inputs[l.Index].Ref = "b3:" + strings.Repeat("0", 64) + "/"
		}
		if err := jobfile.Validate(job); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if !strings.Contains(read(t, file), "peer submit") {
			t.Errorf("%s does not say how to run it", file)
		}
		shown["type: "+string(job.Type)] = true
	}
	for _, word := range []string{
		"type: batch", "type: service", "type: global", "count", "each", "each_line", "matrix", "resources", "constraints", "placement", "parallel", "restart",
		"unreachable", "timeout", "max_fails", "update", "after", "schedule", "priority", "inputs", "outputs",
	} {
		if !shown[word] {
			t.Errorf("no example shows %s", word)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The table of wires is what a change of one is looked up in: each file of fingerprints is of one
// of its rows, and what a row names is there.
func TestTheDocumentOfWiresHasThemAll(t *testing.T) {
	page := read(t, "docs/wires.md")
	var rows int
	for line := range strings.Lines(page) {
		cells := strings.Split(line, " | ")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		rows++
		dir := ""
		for _, file := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			path := file[1]
			if !strings.Contains(path, "/") {
				path = filepath.Join(dir, path)
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%v", err)
			}
			dir = filepath.Dir(path)
		}
	}
	if rows < 30 {
		t.Errorf("it has %d rows", rows)
	}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(path) == "fingerprints.txt" && !strings.Contains(page, "`"+filepath.ToSlash(filepath.Dir(path))) {
			t.Errorf("%s: no row names its folder", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Who looks for a decision that a page cites finds it by its number.
func TestTheIndexOfDecisionsNamesEachByItsNumberInOrder(t *testing.T) {
	files, err := filepath.Glob("docs/adr/[0-9]*.md")
	if err != nil {
		t.Fatal(err)
	}
	index := regexp.MustCompile(`(?m)^\| \[(\d+)\]\(([^)]+)\)`).FindAllStringSubmatch(read(t, "docs/adr/README.md"), -1)
	if len(index) != len(files) {
		t.Fatalf("the index has %d decisions, the folder %d", len(index), len(files))
	}
	unused := map[int]bool{9: true, 23: true}
	next := 1
	for i, file := range files {
		for unused[next] {
			next++
		}
		name := filepath.Base(file)
		if !strings.HasPrefix(name, fmt.Sprintf("%04d-", next)) {
			t.Errorf("%s follows number %d: give it %d, and say so where it is cited", name, next-1, next)
		}
		if !strings.HasPrefix(read(t, file), fmt.Sprintf("# %d. ", next)) {
			t.Errorf("%s does not begin with its number, %d", name, next)
		}
		if index[i][1] != strconv.Itoa(next) || index[i][2] != name {
			t.Errorf("the index has [%s](%s) where %s comes", index[i][1], index[i][2], name)
		}
		next++
	}
}

// A version is cut in several files at once: none is forgotten.
func TestEveryFileThatSaysTheVersionSaysTheSame(t *testing.T) {
	said := map[string]bool{}
	for file, like := range map[string]string{
		"cmd/peer/version.go":              `(?m)^const source = "([\d.]+)(?:-dev)?"`,
		"README.md":                        `(?m)^## State of this version\n\n([\d.]+\d)(?:-dev)?\. `,
		"CHANGELOG.md":                     `\n## (?:Unreleased: )?([\d.]+)`,
		"clients/python/pyproject.toml":    `(?m)^version = "(.*)"`,
		"clients/python/covey/__init__.py": `(?m)^__version__ = "(.*)"`,
	} {
		found := regexp.MustCompile(like).FindStringSubmatch(read(t, file))
		if found == nil {
			t.Errorf("%s says no version", file)
			continue
		}
		said[found[1]] = true
		t.Logf("%s: %s", file, found[1])
	}
	if len(said) != 1 {
		t.Errorf("they differ: %v", said)
	}
}

// Tables and drawings in comments, which are indented, are as wide as they have to be.
func TestCommentsFitAHundredColumns(t *testing.T) {
	text := regexp.MustCompile(`^\t*// ?(?: *(?:-|\d+\.) )?[^ \t]`)
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		files++
		n := 0
		for line := range strings.Lines(read(t, path)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			if width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); width > 100 && text.MatchString(line) && !strings.Contains(line, "//go:") {
				t.Errorf("%s:%d: a comment of %d columns: %s", path, n, width, line)
			}
		}
		return nil
	})
	if err != nil || files < 500 {
		t.Fatalf("%d files: %v", files, err)
	}
}
