package view

import (
	"fmt"
	"sync"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Events makes events of what happens, for watchers. It hears of everything by Decided,
// Reported, Seen and Tell.
type Events struct {
	hub     *hub
	replica Replica
	table   Table
	now     func() int64 // this machine's clock, in milliseconds since 1970

	writer storyWriter

	mu       sync.Mutex
	verdicts map[taskstate.PeerID]membership.Verdict // told last
}

// Decided makes events of an applied entry, or of a ledger that was replaced as a whole. It comes
// before the table forgets what the ledger now knows for good.
func (v *Events) Decided(ev ledger.Event) {
	if ev.Reset {
		v.hub.append([]event{{at: v.now(), kind: kindSnapshot}})
		return
	}
	evs := v.entryEvents(ev)
	v.writer.decided(ev.Entry, evs)
	v.hub.append(evs)
}

// Reported makes events of what was news of tasks.
func (v *Events) Reported(news []taskstate.Status) {
	evs := make([]event, 0, len(news))
	for _, st := range news {
		peer, _, _, _ := v.replica.Assigned(st.Task)
		evs = append(evs, taskEvent(st, peer))
	}
	v.hub.append(evs)
}

// Tell makes an event of what became of a job at this peer: decided is nothing of it.
func (v *Events) Tell(job taskstate.JobID, state, note string) {
	v.hub.append([]event{{at: v.now(), kind: kindJob, job: job, state: state, note: note}})
}

// Next is closed when the next event comes.
func (v *Events) Next() <-chan struct{} {
	_, _, more := v.hub.after(v.hub.last())
	return more
}

// entryEvents lists what an applied entry means to a watcher.
func (v *Events) entryEvents(ev ledger.Event) []event {
	e := ev.Entry
	var out []event
	for i := range e.Commands {
		c := &e.Commands[i]
		var r ledger.Result
		if i < len(ev.Results) {
			r = ev.Results[i]
		}
		if r.Skipped {
			c = skipInstead(c.Submit, r)
		} else if ev.Refused(i) {
			continue
		}
		switch {
		case c.Lead != nil:
			out = append(out, event{at: e.Stamp, kind: kindCoordinator, peer: e.By, state: "elected", note: "epoch " + e.Epoch.String()})
		case c.Found != nil, c.Admit != nil, c.Remove != nil, c.Depart != nil, c.Register != nil:
			out = append(out, v.memberEvent(e, c))
		case (c.Avail != nil || c.Label != nil) && !r.Existed:
			out = append(out, decidedOf(e, c))
		case c.Submit != nil && !r.Existed:
			out = append(out, event{at: e.Stamp, kind: kindJob, job: c.Submit.Job.ID, state: "pending", note: c.Submit.Job.Name})
		case c.Cancel != nil:
			out = append(out, event{at: e.Stamp, kind: kindJob, job: c.Cancel.Job, state: "cancelled", note: c.Cancel.Reason})
		case c.Assign != nil:
			out = append(out, v.assignEvents(e, c.Assign)...)
		case c.Settle != nil:
			out = append(out, v.settleEvents(e, c.Settle, r)...)
		case c.Update != nil, c.Rollout != nil, c.Renew != nil, c.Retire != nil, c.Grow != nil, c.Skip != nil:
			out = append(out, v.changeEvents(e, c, r)...)
		case c.Supersede != nil:
			out = append(out, event{at: e.Stamp, kind: kindTask, task: c.Supersede.Task, state: "superseded", exit: taskstate.NoExit, note: string(c.Supersede.Reason)})
		}
		out = append(out, v.consequences(e, c, r)...)
	}
	return append(append(out, v.jobEnds(ev)...), forgotten(ev)...)
}

func (v *Events) memberEvent(e ledger.Entry, c *ledger.Command) event {
	ev := event{at: e.Stamp, kind: kindPeer}
	switch {
	case c.Found != nil:
		ev.peer, ev.state = c.Found.Founder.Peer, "founded"
	case c.Admit != nil && c.Admit.Ticket == "" && c.Act != nil: // the word of somebody who gave a member roles
		ev.peer, ev.state, ev.note = c.Admit.Entry.Peer, "roles", rolesText(c.Admit.Entry.Roles)
	case c.Admit != nil:
		ev.peer, ev.state, ev.note = c.Admit.Entry.Peer, "admitted", plainName(c.Admit.Entry.Name)
	case c.Remove != nil:
		ev.peer, ev.state, ev.note = c.Remove.Peer, "removed", c.Remove.Reason
	case c.Depart != nil:
		ev.peer, ev.state = c.Depart.Peer, "left"
	case c.Register != nil:
		ev.peer, ev.state, ev.note = c.Register.Peer, "registered", plainName(c.Register.Name)
	}
	return ev
}

// plainName is a name as it can be shown, "" if it cannot.
func plainName(name string) string {
	if admission.CheckName(name) != nil {
		return ""
	}
	return name
}

// assignEvents makes an event of every slot of which the worker has not told more already: it may
// be faster than this peer.
func (v *Events) assignEvents(e ledger.Entry, a *ledger.Assign) []event {
	var out []event
	for _, run := range a.Slots {
		for i := range run.N {
			if _, ok := v.table.Get(taskstate.Task(a.Job, run.First+i, run.Attempt)); ok {
				continue
			}
			out = append(out, event{
				at: e.Stamp, kind: kindTask, task: taskstate.Task(a.Job, run.First+i, run.Attempt), peer: a.Peer,
				state: taskstate.Assigned.String(), exit: taskstate.NoExit,
			})
		}
	}
	return out
}

// settleEvents makes an event of every end that the table had not shown already.
func (v *Events) settleEvents(e ledger.Entry, c *ledger.Settle, r ledger.Result) (out []event) {
	refused := r.Statuses
	for _, s := range c.Statuses {
		if len(refused) > 0 && refused[0] == s.Task {
			refused = refused[1:] // it changed nothing; `peer explain` tells it
			continue
		}
		if have, ok := v.table.Get(s.Task); !ok || !have.State.Final() {
			out = append(out, taskEvent(s, c.Peer))
		}
	}
	for _, t := range r.Overtaken {
		out = append(out, event{at: e.Stamp, kind: kindTask, task: t, state: "superseded", exit: taskstate.NoExit, note: string(taskstate.ReasonOvertaken)})
	}
	return out
}

func (v *Events) jobEnds(ev ledger.Event) (out []event) {
	if len(ev.Ended) == 0 {
		return nil
	}
	v.replica.Read(func(s *ledger.State) {
		for _, id := range ev.Ended {
			if j, ok := s.Job(id); ok {
				out = append(out, event{at: ev.Entry.Stamp, kind: kindJob, job: id, state: j.State().String()})
			}
		}
	})
	return out
}

func forgotten(ev ledger.Event) (out []event) {
	for _, f := range ev.Forgot {
		out = append(out, event{at: ev.Entry.Stamp, kind: kindJob, job: f.Job, state: f.State.String(), gone: true, note: "not kept any more"})
	}
	return out
}

// Seen makes events of the verdicts that changed since the view before, and tells who of the
// members died.
func (v *Events) Seen(view *membership.View) (died []taskstate.PeerID) {
	v.mu.Lock()
	var evs []event
	for _, m := range view.Members {
		if was, ok := v.verdicts[m.ID]; !ok || was != m.Verdict {
			v.verdicts[m.ID] = m.Verdict
			e := event{at: v.now(), kind: kindPeer, peer: m.ID, state: m.Verdict.String(), note: v.verdictNote(m)}
			evs = append(evs, e)
			v.writer.observed(m, was, ok, e.note)
			if m.Verdict == membership.Dead {
				died = append(died, m.ID)
			}
		}
	}
	v.mu.Unlock()
	v.hub.append(evs)
	return died
}

// verdictNote names a peer, and says what it has if it cannot be reached.
func (v *Events) verdictNote(m membership.Member) string {
	if m.Verdict != membership.Dead {
		return m.Name
	}
	open := 0
	v.replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if _, over := j.Ended(); over {
				continue
			}
			for r := range j.OpenSlots() {
				if r.Peer == m.ID {
					open++
				}
			}
		}
	})
	if open == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s; unreachable with %s that had not ended", m.Name, tasksText(open))
}
