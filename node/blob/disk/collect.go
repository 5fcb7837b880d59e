package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/blob/tree"
)

// Collected is what came of a Collect.
type Collected struct {
	Found   []bool    // of each pattern: something matches it, new or given
	Skipped []Skipped // what was left out of what matches, or could not be looked into: a few of it
	More    int       // and how much besides
	Refused []string  // what matches and cannot be taken, and why: a few of it, for people
	Others  int       // and how much besides
}

// maxNamed is how much of what is left out is named: a task may have made a million of them.
const maxNamed = 16

// Collect hands what some patterns match in a folder to each, with the folders above it, in the
// order of a tree. The content of every file goes to keep, as in Scan. What matches and cannot be
// in a tree, or be read for want of permission, is refused: it is named, and all else is handed
// on. What else cannot be looked into is left out by name. What is given – nil: nothing – is
// found, but not handed on; a folder that is given is if something in it is new. What comes along
// is handed on as well, given or not, and links that lead nowhere are refused.
func Collect(ctx context.Context, root *os.Root, globs []tree.Glob, along *Along, given *tree.Given, keep Keep, each func(tree.Entry) error) (Collected, error) {
	if along == nil {
		along = &Along{}
	}
	c := &collect{scan: scan{ctx: ctx, keep: keep}, globs: globs, along: along, given: given, out: Collected{Found: make([]bool, len(globs))}}
	c.scan.each = func(e tree.Entry) error { return c.tell(each, e) }
	err := c.folder(root, "", notTaken)
	c.left()
	return c.out, err
}

type collect struct {
	scan
	globs  []tree.Glob
	along  *Along
	given  *tree.Given
	out    Collected
	untold []string // the folders around what is looked at of which nothing was told yet, outermost first
	whole  bool     // what is looked at counts although it was given
}

// taking is why an entry is taken.
type taking uint8

const (
	notTaken   taking = iota
	matched           // by a pattern, as a folder around it may be
	takenAlong        // a link leads to it
)

// left notes what was left out of a folder.
func (c *collect) left() {
	for _, s := range c.skipped {
		if len(c.out.Skipped) < maxNamed {
			c.out.Skipped = append(c.out.Skipped, s)
		} else {
			c.out.More++
		}
	}
	c.skipped = c.skipped[:0]
}

// refuse notes what matches and cannot be taken.
func (c *collect) refuse(path, why string) {
	c.found(path)
	if len(c.out.Refused) < maxNamed {
		c.out.Refused = append(c.out.Refused, why)
	} else {
		c.out.Others++
	}
}

// tell hands an entry on, and before it the folders around it.
func (c *collect) tell(each func(tree.Entry) error, e tree.Entry) error {
	if e.Kind != tree.Dir && !c.whole && c.given != nil && c.given.Has(e) {
		c.found(e.Path)
		return nil
	}
	if err := tree.Check(e); err != nil {
		c.refuse(e.Path, tree.Reason(err))
		return nil
	}
	for _, dir := range c.untold {
		c.found(dir)
		if err := each(tree.Entry{Path: dir, Kind: tree.Dir}); err != nil {
			return err
		}
	}
	c.untold = c.untold[:0]
	c.found(e.Path)
	return each(e)
}

func (c *collect) found(path string) {
	for i, g := range c.globs {
		c.out.Found[i] = c.out.Found[i] || g.Match(path)
	}
}

func (c *collect) folder(dir *os.Root, above string, taken taking) error {
	names, err := namesIn(dir)
	if err != nil {
		return c.denied(cmp.Or(strings.TrimSuffix(above, "/"), "."), taken != notTaken, err)
	}
	for _, name := range names {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		info, err := dir.Lstat(name)
		switch path := above + name; {
		case err == nil:
			err = c.entry(dir, path, info, taken)
		case errors.Is(err, fs.ErrNotExist): // gone since it was listed
			err = nil
		default:
			err = c.denied(path, taken != notTaken || slices.ContainsFunc(c.globs, func(g tree.Glob) bool { return g.Match(path) }), err)
		}
		if err != nil {
			return err
		}
		c.left()
	}
	return nil
}

// why is why an entry is taken, and whether something below it may be; before: why the folder
// around it is.
func (c *collect) why(path string, dir bool, before taking) (taken taking, below bool) {
	taken, below = before, dir && c.along.around[path]
	for _, g := range c.globs {
		if taken == notTaken && g.Match(path) {
			taken = matched
		}
		below = below || dir && g.Below(path)
	}
	if c.along.paths[path] {
		taken = takenAlong
	}
	return taken, below
}

// entry looks at one; around: why the folder around it is taken.
func (c *collect) entry(dir *os.Root, path string, info fs.FileInfo, around taking) error {
	why, below := c.why(path, info.IsDir(), around)
	taken := why != notTaken
	if taken {
		if err := tree.CheckPath(path); err != nil { // nor can be what is in it
			c.refuse(path, tree.Reason(err))
			return nil
		}
	}
	if target, nowhere := c.along.nowhere[path]; nowhere {
		c.refuse(path, fmt.Sprintf("%.200q is a link to %.200q, which is not there", path, target))
		return nil
	}
	c.whole = why == takenAlong
	switch {
	case taken && !info.IsDir():
		err := c.leaf(dir, path, info)
		if _, denied := errors.AsType[unread](err); denied {
			return c.denied(path, taken, err)
		}
		return err
	case taken && (c.whole || c.given == nil || !c.given.Has(tree.Entry{Path: path, Kind: tree.Dir})):
		if err := c.each(tree.Entry{Path: path, Kind: tree.Dir}); err != nil {
			return err
		}
	case !taken && !below:
		return nil
	case !taken && strings.Count(path, "/") >= tree.MaxDepth:
		c.skip(path, "is too deep to look into")
		return nil
	default:
		if taken {
			c.found(path)
		}
		c.untold = append(c.untold, path)
		defer func() { // nothing was matched in it, or it was told
			if n := len(c.untold); n > 0 && c.untold[n-1] == path {
				c.untold = c.untold[:n-1]
			}
		}()
	}
	sub, err := openDir(dir, info.Name(), info)
	if err != nil {
		return c.denied(path, taken, fmt.Errorf("%q: %w", path, err))
	}
	defer sub.Close()
	return c.folder(sub, path+"/", why)
}

// denied leaves out what there is no permission to read. All other errors are returned.
func (c *collect) denied(path string, taken bool, err error) error {
	switch {
	case !errors.Is(err, fs.ErrPermission):
		return err
	case taken:
		c.refuse(path, fmt.Sprintf("%.200q: permission denied", path))
	default:
		c.skip(path, "cannot be looked into")
	}
	return nil
}
