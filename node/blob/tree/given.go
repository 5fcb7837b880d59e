package tree

import (
	"iter"
	"slices"
	"strings"
)

// Placed is a file or folder that was put somewhere below another folder.
type Placed struct {
	Name    string                  // its path there; "." is a folder whose entries lie in it
	Entries iter.Seq2[Entry, error] // of a folder: with paths below it, in order
	File    Entry                   // if Entries is nil; without a path
}

// Given tells what in a folder is as it was put there from what is new. It reads lists only as far
// as it is asked, and holds none of them in memory.
type Given struct{ lists []*list }

// NewGiven is for what was put into one folder. Close comes after it.
func NewGiven(placed []Placed) *Given {
	g := &Given{}
	var named []Placed
	for _, p := range placed {
		if p.Name == "." && p.Entries != nil {
			g.lists = append(g.lists, newList(p.Entries))
		} else {
			named = append(named, p)
		}
	}
	slices.SortFunc(named, func(a, b Placed) int { return compare(a.Name, b.Name) })
	g.lists = append(g.lists, newList(around(named)))
	return g
}

// around yields entries with the folders around them; none of them is in another one's way.
func around(placed []Placed) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		before := ""
		for _, p := range placed {
			for i, r := range p.Name {
				if r == '/' && !strings.HasPrefix(before, p.Name[:i+1]) && !yield(Entry{Path: p.Name[:i], Kind: Dir}, nil) {
					return
				}
			}
			before = p.Name
			if p.Entries == nil {
				p.File.Path = p.Name
				if !yield(p.File, nil) {
					return
				}
				continue
			}
			if !yield(Entry{Path: p.Name, Kind: Dir}, nil) {
				return
			}
			for e, err := range p.Entries {
				e.Path = p.Name + "/" + e.Path
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// Has tells whether an entry is there as it was put: the same content, whether it may be executed
// or not. It is asked in the order of a tree. Where a list cannot be read, all is new from there
// on.
func (g *Given) Has(e Entry) bool {
	return slices.ContainsFunc(g.lists, func(l *list) bool { return l.has(e) })
}

// Close lets go of the lists.
func (g *Given) Close() {
	for _, l := range g.lists {
		l.stop()
	}
}

// list is one that is being read.
type list struct {
	next func() (Entry, error, bool)
	stop func()
	at   Entry
	more bool
}

func newList(entries iter.Seq2[Entry, error]) *list {
	l := &list{more: true}
	l.next, l.stop = iter.Pull2(entries)
	l.step()
	return l
}

func (l *list) step() {
	var err error
	l.at, err, l.more = l.next()
	l.more = l.more && err == nil
}

func (l *list) has(e Entry) bool {
	for l.more && compare(l.at.Path, e.Path) < 0 {
		l.step()
	}
	return l.more && l.at.Path == e.Path && l.at.Kind == e.Kind && l.at.Size == e.Size && l.at.Root == e.Root && l.at.Target == e.Target
}
