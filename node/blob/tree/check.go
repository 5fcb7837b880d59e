package tree

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/coveyproject/covey/node/blob/piece"
)

const (
	// MaxEntries of a tree.
	MaxEntries = 1 << 20
	// MaxDepth is how many names a path has at most: whoever writes files out keeps as many
	// folders open.
	MaxDepth = 256

	maxPath = 4096
	maxName = 255
)

// ErrRefused is what is returned for what cannot be in a tree; the text says which path, and why.
var ErrRefused = errors.New("not in a tree")

func refuse(path, why string, args ...any) error {
	return fmt.Errorf("%w: %.200q %s", ErrRefused, path, fmt.Sprintf(why, args...))
}

// Reason is the text of such an error, which says which path, and why.
func Reason(err error) string { return strings.TrimPrefix(err.Error(), ErrRefused.Error()+": ") }

var empty = piece.Sum(nil)

// Check says why an entry can be in no tree, whatever else is in that: ErrRefused. One that can be
// in a tree needs folders around it that can be there as well.
func Check(e Entry) error {
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	return checkKind(e)
}

// checker sees entries in their order, and holds each against those before it.
type checker struct {
	last   Entry
	above  []string // folders around the last entry, outermost first
	totals Totals
}

func (c *checker) check(e Entry) error {
	if c.totals.Entries() == MaxEntries {
		return fmt.Errorf("%w: more than %d entries", ErrRefused, MaxEntries)
	}
	if err := CheckPath(e.Path); err != nil {
		return err
	}
	if err := c.place(e); err != nil {
		return err
	}
	if err := checkKind(e); err != nil {
		return err
	}
	if e.Kind == Dir {
		c.above = append(c.above, e.Path)
	}
	c.last = e
	c.totals.add(e)
	return nil
}

// place holds an entry against the one before it and the folders above it.
func (c *checker) place(e Entry) error {
	if order := compare(c.last.Path, e.Path); order == 0 {
		return refuse(e.Path, "comes twice")
	} else if order > 0 {
		return refuse(e.Path, "is out of order, after %.200q", c.last.Path)
	}
	parent := e.Path[:max(0, strings.LastIndexByte(e.Path, '/'))]
	for n := len(c.above); n > 0 && c.above[n-1] != parent; n-- {
		c.above = c.above[:n-1]
	}
	switch {
	case parent == "" || len(c.above) > 0:
		return nil
	case c.last.Path == parent:
		return refuse(e.Path, "is below a %s", c.last.Kind)
	}
	return refuse(e.Path, "is below a folder that is not listed")
}

// CheckPath is Check for an entry of which only the path is known.
func CheckPath(path string) error {
	switch {
	case path == "":
		return refuse(path, "is no path")
	case len(path) > maxPath:
		return refuse(path, "is longer than %d bytes", maxPath)
	case path[0] == '/':
		return refuse(path, "is absolute")
	case strings.Count(path, "/") >= MaxDepth:
		return refuse(path, "is deeper than %d folders", MaxDepth-1)
	}
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "":
			return refuse(path, "has an empty name")
		case name == "." || name == "..":
			return refuse(path, "has the name %s", name)
		case len(name) > maxName:
			return refuse(path, "has a name longer than %d bytes", maxName)
		}
	}
	if strings.ContainsFunc(path, unicode.IsControl) {
		return refuse(path, "has a control character")
	}
	return nil
}

func checkKind(e Entry) error {
	if e.Kind != File && (e.Exec || e.Size != 0 || !e.Root.IsZero()) {
		return refuse(e.Path, "is a %s with the content of a file", e.Kind)
	}
	if e.Kind != Link && e.Target != "" {
		return refuse(e.Path, "is a %s with a target", e.Kind)
	}
	switch e.Kind {
	case File:
		switch {
		case e.Size < 0 || e.Size > piece.MaxSize:
			return refuse(e.Path, "cannot have %d bytes", e.Size)
		case e.Root.IsZero():
			return refuse(e.Path, "has no content")
		case (e.Size == 0) != (e.Root == empty):
			return refuse(e.Path, "has the content %s, which is not %d bytes", e.Root, e.Size)
		}
		return nil
	case Dir:
		return nil
	case Link:
		return checkTarget(e)
	}
	return refuse(e.Path, "is of the unknown kind %d", uint8(e.Kind))
}

func checkTarget(e Entry) error {
	if why := e.Astray(); why != "" {
		return refuse(e.Path, "%s", why)
	}
	return nil
}

// Astray returns why a link cannot be in a tree, "" if it can: it may lead only to what is in the
// tree. Its folder is a real one, so going up from there is what it seems; after a name, which may
// be a link itself, it would not be.
func (e Entry) Astray() string {
	switch {
	case e.Target == "":
		return "is a link to nothing"
	case len(e.Target) > maxPath:
		return fmt.Sprintf("is a link to more than %d bytes", maxPath)
	case strings.ContainsFunc(e.Target, unicode.IsControl):
		return "is a link with a control character"
	case e.Target[0] == '/':
		return fmt.Sprintf("is a link to %.200q, which is absolute", e.Target)
	}
	up, down := strings.Count(e.Path, "/"), false
	for name := range strings.SplitSeq(e.Target, "/") {
		switch name {
		case "", ".":
		case "..":
			if up--; up < 0 {
				return fmt.Sprintf("is a link to %.200q, which leads out", e.Target)
			}
			if down {
				return fmt.Sprintf("is a link to %.200q, which goes up after it went down", e.Target)
			}
		default:
			down = true
		}
	}
	return ""
}

// compare orders paths as a walk finds them: by names, folder by folder.
func compare(a, b string) int {
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	switch {
	case i == len(a) || i == len(b):
		return len(a) - len(b)
	case a[i] == '/':
		return -1
	case b[i] == '/':
		return 1
	}
	return int(a[i]) - int(b[i])
}
