package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

func (t *explainer) tellSlots() {
	for _, s := range t.slots {
		t.tellSlot(s)
	}
	on := t.job.completeOn
	for _, peer := range slices.Sorted(maps.Keys(on)) {
		t.add(t.end(), api.Fact{Kind: kindTask, Peer: peer, State: taskstate.Complete.String(), Text: fmt.Sprintf("%d tasks complete on %s, told one by one by `peer tasks %s`", on[peer], t.name(peer), t.id)})
	}
	on = t.job.openOn
	for _, peer := range slices.Sorted(maps.Keys(on)) {
		rule, words := t.rule()
		t.add(t.end(), api.Fact{Kind: kindTask, Peer: peer, State: taskstate.Assigned.String(), Reason: rule, Text: fmt.Sprintf("%d tasks given to %s have not ended (%s: %s), told one by one by `peer tasks %s`", on[peer], t.name(peer), rule, words, t.id)})
	}
	if t.job.untold > 0 {
		t.add(t.end(), api.Fact{Kind: "note", Text: fmt.Sprintf("%d more slots have a story of their own: `peer explain %s.SLOT`", t.job.untold, t.id)})
	}
}

func (t *explainer) end() int64 {
	if t.job.over {
		return t.job.ended
	}
	return t.now
}

func (t *explainer) wants(attempt int) bool { return t.attempt == 0 || t.attempt == attempt }

func (t *explainer) tellSlot(s slotFacts) {
	for i, p := range s.past {
		if !t.wants(p.Attempt) {
			continue
		}
		next, peer := s.Attempt, s.Peer
		if i+1 < len(s.past) {
			next, peer = s.past[i+1].Attempt, s.past[i+1].Peer
		}
		if next <= p.Attempt { // it was overtaken before it was given to anybody
			next, peer = p.Attempt+1, ""
		}
		t.tellPast(s.Slot, p, next, peer)
	}
	if !t.wants(s.Attempt) {
		return
	}
	task := taskstate.Task(t.id, s.Slot, s.Attempt)
	back := slices.ContainsFunc(s.past, func(p ledger.PastAttempt) bool { return p.Attempt == s.Attempt })
	if s.Peer != "" && !back { // one that came back was told with the past
		t.placed(task, s.Peer, s.AssignedAt)
		v := visit{task: task, peer: s.Peer, from: s.AssignedAt, to: t.now}
		if s.Final != nil {
			v.to = max(s.Final.At, s.AssignedAt)
		}
		t.visits = append(t.visits, v)
	}
	if s.Final != nil {
		t.ended(s, back)
	}
	t.tellNext(task, s)
}

// placed tells where a task was given, and by what rule.
func (t *explainer) placed(task taskstate.TaskID, peer taskstate.PeerID, at int64) {
	rule, words := t.rule()
	t.add(at, api.Fact{
		Kind: kindTask, Task: task.String(), Peer: peer, State: taskstate.Assigned.String(), Reason: rule,
		Text: fmt.Sprintf("given to %s (%s: %s)", t.name(peer), rule, words),
	})
}

// rule is how the job's tasks are placed, as a word and for people.
func (t *explainer) rule() (name, words string) {
	switch j := t.job.job; {
	case j.Type == taskstate.GlobalJob:
		return "global", "each peer that fits has one task"
	case j.Strategy == taskstate.Binpack:
		return string(j.Strategy), "the fullest peer that has room"
	case j.Strategy == taskstate.Random:
		return string(j.Strategy), "at random among the peers that have room"
	case j.Over != "":
		return string(taskstate.Spread), "evenly over the values of " + j.Over
	}
	return string(taskstate.Spread), "free peers first, then the one with the fewest tasks of the job"
}

func (t *explainer) tellPast(slot int, p ledger.PastAttempt, next int, peer taskstate.PeerID) {
	task := taskstate.Task(t.id, slot, p.Attempt)
	t.placed(task, p.Peer, p.AssignedAt)
	t.visits = append(t.visits, visit{task: task, peer: p.Peer, from: p.AssignedAt, to: t.end(), past: true})
	if l := p.Late; l != nil {
		t.tellLate(task, p)
	}
	if p.Reason == taskstate.ReasonOvertaken {
		t.add(p.GivenUpAt, api.Fact{
			Kind: kindTask, Task: task.String(), Peer: p.Peer, State: "superseded", Reason: string(p.Reason),
			Text: "stopped: an earlier attempt came back with its success, and that counts",
		})
		return
	}
	if p.End != nil {
		t.tellEnded(task, p, next, peer)
		return
	}
	text := fmt.Sprintf("given up: %s; attempt %d takes its place", whyGivenUp(p.Reason), next)
	if peer != "" {
		text += ", on " + t.name(peer)
	}
	t.add(p.GivenUpAt, api.Fact{Kind: kindTask, Task: task.String(), Peer: p.Peer, State: "superseded", Reason: string(p.Reason), Text: text})
}

// tellLate tells an end that came when the attempt had been given up, and does not count.
func (t *explainer) tellLate(task taskstate.TaskID, p ledger.PastAttempt) {
	f := api.Fact{Kind: kindTask, Task: task.String(), Peer: p.Peer, State: p.Late.State.String(), Reason: "late"}
	f.Text = fmt.Sprintf("reported late, and does not count: %s on %s", endText(taskstate.Status{State: p.Late.State, Exit: p.Late.Exit}), t.name(p.Peer)) + ranText(p.Late.Took, 0)
	if p.Late.State == taskstate.Complete || p.Late.State == taskstate.Failed {
		f.Text += "; so this slot ran more than once"
	}
	if p.Late.Exit != taskstate.NoExit {
		f.ExitCode = new(p.Late.Exit)
	}
	t.add(p.Late.Heard, f)
}

// whyGivenUp says a reason for giving up in a person's words.
func whyGivenUp(r taskstate.Reason) string {
	switch r {
	case taskstate.ReasonUnreachable:
		return "its peer could not be reached for as long as the job allows"
	case taskstate.ReasonStuck:
		return "its peer's disk takes nothing, or its machine refused it a process or a file, and it was not begun"
	case taskstate.ReasonNoRoom:
		return "its peer had no room for its inputs, and it was not begun"
	case taskstate.ReasonPolicy:
		return "its peer's owner does not let it run there"
	case taskstate.ReasonNotStarted:
		return "its peer had room for it and did not start it"
	case taskstate.ReasonOutputLost:
		return "its peer's disk did not take all of its output"
	case taskstate.ReasonRecalled:
		return "taken back before it started, to start sooner elsewhere"
	case taskstate.ReasonInterrupted:
		return "its peer stopped, restarted, left or lost its data"
	case taskstate.ReasonDropped:
		return "its peer does not have it and never will"
	case taskstate.ReasonRestart:
		return "the restart policy"
	case taskstate.ReasonRetried:
		return "retried"
	case taskstate.ReasonUpdated:
		return "another version takes its place"
	case taskstate.ReasonDrained:
		return "its peer is drained"
	case taskstate.ReasonMoved:
		return "it belongs elsewhere"
	case taskstate.ReasonScaled:
		return "its slot is wanted again"
	}
	return string(r)
}

// ended tells a slot's end as it was decided.
func (t *explainer) ended(s slotFacts, back bool) {
	f := s.Final
	fact := api.Fact{Kind: kindTask, Task: f.Task.String(), Peer: s.Peer, State: f.State.String(), Reason: string(f.Reason), HeldTo: f.Held.Words(), Text: endText(*f)}
	if s.Peer != "" {
		fact.Text += " on " + t.name(s.Peer) + ranText(f.Took, f.Waited)
	}
	if f.Exit != taskstate.NoExit {
		fact.ExitCode = new(f.Exit)
	}
	if f.State != taskstate.Complete {
		fact.Text = withNote(fact.Text, f.Message)
	}
	if k := f.Saved; k != nil && len(k.Keepers) < k.Keep {
		fact.Text = withNote(fmt.Sprintf("%s; %d of %d copies of its files", fact.Text, len(k.Keepers), k.Keep), k.Why)
	}
	if back {
		fact.Text += "; it had been given up, came back with this, and counts"
	}
	t.add(max(f.At, s.AssignedAt), fact) // its peer's clock may be wrong; the order of things is not
}

// withNote adds what a worker said, unless that is in the text already.
func withNote(text, note string) string {
	if strings.Contains(text, note) { // an empty one, too
		return text
	}
	return text + ": " + note
}

// spanText is a number of milliseconds for people, in three digits or so.
func spanText(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	}
	return d.String()
}

// ranText says behind an end how long it took, and how long the task had waited for its turn where
// that was worth a word.
func ranText(took, waited int64) string {
	switch {
	case took <= 0:
		return ""
	case waited < 100:
		return " after " + spanText(took)
	}
	return fmt.Sprintf(" after %s (and %s in line there)", spanText(took), spanText(waited))
}

func endText(f taskstate.Status) string {
	text := taskstate.Shown(f.State.String())
	switch {
	case f.Signal > 0:
		text += fmt.Sprintf(", by signal %d", f.Signal)
	case f.Exit != taskstate.NoExit:
		text += fmt.Sprintf(" with exit code %d", f.Exit)
	}
	if f.Reason != taskstate.ReasonNone && f.Reason != taskstate.ReasonExit && f.Reason != taskstate.ReasonSignal {
		text += fmt.Sprintf(" (%s)", f.Reason)
	}
	if f.Truncated {
		text += ", not all of its output was kept (max_output)"
	}
	return text
}
