package stack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// healsWithin is how long after a cut heals everybody must know what anybody knew, if nothing else
// is broken.
const healsWithin = 5 * time.Second

// known is what the peers together knew at a moment.
type known struct {
	at    time.Duration
	lives []*life
	jobs  map[string]string // how each job ended, "" if nobody knew of an end
	tasks map[string]reach  // by job and slot
}

// reach is how far a slot has got: an attempt, and its state. An earlier attempt is not shown any
// more once there is a later one.
type reach struct {
	attempt int
	state   taskstate.State
	peer    taskstate.PeerID
}

// before tells whether o is news to who knows r. A late success of an attempt that was given up
// ends its slot, unless that has ended already – somebody cancelled its job; a late failure does
// not. Of two ends of one attempt the one that is decided first counts: the worker may have shown
// another until it heard.
func (r reach) before(o reach) bool {
	switch {
	case r.attempt == o.attempt:
		return r.state < o.state && !r.state.Final()
	case r.attempt > o.attempt:
		return o.state == taskstate.Complete && !r.state.Final()
	case r.state == taskstate.Complete:
		return false
	}
	return true
}

// add notes how far a peer says that tasks have got. That a slot waits for its first peer is no
// news: so it does in a job that a peer holds, under the id of another, and that is refused later.
func add(to map[string]reach, tasks []api.Task) {
	for _, t := range tasks {
		r := reach{attempt: t.Attempt, peer: t.Peer}
		_ = r.state.UnmarshalText([]byte(t.State)) // what is no state of a task was no news of one
		if k := fmt.Sprintf("%s.%d", t.Job, t.Slot); to[k].before(r) && (r.attempt > 1 || r.state > taskstate.Pending) {
			to[k] = r
		}
	}
}

// healed is I5 in time, whatever else the cluster does meanwhile: it is called when a cut has
// healed.
func (c *check) healed() {
	if k := c.knowledge(); k != nil {
		c.await(k)
	}
}

// await looks again and again whether everybody knows what was known, until there is a moment when
// they do or it takes too long.
func (c *check) await(k *known) {
	c.w.at(c.w.now()+healsWithin/20, func() {
		if !c.undisturbed(k) {
			return
		}
		k.forgetTwins()
		why := ""
		for _, l := range k.lives {
			if why = c.behind(l, k); why != "" {
				break
			}
		}
		switch {
		case why == "":
			c.w.count(func(s *Stats) { s.Heals++ })
		case c.w.now() >= k.at+healsWithin:
			c.tellHow(k)
			c.w.fail("I5", "%v after a cut healed, at %v, %s", healsWithin, k.at, why)
		default:
			c.await(k)
		}
	})
}

// forgetTwins forgets what was known of tasks of a peer that knows of another process with its
// identity. The two have numbered what they say alike: who heard the one takes the other's word for
// known, until a person has decided and the one that stays tells the coordinator itself.
func (k *known) forgetTwins() {
	for _, l := range k.lives {
		if st, err := l.node.Backend().Status(context.Background()); err == nil && copied(l) {
			maps.DeleteFunc(k.tasks, func(_ string, r reach) bool { return r.peer == st.ID })
		}
	}
}

// tellHow writes into the story what each peer has of the slots that somebody is behind with, and
// how they came to be so.
func (c *check) tellHow(k *known) {
	for _, l := range k.lives {
		for task, r := range k.tasks {
			job, _, _ := strings.Cut(task, ".")
			have := map[string]reach{}
			if add(have, tasksAt(l, job)); !have[task].before(r) {
				continue
			}
			for _, of := range k.lives {
				c.w.tellf("of %s %s says:", task, of.session)
				e, _ := of.node.Backend().Explain(context.Background(), task)
				for _, f := range e.Explain {
					c.w.tellf("  %s %s %s: %s", f.Time.Format("04:05.000"), f.Task, f.PeerName, f.Text)
				}
			}
		}
	}
}

// undisturbed tells whether no fault has touched anybody since.
func (c *check) undisturbed(k *known) bool {
	for i, p := range c.w.peers {
		p.mu.Lock()
		hurt := p.pains > 0 || p.trouble > k.at || p.life != k.lives[i]
		p.mu.Unlock()
		if hurt {
			return false
		}
	}
	return true
}

// knowledge gathers what the peers know, nil unless all are up and nothing hurts them any more.
func (c *check) knowledge() *known {
	k := &known{at: c.w.now(), jobs: map[string]string{}, tasks: map[string]reach{}}
	for _, p := range c.w.peers {
		l := p.usable()
		if l == nil {
			return nil
		}
		k.lives = append(k.lives, l)
	}
	if !c.undisturbed(k) {
		return nil
	}
	for _, l := range k.lives {
		jobs, err := l.node.Backend().Jobs(context.Background())
		if err != nil {
			continue
		}
		for _, j := range jobs.Jobs {
			if j.Ended == nil && (j.State == "held" || j.State == taskstate.Shutdown.String()) {
				continue // nobody has accepted it
			}
			if k.jobs[j.ID] == "" && j.Over() {
				k.jobs[j.ID] = j.State
			} else if _, ok := k.jobs[j.ID]; !ok {
				k.jobs[j.ID] = ""
			}
			add(k.tasks, tasksAt(l, j.ID))
		}
	}
	return k
}

func tasksAt(l *life, job string) []api.Task {
	ts, err := l.node.Backend().Tasks(context.Background(), job)
	if err != nil {
		return nil
	}
	return ts.Tasks
}

// behind says what a peer does not know of what was known.
func (c *check) behind(l *life, k *known) string {
	jobs, err := l.node.Backend().Jobs(context.Background())
	if err != nil {
		return fmt.Sprintf("%s does not list its jobs: %v", l.session, err)
	}
	for id, end := range k.jobs {
		i := slices.IndexFunc(jobs.Jobs, func(j api.Job) bool { return j.ID == id })
		if i < 0 {
			return fmt.Sprintf("%s does not know %s", l.session, id)
		}
		if j := jobs.Jobs[i]; end != "" && j.State != end {
			return fmt.Sprintf("%s has %s as %s, which ended as %s", l.session, id, j.State, end)
		}
		have := map[string]reach{}
		add(have, tasksAt(l, id))
		for slot, r := range k.tasks {
			if strings.HasPrefix(slot, id+".") && have[slot].before(r) {
				return fmt.Sprintf("%s has %s as %+v, which was %+v", l.session, slot, have[slot], r)
			}
		}
	}
	return ""
}
