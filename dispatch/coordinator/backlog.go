package coordinator

import (
	"cmp"
	"slices"
)

// class is the groups whose tasks need the same: where one of them finds no room, none does.
type class struct {
	need needs
	line []*pendingGroup // who is next; groups that have nothing to place any more are dropped when their turn comes
}

// backlog is what waits to be placed: the groups of all jobs, in lines by what a task needs.
type backlog struct {
	classes []*class
	of      map[needs]*class
}

// add puts a group into its class's line, if it has something to place and does not stand there
// already. It tells whether it did.
func (b *backlog) add(l *pendingGroup) bool {
	if l.queued || l.mayStart() == 0 {
		return false
	}
	need := l.needs()
	k := b.of[need]
	if k == nil {
		if b.of == nil {
			b.of = map[needs]*class{}
		}
		k = &class{need: need}
		b.of[need] = k
		b.classes = append(b.classes, k)
	}
	l.queued = true
	k.line = append(k.line, l)
	return true
}

// busy lists the classes with groups in line, the highest priority first; empty classes are
// dropped.
func (b *backlog) busy() []*class {
	kept := b.classes[:0]
	for _, k := range b.classes {
		if len(k.line) > 0 {
			kept = append(kept, k)
		} else {
			delete(b.of, k.need)
		}
	}
	clear(b.classes[len(kept):])
	b.classes = kept
	out := slices.Clone(kept)
	slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(b.need.priority, a.need.priority) })
	return out
}

func (b *backlog) drop(j *jobState) {
	for _, k := range b.classes {
		k.line = slices.DeleteFunc(k.line, func(l *pendingGroup) bool { return l.job == j })
	}
	for _, l := range j.groups {
		l.queued = false
	}
}

func (b *backlog) atLeast(n int) bool {
	for _, k := range b.classes {
		if n -= len(k.line); n <= 0 {
			return true
		}
	}
	return false
}

// some tells whether there is a class of which the first groups, in turn, are wanted: a group that
// a cap of its own keeps away does not stand for those behind it, any other stands for all.
func (b *backlog) some(wanted func(*pendingGroup) bool) bool {
	const most = 16 // groups of a class that are looked at
	for _, k := range b.classes {
		for i, l := range k.line {
			if i == most {
				break
			}
			if l.mayStart() == 0 {
				continue
			}
			if wanted(l) {
				return true
			}
			if !l.ownCap() {
				break
			}
		}
	}
	return false
}

// ownCap tells whether something besides room may hold a group back that does not hold back others
// who need the same.
func (l *pendingGroup) ownCap() bool {
	return l.job.job.MaxPerPeer > 0 || l.job.faults.any() || l.job.preparing > 0 || l.job.owners.Some()
}
