package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/story"
	"github.com/coveyproject/covey/taskstate"
)

// storyWriter tells the story what happened that is not about single tasks.
type storyWriter struct {
	who   *Names
	story Story
}

// told are the states of events that people look for in a story, and how they are said; of a job
// with its name in front, of a peer likewise.
var told = map[string]map[string]string{
	kindCoordinator: {"elected": "was elected coordinator"},
	kindPeer: {
		"founded": "founded the cluster", "admitted": "was admitted", "removed": "was removed", "left": "left", "labelled": "was labelled", "roles": "was given roles",
		"activated": "takes tasks", "paused": "takes no new tasks", "drained": "is drained",
	},
	kindJob: {
		"updated": "was updated", "signed": "was signed anew", string(taskstate.RolloutPaused): "its update is paused", string(taskstate.RolloutRollingBack): "its update is turned back",
		string(taskstate.RolloutRolledBack): "its update was turned back", string(taskstate.RolloutRollbackPaused): "its rollback is paused",
		string(taskstate.RolloutCompleted): "its update is complete", "grown": "has more tasks", "skipped": "skipped 1 run",
	},
}

// ordinary is why attempts are given up where nothing is wrong: a task that had not begun went to
// where there is room, or one that was given up came back with its success.
var ordinary = map[string]bool{string(taskstate.ReasonRecalled): true, string(taskstate.ReasonOvertaken): true}

// decided tells what an entry of the ledger meant.
func (t *storyWriter) decided(e ledger.Entry, evs []event) {
	if t.story == nil {
		return
	}
	var out []story.Event
	again := map[taskstate.JobID]map[string]int{} // tasks that were given up, by why
	for i := range evs {
		ev := &evs[i]
		words, ok := told[ev.kind][ev.state]
		switch {
		case ev.kind == kindTask && ev.state == "superseded" && ordinary[ev.note]: // told by the task alone
		case ev.kind == kindTask && ev.state == "superseded":
			if again[ev.task.Job] == nil {
				again[ev.task.Job] = map[string]int{}
			}
			again[ev.task.Job][ev.note]++
		case ok && ev.state == "skipped": // each minute, it may be
			out = append(out, story.Event{
				At: ev.at, Kind: ev.kind, State: ev.state, Job: string(ev.job), Text: t.job(ev.job) + noted(": "+words, ev.note), Count: 1, Of: "run",
			})
		case ok && ev.kind == kindJob:
			out = append(out, story.Event{At: ev.at, Kind: ev.kind, State: ev.state, Job: string(ev.job), Text: t.job(ev.job) + noted(": "+words, ev.note)})
		case ok:
			name, note := t.who.Called(ev.peer), ev.note
			if ev.state == "admitted" {
				note = ""
			}
			out = append(out, story.Event{At: ev.at, Kind: ev.kind, State: ev.state, Peer: ev.peer, Text: name + noted(" "+words, note)})
		}
	}
	for _, job := range slices.Sorted(maps.Keys(again)) {
		for _, why := range slices.Sorted(maps.Keys(again[job])) {
			text := fmt.Sprintf("%s: %s given up: %s", t.job(job), tasksText(again[job][why]), why)
			out = append(out, story.Event{
				At: e.Stamp, Kind: kindTask, State: "superseded", Job: string(job), Text: text, Count: again[job][why], Of: "task", Like: why,
			})
		}
	}
	t.story.Add(story.Entry{Generation: e.Epoch.Generation, Index: e.Index}, out...)
}

// observed tells that a peer vanished or returned. What a peer finds as it starts is no news, but
// that somebody is missing.
func (t *storyWriter) observed(m membership.Member, was membership.Verdict, known bool, note string) {
	if t.story == nil || m.ID == t.who.self {
		return
	}
	name, text := cmp.Or(t.who.Name(m.ID), m.Name, m.ID), ""
	switch {
	case m.Verdict == membership.Dead && m.Parted:
		text = name + " was stopped"
	case m.Verdict == membership.Dead:
		text = name + " cannot be reached"
		if note != "" && note != m.Name {
			text = note
		}
	case m.Verdict == membership.Alive && known && was == membership.Dead:
		text = name + " is back"
	default:
		return
	}
	at := m.Since
	if at.IsZero() {
		at = time.Now()
	}
	t.story.Add(story.Entry{}, story.Event{At: at.UnixMilli(), Kind: kindPeer, State: m.Verdict.String(), Peer: m.ID, Text: text})
}

func (t *storyWriter) job(id taskstate.JobID) (name string) {
	name = string(id)
	t.who.replica.Read(func(s *ledger.State) {
		if j, ok := s.Job(id); ok {
			name = j.Job().Name
		}
	})
	return name
}

func noted(text, note string) string {
	if note == "" {
		return text
	}
	return text + " (" + note + ")"
}

// electedAt is when a peer became the coordinator that it is, as the story has it; 0: it does not.
func (v *View) electedAt(who taskstate.PeerID) int64 {
	if v.cfg.Story == nil {
		return 0
	}
	for _, e := range slices.Backward(v.cfg.Story.Since(time.Time{})) {
		if e.Kind == kindCoordinator {
			if e.Peer == who {
				return e.At
			}
			break
		}
	}
	return 0
}

// Story implements api.PeerBackend.
func (v *View) Story(_ context.Context, since time.Time, limit int) (api.Story, error) {
	out := api.Story{Story: []api.StoryEvent{}, AsOf: v.cfg.Now().UTC()}
	if v.cfg.Story == nil {
		return out, nil
	}
	evs := v.cfg.Story.Since(since)
	for _, e := range evs[max(0, len(evs)-limit):] {
		out.Story = append(out.Story, api.StoryEvent{
			Time: stamp(e.At), Kind: e.Kind, State: e.State, Peer: e.Peer, PeerName: v.named(e.Peer), Job: e.Job, Text: e.Text,
		})
	}
	return out, nil
}

func (v *View) named(peer taskstate.PeerID) string {
	if peer == "" {
		return ""
	}
	return v.Who.Name(peer)
}
