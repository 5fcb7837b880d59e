package disk

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/blob/tree"
)

// Along is what comes along with the links among what some patterns match: what they lead to in the
// same folder, where no pattern matches that. Nil is nothing.
type Along struct {
	paths   map[string]bool   // with all that is in them
	around  map[string]bool   // the folders around them
	nowhere map[string]string // links that lead to nothing, by path, and their targets
}

// maxHops is how many links may lead to one another, as on Linux.
const maxHops = 40

// FindAlong looks for it; given is asked for what was given, in which links are left alone, and may
// answer nil. Folders that cannot be read are left to Collect, which names them.
func FindAlong(ctx context.Context, root *os.Root, globs []tree.Glob, given func() *tree.Given) (*Along, error) {
	f := &follower{ctx: ctx, root: root, globs: globs, along: &Along{paths: map[string]bool{}, around: map[string]bool{}, nowhere: map[string]string{}}}
	if err := f.folder(root, "", false); err != nil || len(f.found) == 0 {
		return nil, err
	}
	if g := given(); g != nil {
		defer g.Close()
		f.found = slices.DeleteFunc(f.found, func(l link) bool {
			return g.Has(tree.Entry{Path: l.path, Kind: tree.Link, Target: l.target})
		})
	}
	for len(f.found) > 0 {
		next := f.found
		f.found = nil
		for _, l := range next {
			if err := f.take(l); err != nil {
				return nil, err
			}
		}
	}
	return f.along, nil
}

type follower struct {
	ctx   context.Context
	root  *os.Root
	globs []tree.Glob
	along *Along
	found []link // in the order of a tree
}

// link is one that leads to what nothing takes yet, or to nothing.
type link struct {
	path, target string
	leads        []string // links on the way, and the end of it
	nowhere      bool
}

// folder finds the links in one; taken: a folder around them is.
func (f *follower) folder(dir *os.Root, above string, taken bool) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	for _, e := range entriesIn(dir) {
		p := above + e.Name()
		switch t := taken || f.matches(p); {
		case t && e.Type() == fs.ModeSymlink:
			if l := f.follow(p); l.nowhere || len(l.leads) > 0 {
				f.found = append(f.found, l)
			}
		case e.IsDir() && (t || f.below(p)) && strings.Count(p, "/") < tree.MaxDepth:
			sub, err := dir.OpenRoot(e.Name())
			if err != nil {
				continue
			}
			err = f.folder(sub, p+"/", t)
			sub.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// entriesIn lists what can be listed of a folder, in order.
func entriesIn(dir *os.Root) []fs.DirEntry {
	d, err := dir.Open(".")
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list
}

func (f *follower) matches(p string) bool {
	return slices.ContainsFunc(f.globs, func(g tree.Glob) bool { return g.Match(p) })
}

func (f *follower) below(p string) bool {
	return slices.ContainsFunc(f.globs, func(g tree.Glob) bool { return g.Below(p) })
}

// covered reports whether a path, or a folder around it, is taken.
func (f *follower) covered(p string) bool {
	for ; p != "."; p = path.Dir(p) {
		if f.along.paths[p] || f.matches(p) {
			return true
		}
	}
	return false
}

// follow finds out where a link leads. One that leads to a folder it lies in leads to nothing new.
func (f *follower) follow(p string) (l link) {
	l.path = p
	to, hops := p, 0
	for ; hops < maxHops; hops++ {
		at, rest, isLink, there := f.firstLink(to)
		switch {
		case !there:
			l.nowhere = true
			return l
		case !isLink:
			if to != "." && !strings.HasPrefix(p, to+"/") && !f.covered(to) {
				l.leads = append(l.leads, to)
			}
			return l
		case at != p && !f.covered(at):
			l.leads = append(l.leads, at)
		}
		target, err := f.root.Readlink(at)
		if err != nil {
			return l
		}
		target = slashed(target)
		if at == p {
			l.target = target
		}
		if tree.Check(tree.Entry{Path: at, Kind: tree.Link, Target: target}) != nil {
			return l // Collect refuses it
		}
		to = path.Join(path.Dir(at), target, rest)
	}
	l.nowhere = true
	return l
}

// firstLink is the first link on the way to a path and the rest of the way. Where the way ends
// before, the path is not there.
func (f *follower) firstLink(p string) (at, rest string, isLink, there bool) {
	for i := 0; i <= len(p); i++ {
		if i < len(p) && p[i] != '/' {
			continue
		}
		info, err := f.root.Lstat(p[:i])
		switch {
		case os.IsPermission(err): // Collect names it
			return p, "", false, true
		case err != nil:
			return "", "", false, false
		case info.Mode().Type() == fs.ModeSymlink:
			return p[:i], strings.TrimPrefix(p[i:], "/"), true, true
		}
	}
	return p, "", false, true
}

// take has what a link leads to come along, and finds the links in that.
func (f *follower) take(l link) error {
	if l.nowhere {
		f.along.nowhere[l.path] = l.target
	}
	for _, p := range l.leads {
		if f.covered(p) {
			continue
		}
		f.along.paths[p] = true
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			f.along.around[d] = true
		}
		info, err := f.root.Lstat(p)
		if err != nil || !info.IsDir() {
			continue
		}
		sub, err := openDir(f.root, p, info)
		if err != nil {
			continue
		}
		err = f.folder(sub, p+"/", true)
		sub.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
