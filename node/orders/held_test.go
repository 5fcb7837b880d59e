package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// holding is one held job, what a coordinator says of it, and what people are told.
type holding struct {
	View
	Held
	Roster
	jobs []held.Job
	says error     // until the moment set, or for ever if that is zero
	set  time.Time // when what it says is over
	told []string

	known time.Time       // when what it decided is known here
	asked []time.Duration // since the beginning, when it was asked to decide
	began time.Time

	dropped time.Time
}

// near is a ledger of which no round trip takes long.
type near struct{ Ledger }

func (near) Distance() time.Duration { return 0 }

func (h *holding) List() []held.Job { return h.jobs }

func (h *holding) Drop(id taskstate.JobID, _ bool) (bool, error) {
	h.jobs = slices.DeleteFunc(slices.Clone(h.jobs), func(j held.Job) bool { return j.Job.ID == id })
	h.dropped = time.Now()
	return true, nil
}

func (h *holding) Withdrawals() []held.Job { return nil }

func (h *holding) Cluster() string { return "c" }

func (h *holding) Get(string) (admission.Entry, bool) { return admission.Entry{}, false }

func (h *holding) Refused(_ *taskstate.Job, why string) { h.told = append(h.told, why) }

func (h *holding) Reach(ctx context.Context, index uint64) error {
	wait, cancel := context.WithDeadline(ctx, h.known)
	defer cancel()
	<-wait.Done()
	return ctx.Err()
}

func (h *holding) Decide(context.Context, calls.Call) (calls.Reply, error) {
	h.asked = append(h.asked, time.Since(h.began))
	if !h.set.IsZero() && !time.Now().Before(h.set) {
		return calls.Reply{}, nil
	}
	return calls.Reply{}, h.says
}

// forward has held jobs brought to the coordinator for so long, at a time of the ledger.
func (h *holding) forward(t *testing.T, long time.Duration, now int64) {
	t.Helper()
	o := New(Config{View: h, Ledger: near{}, Held: h, Roster: h, Line: h, LedgerTime: func() int64 { return now }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	if err := o.Forward(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestAHeldJobThatIsRefusedIsToldToWhoSubmittedIt(t *testing.T) {
	const now = 1_700_000_000_000
	for what, c := range map[string]struct {
		until int64
		want  string
	}{
		"as the coordinator says it":       {now + 1, "no such thing"},
		"an order that ended while it was": {now - 1, "before a coordinator took it"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &holding{says: errors.New("no such thing")}
			h.jobs = []held.Job{{Job: taskstate.Job{ID: "j", Order: &taskstate.Order{Cluster: "c", Until: c.until}}}}
			h.forward(t, time.Second, now)
			if len(h.told) != 1 || !strings.Contains(h.told[0], c.want) || len(h.jobs) > 0 {
				t.Errorf("%s: told %q, %d jobs are held still", what, h.told, len(h.jobs))
			}
		})
	}
}

func TestAHeldJobStaysHeldUntilAClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := time.Now().Add(5 * time.Minute)
		h := &holding{says: fmt.Errorf("%w by a year", calls.ErrSkewed), set: set}
		h.jobs = []held.Job{{Job: taskstate.Job{ID: "j", Order: &taskstate.Order{Cluster: "c", Until: 1}}}}
		h.forward(t, 6*time.Minute, 0)
		if len(h.jobs) > 0 || len(h.told) > 0 {
			t.Errorf("a minute after the clock was set %d jobs are held, told %q", len(h.jobs), h.told)
		}
		if h.dropped.Before(set) {
			t.Errorf("it was held no longer %v before the clock was set", set.Sub(h.dropped))
		}
	})
}

func TestAJobThatWasAcceptedStaysHeldUntilItIsKnownHereAndKeepsNoOtherBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := time.Now().Add(10 * time.Second)
		h := &holding{known: known, began: time.Now()}
		for _, id := range []taskstate.JobID{"j", "k"} {
			h.jobs = append(h.jobs, held.Job{Job: taskstate.Job{ID: id, Order: &taskstate.Order{Cluster: "c", Until: 1}}})
		}
		h.forward(t, time.Minute, 0)
		if len(h.jobs) > 0 || len(h.told) > 0 {
			t.Fatalf("%d jobs are held, told %q", len(h.jobs), h.told)
		}
		if h.dropped.Before(known) {
			t.Errorf("for %v it was neither held nor known", known.Sub(h.dropped))
		}
		if !slices.Equal(h.asked, []time.Duration{0, 0}) {
			t.Errorf("a coordinator was asked after %v", h.asked)
		}
	})
}
