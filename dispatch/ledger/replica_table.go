package ledger

import "covey/taskstate"

// Keep keeps a table in step with the replica, until cancel is called: statuses that were parked are taken in once their
// assignment is applied, and what the ledger has decided is forgotten. news, which may be nil, hears what the parked statuses
// brought; it is called like an observer.
func (r *Replica) Keep(t *taskstate.Table, news func([]taskstate.Status)) (cancel func()) {
	return r.Observe(func(ev Event) {
		if n := KeepUp(t, ev); len(n) > 0 && news != nil {
			news(n)
		}
	})
}

// KeepUp is one step of Keep, for whoever observes the replica by itself. It returns what the parked statuses brought.
func KeepUp(t *taskstate.Table, ev Event) (news []taskstate.Status) {
	if ev.Reset {
		t.Sweep()
	}
	for i := range ev.Entry.Commands {
		forget(t, &ev.Entry.Commands[i])
		if i < len(ev.Results) {
			t.Retire(ev.Results[i].Overtaken...)
		}
	}
	for _, id := range ev.Ended {
		t.ForgetJob(id)
	}
	return t.Advance()
}

// forget drops the tasks a command retired. One that was refused named tasks that are retired already, or that are kept.
func forget(t *taskstate.Table, c *Command) {
	switch {
	case c.Settle != nil:
		ids := make([]taskstate.TaskID, len(c.Settle.Statuses))
		for i := range c.Settle.Statuses {
			ids[i] = c.Settle.Statuses[i].Task
		}
		t.Retire(ids...)
	case c.Supersede != nil:
		t.Retire(c.Supersede.Task)
	case c.Remove != nil, c.Depart != nil, c.Register != nil:
		t.Sweep()
	}
}
