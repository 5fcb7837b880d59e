package view

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

func TestWhatBecomesOfTasksThatCannotBeReachedIsSaid(t *testing.T) {
	now := time.Unix(1000, 0)
	job := func(change func(*taskstate.Job)) *taskstate.Job {
		j := &taskstate.Job{Type: taskstate.BatchJob, Unreachable: taskstate.Unreachable{ReplaceAfter: 10_000}}
		if change != nil {
			change(j)
		}
		return j
	}
	for name, x := range map[string]struct {
		job       *taskstate.Job
		ago       time.Duration
		frozen    bool
		nobody    bool
		cancelled bool
		want      string
	}{
		"soon":         {job: job(nil), ago: 8 * time.Second, want: "replaced in 2s"},
		"very soon":    {job: job(nil), ago: 10*time.Second - time.Millisecond, want: "replaced in 100ms"},
		"now":          {job: job(nil), ago: 11 * time.Second, want: "is being replaced"},
		"later":        {job: job(func(j *taskstate.Job) { j.Unreachable.ReplaceAfter = 600_000 }), ago: 30 * time.Second, want: "replaced in 9m30s"},
		"not twice":    {job: job(func(j *taskstate.Job) { j.Unreachable = taskstate.Unreachable{Wait: true} }), ago: time.Hour, want: "waits for it"},
		"frozen":       {job: job(nil), ago: time.Minute, frozen: true, want: "replacement is frozen (`peer thaw`)"},
		"nobody leads": {job: job(nil), ago: time.Minute, nobody: true, want: "waits for a coordinator"},
		"global":       {job: job(func(j *taskstate.Job) { j.Type = taskstate.GlobalJob }), ago: time.Second, want: "runs there again when it is back"},
		"cancelled":    {job: job(nil), ago: time.Second, cancelled: true, want: "it ends without it"},
	} {
		a := away{since: map[taskstate.PeerID]time.Time{"p": now.Add(-x.ago)}, frozen: x.frozen, decides: !x.nobody, now: now}
		open := ledger.SlotRecord{Slot: 1, Attempt: 1, Open: true, Peer: "p"}
		u := a.of(x.job, open, x.cancelled)
		if u == nil || u.Then != x.want || !u.Since.Equal(now.Add(-x.ago)) {
			t.Errorf("%s: %+v, want %q", name, u, x.want)
		}
		over, elsewhere := open, open
		over.Open, elsewhere.Peer = false, "q"
		if a.of(x.job, over, x.cancelled) != nil || a.of(x.job, elsewhere, x.cancelled) != nil {
			t.Errorf("%s: what is over, or elsewhere, is unreachable", name)
		}
	}
}
