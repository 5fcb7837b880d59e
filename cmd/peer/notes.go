package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// jobNote says in a few words what there is to know about a job besides its counts.
func jobNote(j api.Job) string {
	switch {
	case j.Over() && j.Cancelled != "":
		return strings.TrimPrefix(originNote(j)+", "+cancelText(j), ", ")
	case j.Over():
		return originNote(j)
	case j.Version > 0:
		return rolloutText(j)
	case len(j.After) > 0:
		return afterNote(j.After)
	case j.Schedule != nil:
		return scheduleNote(j.Schedule)
	}
	return originNote(j)
}

// tableNote is jobNote for a list: what cannot be reached and why the job waits come before all
// else.
func tableNote(j api.Job) string {
	var parts []string
	for _, a := range j.Unreachable {
		parts = append(parts, awayText(a))
	}
	if j.Waiting != "" && !j.Over() && len(j.After) == 0 {
		parts = append(parts, waitingText(j.Waiting))
	}
	if note := orderWarning(j, time.Now()); note != "" && j.Waiting != note {
		parts = append(parts, note)
	}
	if note := jobNote(j); note != "" && (len(parts) == 0 || j.Version > 0) {
		parts = append(parts, note)
	}
	return strings.Join(parts, "; ")
}

// orderWarning says that a job will start nothing more, from a day before; "" until then.
func orderWarning(j api.Job, now time.Time) string {
	if j.Order == nil || j.Over() || j.Order.Until.Sub(now) > taskstate.OrderWarning {
		return ""
	}
	how, when := "expires", j.Order.Until.Local().Format(withZone)
	if now.After(j.Order.Until) {
		how = "expired"
	}
	return fmt.Sprintf("its order %s on %s; renew it with `peer renew %s`", how, when, j.ID)
}

// orderText is who signed a job, and until when that counts.
func orderText(j api.Job, now time.Time) string {
	if j.Order == nil || j.Over() {
		return ""
	}
	if warn := orderWarning(j, now); warn != "" {
		return warn
	}
	return "signed by " + shortID(j.Order.By) + ", starts tasks until " + j.Order.Until.Local().Format(withZone)
}

// waitingText is why a job waits as a line of its own.
func waitingText(why string) string {
	if why != "" && why[0] >= '0' && why[0] <= '9' { // 30 tasks wait: …
		return why
	}
	return "waiting: " + why
}

func cancelText(j api.Job) string {
	if strings.HasPrefix(j.Cancelled, "by ") {
		return "cancelled " + j.Cancelled
	}
	return "cancelled: " + j.Cancelled
}

func originNote(j api.Job) string {
	if j.Origin == nil {
		return ""
	}
	return fmt.Sprintf("run of %s for %s", j.Origin.Job, minute(j.Origin.At))
}

func afterNote(before []api.Predecessor) string {
	var names []string
	for _, p := range before {
		if p.State != "complete" {
			names = append(names, strings.TrimSpace(p.Name+" "+p.ID))
		}
	}
	return "starts after " + strings.Join(names, ", ")
}

func scheduleNote(s *api.Schedule) string {
	note := fmt.Sprintf("starts at %q %s", s.Cron, s.Zone)
	if s.Next != nil {
		note += ", next " + minute(*s.Next)
	}
	if s.Last != nil {
		note += ", last " + minute(*s.Last)
	}
	if s.Skip != nil {
		note += fmt.Sprintf(", skipped %d: at %s run %s went on", s.Skipped, minute(s.Skip.At), s.Skip.Run)
	}
	return note
}

// withZone is a time in the reader's zone, which it names.
const withZone = "2006-01-02 15:04:05 MST"

func minute(t time.Time) string { return t.Local().Format("2006-01-02 15:04 MST") }

// taskNote is a task's message, or what else there is to know about it.
func taskNote(t api.Task) string {
	switch {
	case t.Unreachable != nil:
		return unreachableText(orDash(t.PeerName), *t.Unreachable)
	case t.Leaving != "":
		return "being stopped: " + t.Leaving
	case t.NotBefore != nil:
		return strings.TrimPrefix(t.Message+"; starts again at ", "; ") + t.NotBefore.Local().Format("15:04:05 MST")
	case t.Message == "" && t.Retired:
		return "not wanted any more: " + t.Reason
	case t.Message == "" && t.Earlier:
		return t.Reason
	case t.Message == "" && t.Output != nil && t.Output.Copies < t.Output.Keep:
		return t.Output.Why
	}
	return t.Message
}

func peerCalled(p api.Peer) string {
	if p.Name != "" {
		return p.Name
	}
	return p.ID
}

func tasksLeft(p api.Peer) int {
	if p.TasksLeft == nil {
		return 0
	}
	return *p.TasksLeft
}

func tasksText(n int) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// wentWrong tells of a task what failures counts.
func wentWrong(t api.Task) bool {
	return t.State == "failed" || t.State == "rejected" || t.State == "orphaned"
}

// failures counts the tasks that went wrong, whatever the way.
func failures(j api.Job) int { return j.Tasks["failed"] + j.Tasks["rejected"] + j.Tasks["orphaned"] }

func took(j api.Job) string {
	if j.Ended == nil {
		return "-"
	}
	return short(j.Ended.Sub(j.Submitted))
}

// reached counts the tasks that run on peers that can be reached. What others do nobody knows.
func reached(j api.Job) int {
	n := j.Tasks["running"]
	for _, a := range j.Unreachable {
		n -= a.Running
	}
	return max(0, n)
}

// awayText says what a peer has of a job that cannot be reached.
func awayText(a api.Away) string {
	return countOf(a.Tasks, "task") + " " + unreachableText(a.PeerName, a.Unreachable)
}

// unreachableText says since when a peer cannot be reached, and what will happen with what it has.
func unreachableText(peer string, u api.Unreachable) string {
	return fmt.Sprintf("unreachable on %s for %s; %s", peer, short(time.Since(u.Since)), u.Then)
}

// jobState is how people read the state of a job; in JSON one that was cancelled is "shutdown".
func jobState(state string) string {
	if state == taskstate.Shutdown.String() {
		return "cancelled"
	}
	return state
}
