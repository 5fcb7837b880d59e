package node

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

var errSeen = errors.New("seen enough")

// watched gathers events after a token until one satisfies enough.
func (l *living) watched(since string, enough func(api.Event) bool) (evs []api.Event) {
	l.t.Helper()
	err := l.Watch(timed(l.t), since, func(e api.Event) error {
		evs = append(evs, e)
		if enough(e) {
			return errSeen
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		l.t.Fatalf("the watch ended with %v after %v", err, evs)
	}
	return evs
}

func TestAWatchBeginsWithASnapshotAndIsResumedWhereItEnded(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	start := l.watched("", func(api.Event) bool { return true })
	if start[0].Kind != "snapshot" || start[0].Message != "events from here on" {
		t.Fatalf("%+v", start)
	}
	id := l.submit(noopJob("seen", 2, 0))
	over := func(e api.Event) bool { return e.Kind == "job" && e.Job == id && e.State == "complete" }
	all := l.watched(start[0].Token, over)
	// This peer's own registration may still come in between: the first word about the job is that
	// it is pending.
	first := slices.IndexFunc(all, func(e api.Event) bool { return e.Job == id })
	if first < 0 || all[first].Kind != "job" || all[first].State != "pending" || all[first].Message != "seen" {
		t.Fatalf("%d: %+v", first, all)
	}
	ends := map[string]bool{}
	for i, e := range all {
		if e.Kind == "task" && e.State == "complete" {
			ends[e.Task] = true
		}
		if i > 0 && e.Seq != all[i-1].Seq+1 {
			t.Errorf("%d follows %d", e.Seq, all[i-1].Seq)
		}
	}
	if len(ends) != 2 {
		t.Errorf("%v", ends)
	}
	if rest := l.watched(all[1].Token, over); len(rest) != len(all)-2 || rest[0].Token != all[2].Token {
		t.Errorf("resumed with %v, not %v", rest, all[2:])
	}
}

// flood has more happen than a peer keeps.
func (l *living) flood() {
	for range 9000 {
		l.Events.Tell("another", "seen", "")
	}
}

func TestAWatchThatLostEventsSaysThatItDid(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	id := l.submit(noopJob("listed", 1, 0))
	l.outcome(id)
	first := func(api.Event) bool { return true }
	other := l.watched("0123abcd.7", first)
	if other[0].Kind != "snapshot" || !strings.Contains(other[0].Message, "foreign token") {
		t.Fatalf("a token of another start: %+v", other)
	}
	at := token(t, l.View)
	l.flood()
	gap := l.watched(at, func(e api.Event) bool { return e.Kind == "synced" })
	if gap[0].Kind != "snapshot" || gap[0].Token != "" || !strings.Contains(gap[0].Message, "too old") {
		t.Fatalf("a token that fell out of the ring: %+v", gap[0])
	}
	if end := gap[len(gap)-1]; end.Token != token(t, l.View) {
		t.Fatalf("the snapshot ends with %+v", end)
	}
	jobs := 0
	for _, e := range gap[1 : len(gap)-1] {
		if !e.Snapshot || e.Token != "" {
			t.Errorf("in the snapshot: %+v", e)
		}
		if e.Kind == "job" && e.State == "complete" && e.Job == id {
			jobs++
		}
	}
	if jobs != 1 {
		t.Errorf("the job is listed %d times", jobs)
	}
	wants(t, l.Watch(timed(t), "nonsense", nil), api.Usage, "peer watch")
}

func TestAFollowerToldTooLittleIsToldAgain(t *testing.T) {
	t.Parallel()
	// More happens between two lines than the ring holds: the next line lists every slot that
	// began.
	l := alive(t, Config{Name: "one"})
	id := l.submit(noopJob("busy", 30, time.Millisecond))
	flooded := false
	ends := map[int]bool{}
	err := l.Follow(timed(t), id, true, func(p api.Progress) error {
		if !flooded {
			flooded = true
			l.flood()
		}
		for _, k := range p.Tasks {
			ends[k.Slot] = ends[k.Slot] || k.State == taskstate.Complete.String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for slot := 1; slot <= 30; slot++ {
		if !ends[slot] {
			t.Errorf("the end of slot %d was never told", slot)
		}
	}
}
