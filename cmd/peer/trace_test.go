package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/api"
)

func TestNoTwoSlicesOfOneThreadOverlapAndNoThreadIsMoreThanItNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.UnixMilli(1e12)
		var all []stretch
		at := now
		most := 0
		for range rapid.IntRange(0, 40).Draw(t, "tasks") {
			at = at.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "later")) * time.Second)
			took := time.Duration(rapid.IntRange(1, 9).Draw(t, "took")) * time.Second
			all = append(all, stretch{task: api.Task{Peer: "p", PeerName: "p", ID: "j.1.1", State: "complete"}, from: at, to: at.Add(took)})
		}
		lanes(all)
		used := 0
		for i, a := range all {
			used = max(used, a.lane+1)
			at := 0
			for j, b := range all {
				if b.from.Compare(a.from) <= 0 && b.to.After(a.from) {
					at++
				}
				if i < j && a.lane == b.lane && a.from.Before(b.to) && b.from.Before(a.to) {
					t.Fatalf("%v and %v share lane %d", a, b, a.lane)
				}
			}
			most = max(most, at)
		}
		if used != most {
			t.Fatalf("%d lanes where %d ran at once", used, most)
		}
		var out bytes.Buffer
		var v struct {
			Events []traceEvent `json:"traceEvents"`
		}
		if err := writeTrace(&out, all); err != nil || json.Unmarshal(out.Bytes(), &v) != nil {
			t.Fatalf("%v\n%s", err, out.String())
		}
		if n := len(v.Events); n != len(all)+min(1, len(all)) {
			t.Fatalf("%d events of %d tasks", n, len(all))
		}
	})
}

func TestWhatNeverRanIsNotDrawnAndWhatRunsIsDrawnUpToNow(t *testing.T) {
	now := time.UnixMilli(1e12)
	if _, ran := stretchOf(api.Task{State: "pending", At: now}, now); ran {
		t.Error("a pending task is drawn")
	}
	if _, ran := stretchOf(api.Task{State: "shutdown", At: now}, now); ran {
		t.Error("one that was stopped before it began is drawn")
	}
	s, ran := stretchOf(api.Task{State: "running", At: now.Add(-time.Minute)}, now)
	if !ran || s.to != now || s.from != now.Add(-time.Minute) {
		t.Errorf("running: %+v, %v", s, ran)
	}
	s, ran = stretchOf(api.Task{State: "failed", At: now, Took: 1.5}, now)
	if !ran || s.to.Sub(s.from) != 1500*time.Millisecond {
		t.Errorf("ended: %+v, %v", s, ran)
	}
}
