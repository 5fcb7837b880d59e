package tree

import (
	"fmt"
	"math"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Ignore is what a scan leaves out: the rules of .coveyignore, a part of those of .gitignore.
//
//   - An empty line, and one that begins with #, says nothing.
//   - `*`, `?`, `[a-z]` and `{a,b}` are within a name; `**` is any number of folders.
//   - A pattern with a slash at its beginning or within counts from the top; one without matches
//     in every folder.
//   - A slash at the end: only folders.
//   - `!` takes back what an earlier line left out, but nothing below a folder that is left out.
//   - The last line that matches decides.
//
// Only the file at the top of what is scanned counts. It begins as if its first line were `.git`.
type Ignore struct{ rules []rule }

type rule struct {
	pattern  string
	dirs     bool
	takeBack bool
}

// IgnoreFile is where a folder has its rules.
const IgnoreFile = ".coveyignore"

const (
	// MaxIgnore is how many bytes of rules there may be.
	MaxIgnore  = 64 << 10
	maxPattern = 1024
	maxChoices = 1024
)

// ParseIgnore reads the text of a .coveyignore, which may be empty.
func ParseIgnore(text string) (*Ignore, error) {
	if len(text) > MaxIgnore {
		return nil, fmt.Errorf("%s has more than %d bytes", IgnoreFile, MaxIgnore)
	}
	ig := &Ignore{}
	n := -1
	for line := range strings.Lines(".git\n" + text) {
		n++
		if err := ig.Add(line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", IgnoreFile, n, err)
		}
	}
	return ig, nil
}

// Add adds a line.
func (ig *Ignore) Add(line string) error {
	p := strings.TrimRight(line, " \t\r\n")
	if p == "" || p[0] == '#' {
		return nil
	}
	var r rule
	p, r.takeBack = strings.CutPrefix(p, "!")
	p, r.dirs = strings.CutSuffix(p, "/")
	if !strings.Contains(p, "/") {
		p = "**/" + p
	}
	p = strings.TrimPrefix(p, "/")
	if strings.HasSuffix(p, "/**") {
		p += "/*" // what is in the folder, not the folder
	}
	if err := checkPattern(p); err != nil {
		return err
	}
	r.pattern = p
	ig.rules = append(ig.rules, r)
	return nil
}

// Skips tells whether a file or folder is left out; what is below a folder that is, is not asked.
func (ig *Ignore) Skips(p string, dir bool) bool {
	for i := len(ig.rules) - 1; i >= 0; i-- {
		if r := ig.rules[i]; (dir || !r.dirs) && doublestar.MatchUnvalidated(r.pattern, p) {
			return !r.takeBack
		}
	}
	return false
}

func checkPattern(p string) error {
	switch {
	case len(p) > maxPattern:
		return fmt.Errorf("a pattern is longer than %d bytes", maxPattern)
	case !doublestar.ValidatePattern(p):
		return fmt.Errorf("%q is no pattern: a bracket is not closed", p)
	}
	// Every way to choose from the braces is tried; with as many commas in each they are the most.
	groups, commas := float64(strings.Count(p, "{")), float64(strings.Count(p, ","))
	if groups > 0 && math.Pow(commas/groups+1, groups) > maxChoices {
		return fmt.Errorf("%q stands for too many patterns", p)
	}
	return nil
}

// Glob is a pattern for paths in a tree. A folder it matches stands for all that is in it.
type Glob struct{ pattern string }

// ParseGlob reads one: `*`, `?`, `[a-z]` and `{a,b}` within a name, `**` for any number of folders.
func ParseGlob(s string) (Glob, error) {
	if err := checkPattern(s); err != nil {
		return Glob{}, err
	}
	p := path.Clean(s)
	switch {
	case s == "" || p[0] == '/':
		return Glob{}, fmt.Errorf("%q is no pattern for paths below a folder", s)
	case p == ".":
		p = "**"
	}
	for name := range strings.SplitSeq(p, "/") {
		if name == ".." {
			return Glob{}, fmt.Errorf("%q leads out of its folder", s)
		}
	}
	return Glob{p}, nil
}

// Match tells whether the pattern matches a path or a folder above it.
func (g Glob) Match(p string) bool {
	for {
		if doublestar.MatchUnvalidated(g.pattern, p) {
			return true
		}
		up := strings.LastIndexByte(p, '/')
		if up < 0 {
			return false
		}
		p = p[:up]
	}
}

// Below tells whether the pattern may match something below a folder that it does not match itself.
func (g Glob) Below(dir string) bool {
	if strings.ContainsAny(g.pattern, `{\`) { // a choice may hold slashes, and a slash be quoted
		return true
	}
	pattern := g.pattern
	for name := range strings.SplitSeq(dir, "/") {
		first, rest, more := strings.Cut(pattern, "/")
		if first == "**" || !doublestar.ValidatePattern(first) {
			return true
		}
		if !more || !doublestar.MatchUnvalidated(first, name) {
			return false
		}
		pattern = rest
	}
	return true
}
