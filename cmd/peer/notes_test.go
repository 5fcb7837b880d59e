package main

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

func TestAnOrderThatEndsIsToldADayBefore(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for left, want := range map[time.Duration]string{25 * time.Hour: "", 23 * time.Hour: "its order expires on ", -time.Hour: "its order expired on "} {
		j := api.Job{ID: "k3v5q7x2ab", State: "running", Order: &api.Order{By: "12D3KooWfinch", Until: now.Add(left)}}
		got := orderWarning(j, now)
		if want == "" && got != "" || want != "" && (!strings.HasPrefix(got, want) || !strings.HasSuffix(got, "peer renew k3v5q7x2ab`")) {
			t.Errorf("%v before: %q", left, got)
		}
		if j.Ended = &now; orderWarning(j, now) != "" {
			t.Errorf("a job that is over is warned of")
		}
	}
}
