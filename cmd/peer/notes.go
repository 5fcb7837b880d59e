package main

import (
	"fmt"
	"strings"
	"time"

	"covey/node/api"
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
	if note := jobNote(j); note != "" && (len(parts) == 0 || j.Version > 0) {
		parts = append(parts, note)
	}
	return strings.Join(parts, "; ")
}

// waitingText is why a job waits as a line of its own.
func waitingText(why string) string {
	if why != "" && why[0] >= '0' && why[0] <= '9' { // 30 tasks wait: …
		return why
	}
	return "waiting: " + why
}

// cancelText says who or what cancelled a job.
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
	}
	return t.Message
}
