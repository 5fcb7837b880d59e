package view

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// tellNews adds what this peer observed and still remembers: states below the end, what became of
// the peers meanwhile, elections. What it does not remember is not made up; a note says so.
func (t *explainer) tellNews() {
	evs, _, _ := t.view.hub.after(0)
	seen := map[seenState]bool{}
	visits := map[taskstate.TaskID]visit{}
	for _, v := range t.visits {
		visits[v.task] = v
	}
	for i := range evs {
		e := &evs[i]
		switch {
		case e.at < t.job.accepted && e.kind != kindTask, e.at > t.end() && t.job.over:
		case e.kind == kindTask && e.task.Job == t.id:
			if v, ok := visits[e.task]; ok && t.tellState(e, v) {
				seen[seenState{e.task, e.state}] = true
			}
		case e.kind == kindJob && e.job == t.id:
			t.tellChange(e)
		case e.kind == kindPeer:
			t.tellPeer(e)
		case e.kind == kindCoordinator && (e.at > t.job.accepted || e.note != "epoch "+t.job.epoch.String()):
			t.add(e.at, api.Fact{Kind: kindCoordinator, Peer: e.peer, State: e.state, Text: fmt.Sprintf("%s was elected coordinator (%s)", t.name(e.peer), e.note)})
		}
	}
	t.tellReported(seen)
	switch started := t.view.cfg.Started; {
	case len(evs) > 0 && evs[0].seq > 1 && evs[0].at > t.job.accepted:
		t.tellGap(stamp(evs[0].at))
	case started.UnixMilli() > t.job.accepted:
		t.tellGap(started.UTC())
	}
}

type seenState struct {
	task  taskstate.TaskID
	state string
}

// tellGap says from when on observations are remembered here.
func (t *explainer) tellGap(from time.Time) {
	t.facts = append(t.facts, api.Fact{Time: from, Kind: "note", Text: "this peer remembers observations from here on; before this only decisions are told"})
}

// tellState tells a state that a worker reported. Those that the ledger has are told from there.
func (t *explainer) tellState(e *event, v visit) bool {
	var s taskstate.State
	if s.UnmarshalText([]byte(e.state)) != nil || s <= taskstate.Assigned || s.Final() && (!v.past || t.late[e.task]) {
		return false
	}
	f := api.Fact{Kind: kindTask, Task: e.task.String(), Peer: v.peer, State: e.state, HeldTo: e.held.Words(), Text: e.state + " on " + t.name(v.peer)}
	if s.Final() && e.exit != taskstate.NoExit {
		f.ExitCode = new(e.exit)
		f.Text += fmt.Sprintf(" with exit code %d", e.exit)
	}
	f.Text = withNote(f.Text, e.note)
	t.add(max(e.at, v.from), f)
	return true
}

// tellReported adds the newest status of open tasks, where the ring does not have it any more, or
// the end is not decided yet.
func (t *explainer) tellReported(seen map[seenState]bool) {
	for _, v := range t.visits {
		st, ok := t.view.cfg.Table.Get(v.task)
		if !ok || seen[seenState{v.task, st.State.String()}] {
			continue
		}
		text := taskstate.Shown(st.State.String())
		if st.State.Final() {
			text = "reported " + endText(st) + ", not decided yet"
		}
		t.add(max(st.At, v.from), api.Fact{
			Kind: kindTask, Task: v.task.String(), Peer: v.peer, State: st.State.String(), Reason: string(st.Reason), HeldTo: st.Held.Words(), Text: text + " on " + t.name(v.peer),
		})
	}
}

// tellPeer tells what became of a peer while a task of the story was there.
func (t *explainer) tellPeer(e *event) {
	for _, v := range t.visits {
		if v.peer != e.peer || e.at < v.from || e.at > v.to {
			continue
		}
		text := ""
		switch e.state {
		case "alive", "suspect", "dead":
			text = fmt.Sprintf("%s is %s, as this peer sees it", t.name(e.peer), e.state)
		case "registered":
			text = t.name(e.peer) + " registered with the coordinator"
		default:
			text = fmt.Sprintf("%s: %s %s", t.name(e.peer), e.state, e.note)
		}
		t.add(e.at, api.Fact{Kind: kindPeer, Peer: e.peer, State: e.state, Text: text})
		return
	}
}
