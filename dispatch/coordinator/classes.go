package coordinator

import (
	"cmp"
	"slices"
	"strings"

	"covey/taskstate"
)

// needs is what decides where a task can go: where one finds no room, no other that needs the same does.
type needs struct {
	resources taskstate.Resources
	where     string // constraints, and how to choose among those that fit
	pin       taskstate.PeerID
	priority  int
}

func (l *lot) needs() needs {
	b := l.body
	n := needs{resources: b.Resources, pin: l.pin, priority: l.job.job.Priority}
	if w := l.job.job; len(w.Constraints) > 0 || w.Strategy != "" || w.Over != "" {
		n.where = strings.Join(append([]string{string(w.Strategy), w.Over}, w.Constraints...), "\n")
	}
	return n
}

// class is the lots whose tasks need the same: where one of them finds no room, none does.
type class struct {
	need needs
	line []*lot // who is next; lots that have nothing to place any more are dropped when their turn comes
}

// enqueue puts a job's lots into their classes' lines, if they have something to place and do not stand there already.
func (c *Core) enqueue(j *jobState) {
	for _, l := range j.lots {
		if l.queued || l.mayStart() == 0 {
			continue
		}
		k := c.classFor(l.needs())
		l.queued = true
		k.line = append(k.line, l)
		c.dirty = true
	}
}

func (c *Core) classFor(need needs) *class {
	k := c.classOf[need]
	if k == nil {
		k = &class{need: need}
		c.classOf[need] = k
		c.classes = append(c.classes, k)
	}
	return k
}

// busyClasses lists the classes with lots in line, the highest priority first; empty classes are dropped.
func (c *Core) busyClasses() []*class {
	kept := c.classes[:0]
	for _, k := range c.classes {
		if len(k.line) > 0 {
			kept = append(kept, k)
		} else {
			delete(c.classOf, k.need)
		}
	}
	clear(c.classes[len(kept):])
	c.classes = kept
	out := slices.Clone(kept)
	slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(b.need.priority, a.need.priority) })
	return out
}

// reclassify has a job's lots stand where its new spec says.
func (c *Core) reclassify(j *jobState) {
	for _, k := range c.classes {
		k.line = slices.DeleteFunc(k.line, func(l *lot) bool { return l.job == j })
	}
	for _, l := range j.lots {
		l.queued = false
	}
	c.enqueue(j)
}
