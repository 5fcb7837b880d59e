package ledger_test

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Times of these tests: what is right, and what a wrong clock said.
const (
	rightTime = int64(1_700_000_000_000)
	wrongTime = rightTime + 400*24*3600*1000
)

func setTime(to int64) ledger.Command { return ledger.Command{SetTime: &ledger.SetTime{To: to}} }

// stampedAfter lists what in a decoded snapshot is a number that only the wrong clock makes.
func stampedAfter(path string, v reflect.Value, than int64) (out []string) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return stampedAfter(path, v.Elem(), than)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			out = append(out, stampedAfter(fmt.Sprintf("%s.%v", path, it.Key()), it.Value(), than)...)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			out = append(out, stampedAfter(fmt.Sprintf("%s[%d]", path, i), v.Index(i), than)...)
		}
	case reflect.Uint64:
		if strings.HasPrefix(path, ".9[") && strings.HasSuffix(path, ".1.6") {
			return nil // a roster entry's time is its version, and only rises
		}
		if strings.HasSuffix(path, ".1.26.2") {
			return nil // the moment that a run is for: jobs stay as they were submitted
		}
		if v.Uint() > uint64(than) {
			out = append(out, fmt.Sprintf("%s=%d", path, v.Uint()))
		}
	case reflect.String:
		if !strings.HasSuffix(path, ".10.3") { // when a slot was restarted
			return nil
		}
		h := taskstate.History{Recent: taskstate.Stamps(v.String())}
		if n := h.Recent.NoLater(than); n != h.Recent && h.Check() == nil {
			out = append(out, path+"="+v.String())
		}
	}
	return out
}

// isNoLater checks that nothing in a state is stamped later than to, and that its snapshot is
// whole.
func isNoLater(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *ledger.State, to int64,
) {
	t.Helper()
	b, err := s.Encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	var all any
	if err := wire.Unmarshal(b, &all); err != nil {
		t.Fatalf("decode: %v", err)
	}
	if late := stampedAfter("", reflect.ValueOf(all), to); len(late) > 0 {
		t.Fatalf("later than %d: %v", to, late)
	}
	for j := range s.Jobs() {
		for n := 1; n <= j.Slots(); n++ {
			if x := j.Slot(n); x.AssignedAt > to {
				t.Fatalf("slot %d of %s was assigned at %d", n, j.Job().ID, x.AssignedAt)
			}
		}
	}
	again, err := ledger.DecodeState(b)
	if err != nil {
		t.Fatalf("its snapshot is refused: %v", err)
	}
	if c, err := again.Encode(); err != nil || !bytes.Equal(b, c) {
		t.Fatalf("its snapshot changes: %v", err)
	}
}

func TestSettingTheTimeBackLeavesNothingThatIsStampedLater(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		st := ledger.NewState()
		var last ledger.Entry
		for _, e := range anyHistory(r) {
			e.Stamp += wrongTime
			st.Apply(e)
			last = e
		}
		res := st.Apply(ledger.Entry{Index: last.Index + 1, Epoch: st.Epoch(), Stamp: last.Stamp + 1, By: "p1", Commands: []ledger.Command{setTime(rightTime)}})
		if res[0].Refused != "" || res[0].Existed || st.Stamp() != rightTime {
			r.Fatalf("%+v, at %d", res[0], st.Stamp())
		}
		isNoLater(r, st, rightTime)
		for j := range st.Jobs() {
			checkJob(r, j)
		}
	})
}

func TestEverythingThatHasAStampIsSetBack(t *testing.T) {
	l := rich(t)
	l.stamp = wrongTime
	l.must(submit("late", 2), assign("late", "p2", run(1, 1, 1)), invite("late", 1))
	l.must(ledger.Command{Skip: &ledger.Skip{Job: "cron", At: wrongTime - 1, Run: "run1"}}, ledger.Command{Skip: &ledger.Skip{Job: "cron", At: wrongTime, Run: "run1"}})
	l.must(assign("again", "p2", run(3, 1, 1)), settle("p2", ended("again", 3, taskstate.Failed)), supersede(taskstate.Task("late", 1, 1), true), cancel("late"))
	run2 := submit("run2", 1)
	run2.Submit.Job.Origin = &taskstate.Origin{Job: "cron", At: wrongTime + 60_000}
	l.must(assign("run1", "p2", run(1, 1, 1)), settle("p2", ended("run1", 1, taskstate.Complete)), run2)
	l.must(update(spec(service("web", 3), 3), 2), avail("p2", ledger.AvailPause))
	b, err := l.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := wire.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	if late := stampedAfter("", reflect.ValueOf(all), rightTime); len(late) < 15 {
		t.Fatalf("the wrong clock stamped only %v", late)
	}
	l.must(setTime(rightTime))
	isNoLater(t, l.State, rightTime)
}

func TestTheLedgersTimeStandsUntilItsCoordinatorBeginsAnew(t *testing.T) {
	l := newLog(t)
	l.stamp = wrongTime
	l.must(submit("a", 1))
	l.must(setTime(rightTime))
	l.stamp = wrongTime + 1000 // was under way
	l.must(submit("b", 1))
	if at := l.record("b").Accepted(); at != rightTime || l.Stamp() != rightTime {
		t.Errorf("what was under way is stamped %d, and the ledger is at %d", at, l.Stamp())
	}
	isNoLater(t, l.State, rightTime)
	l.stamp = rightTime + 5000
	l.must(ledger.Command{Lead: &ledger.Lead{Chain: true}})
	l.stamp = rightTime + 6000
	l.must(submit("c", 1))
	if at := l.record("c").Accepted(); at != rightTime+6000 {
		t.Errorf("after its coordinator began anew something is stamped %d", at)
	}
}

func TestTheTimeIsSetBackOnceByAnAdminAndRequestsOfBeforeNoLongerCount(t *testing.T) {
	l := signedLog(t)
	l.stamp = wrongTime
	l.must(submit("j", 2))
	cancel := ledger.Command{Cancel: &ledger.Cancel{Job: "j"}}
	l.refuses(ledger.CodeForbidden, signed(t, "p4", wrongTime, 1, setTime(rightTime)))
	l.refuses(ledger.CodeInvalid, setTime(0))
	mend := signed(t, "p3", wrongTime, 2, setTime(rightTime))
	l.must(mend, ledger.Command{Lead: &ledger.Lead{Chain: true}})
	l.stamp = rightTime
	l.refuses(ledger.CodeLate, signed(t, "p1", rightTime-1, 3, cancel))
	l.refuses(ledger.CodeLate, setTime(rightTime))
	l.refuses(ledger.CodeLate, setTime(rightTime-1000))
	if r := l.one(setTime(rightTime + 1000)); !r.Existed {
		t.Errorf("a time that the ledger has not reached: %+v", r)
	}
	l.must(signed(t, "p1", rightTime, 4, cancel))
	l.stamp = wrongTime + act.Lasts // the day that the wrong clock showed has come, and somebody says it again
	if r := l.one(mend); r.Refused == "" && !r.Existed {
		t.Errorf("the time was set back again: %+v", r)
	}
}

func TestATicketLastsAsLongAsWasAskedForWhenTheTimeIsSetBack(t *testing.T) {
	l := newLog(t)
	l.stamp = rightTime - 1000
	l.must(ledger.Command{Invite: &ledger.Invite{ID: "old", Secret: []byte("o"), Lasts: 60_000, Expires: l.stamp + 60_000}})
	l.stamp = wrongTime
	l.must(ledger.Command{Invite: &ledger.Invite{ID: "new", Secret: []byte("n"), Lasts: 60_000, Expires: l.stamp + 60_000}})
	l.must(setTime(rightTime))
	for i, want := range []int64{rightTime + 59_000, rightTime + 60_000} {
		if x := l.Invites()[i]; x.Expires != want {
			t.Errorf("ticket %s expires at %d, not %d", x.ID, x.Expires, want)
		}
	}
}

func TestJobsThatAWrongTimeDeletedAreListed(t *testing.T) {
	l := newLog(t)
	l.stamp = rightTime
	for _, id := range []taskstate.JobID{"a", "b"} {
		l.must(submit(id, 1), assign(id, "p2", run(1, 1, 1)), settle("p2", ended(id, 1, taskstate.Complete)))
	}
	if gone := l.GoneSince(rightTime); len(gone) > 0 {
		t.Errorf("%v are gone", gone)
	}
	l.stamp = wrongTime
	l.must(submit("c", 1))
	l.must(setTime(rightTime + 5000))
	if gone := l.GoneSince(rightTime + 5000); !slices.Equal(gone, []taskstate.JobID{"a", "b"}) {
		t.Errorf("%v are listed", gone)
	}
}
