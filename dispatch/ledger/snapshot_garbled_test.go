package ledger_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// garble changes one field of a snapshot, in the shape it has on disk: fields by number, jobs by
// id.
type garble func(s fields)

type fields = map[any]any

// job finds a job of a snapshot.
func jobOf(s fields, id string) fields {
	for _, j := range s[uint64(12)].([]any) {
		if j := j.(fields); j[uint64(1)].(fields)[uint64(1)] == id {
			return j
		}
	}
	panic("no job " + id)
}

// in changes a field of a job.
func in(id string, field uint64, to func(old any) any) garble {
	return func(s fields) { j := jobOf(s, id); j[field] = to(j[field]) }
}

// is replaces whatever there was.
func is(v any) func(any) any { return func(any) any { return v } }

// keptAs has job kept say of its files that these are the forms, and these the slots.
func keptAs(forms []any, cells []byte) garble {
	return in("kept", 31, is(fields{uint64(2): forms, uint64(3): cells}))
}

// twice is a list with its first element once more.
func twice(old any) any {
	list := old.([]any)
	return append([]any{list[0]}, list...)
}

// backwards is a list the wrong way round.
func backwards(old any) any {
	var out []any
	for _, x := range old.([]any) {
		out = append([]any{x}, out...)
	}
	return out
}

// many is a list of n elements.
func many(n int, x any) func(any) any {
	return func(any) any {
		out := make([]any, n)
		for i := range out {
			out[i] = x
		}
		return out
	}
}

// first changes an element of the first element of a list, which is an array or has numbered
// fields.
func first(at uint64, to any) func(any) any {
	return func(old any) any {
		switch x := old.([]any)[0].(type) {
		case []any:
			x[at] = to
		case fields:
			x[at] = to
		}
		return old
	}
}

// past changes an element of the first attempt that the first slot of a past has left behind.
func past(at uint64, to any) func(any) any {
	return func(old any) any {
		first(at, to)(old.([]any)[0].(fields)[uint64(2)])
		return old
	}
}

func top(field uint64, to func(old any) any) garble {
	return func(s fields) { s[field] = to(s[field]) }
}

// DecodeState checks everything: each line is one thing that is off in a snapshot that is right
// otherwise, and what is said of it.
func TestWhatIsOffInASnapshotIsNamed(t *testing.T) {
	good := encode(t, scarred(t).State)
	if _, err := ledger.DecodeState(good); err != nil {
		t.Fatal(err)
	}
	end := fields{uint64(1): taskstate.Complete}
	pastEnd := func(s taskstate.State, message string) fields {
		return fields{uint64(1): fields{uint64(1): s, uint64(5): message}, uint64(2): 5, uint64(3): 1, uint64(4): []any{0, 0}}
	}
	forgotten := func(ids ...any) garble {
		return func(s fields) { s[uint64(14)], s[uint64(19)] = ids, many(len(ids), []any{1, 5})(nil) }
	}
	for _, c := range []struct {
		what string
		off  garble
		says string
	}{
		{"the version is of another time", top(1, is(99)), "version 99, this program reads 5"},
		{"the version is of no time", top(1, is(0)), "version 0"},
		{"members come backwards", top(9, backwards), "members are not in order"},
		{"a member comes twice", top(9, twice), "members are not in order"},
		{"invites come backwards", top(10, backwards), "invites are not in order"},
		{"an incarnation comes twice", top(11, twice), "an incarnation is listed twice"},
		{"a job comes twice", top(12, twice), "is impossible or there twice"},
		{"jobs come backwards", top(12, backwards), `job "`},
		{"a finished job that is not there", top(13, is([]any{99})), "the list of finished jobs is wrong"},
		{"a finished job below all", top(13, is([]any{-1})), "the list of finished jobs is wrong"},
		{"a finished job twice", top(13, twice), "the list of finished jobs is wrong"},
		{"a finished job is missing", top(13, is([]any{})), "the list of finished jobs is too short"},
		{"a forgotten job twice", forgotten("x", "x"), "a job was forgotten twice"},
		{"a forgotten job is there", forgotten("open"), "is impossible or there twice"},
		{"a forgotten job without a reason", top(14, is([]any{"x"})), "not every forgotten job has a reason"},
		{"more forgotten jobs than are kept", top(14, many(ledger.KeepGone+1, "x")), "too many forgotten jobs"},
		{"settings that set nothing", top(16, is(fields{})), "settings that set nothing"},
		{"settings that lose every session", top(16, is(fields{uint64(1): 1})), "a beat is"},
		{"a job without slots", func(s fields) { jobOf(s, "open")[uint64(1)].(fields)[uint64(4)] = 0 }, "is impossible"},
		{"a job that ended and has not", in("open", 7, is(5)), "has ended and has not"},
		{"a final status that is no end", in("done", 9, first(1, uint64(taskstate.Running))), "is no end"},
		{"a final status twice", in("done", 9, is([]any{end, end})), "an end is listed twice"},
		{"slots that are no numbers", in("open", 10, is([]byte{0xff})), "its slots are garbled"},
		{"a slot in attempt 0", in("open", 10, is([]byte{0, 2, 0})), "its slots are garbled"},
		{"a slot that waits for attempt 1", in("open", 10, is([]byte{0, 1, 1})), "its slots are garbled"},
		{"a slot beyond the last", in("open", 10, is([]byte{0xe8, 7, 1, 2})), "its slots are garbled"},
		{"a slot of an owner there is not", in("open", 10, is([]byte{0, 2, 1, 77, 0, 0})), "its slots are garbled"},
		{"a slot with a form there is not", in("open", 10, is([]byte{0, 77, 1})), "its slots are garbled"},
		{"a past of a slot there is not", in("open", 14, first(1, 1001)), "its past is garbled"},
		{"a past of attempt 0", in("open", 14, past(5, 0)), "its past is garbled"},
		{"a past of an owner there is not", in("open", 14, past(4, 77)), "its past is garbled"},
		{"a past of a slot nobody ever had", in("open", 14, first(1, 999)), "its past is garbled"},
		{"more past than is kept", in("open", 14, func(old any) any {
			return first(2, many(ledger.KeepPast+1, old.([]any)[0].(fields)[uint64(2)].([]any)[0])(nil))(old)
		}), "its past is garbled"},
		{"a slot that left nothing behind", in("open", 14, first(2, []any{})), "its past is garbled"},
		{"a slot that comes twice", in("open", 14, twice), "its past is garbled"},
		{"a late end that is none", in("scar", 14, past(8, fields{uint64(1): taskstate.Running})), "its past is garbled"},
		{"an end of the past that is none", in("again", 14, past(9, pastEnd(taskstate.Running, ""))), "its past is garbled"},
		{"an end of the past that says too much", in("again", 14, past(9, pastEnd(taskstate.Failed, strings.Repeat("x", 201)))), "its past is garbled"},
		{"a past of another version of a batch job", in("again", 14, past(7, 2)), "its past is garbled"},
		{"a contradiction nobody counted", in("scar", 8, is(0)), "its past is garbled"},
		{"a contradiction of a slot there is not", in("scar", 15, first(0, 99)), "its past is garbled"},
		{"a contradiction that is no end", in("scar", 15, first(3, uint64(taskstate.Running))), "its past is garbled"},
		{"files kept of a job that has none kept", in("scar", 31, is(fields{uint64(2): []any{fields{}}, uint64(3): []byte{0, 4, 0, 0}})), "what is kept of its files is garbled"},
		{"files kept of no slot", keptAs([]any{fields{}}, nil), "what is kept of its files is garbled"},
		{"files kept in a form there is not", keptAs([]any{fields{}}, []byte{0, 8, 0, 0}), "what is kept of its files is garbled"},
		{"files kept in no form", keptAs([]any{fields{}}, []byte{0, 0, 0, 0}), "what is kept of its files is garbled"},
		{"a form that no slot has", keptAs([]any{fields{}, fields{uint64(2): 1}}, []byte{0, 4, 0, 0}), "what is kept of its files is garbled"},
		{"a form twice", keptAs([]any{fields{}, fields{}}, []byte{0, 4, 0, 0, 0, 8, 0, 0}), "what is kept of its files is garbled"},
		{"a keeper that is not listed", keptAs([]any{fields{uint64(1): []any{1}}}, []byte{0, 4, 0, 0}), "what is kept of its files is garbled"},
		{"a keeper twice", keptAs([]any{fields{uint64(1): []any{0, 0}}}, []byte{0, 4, 0, 0}), "what is kept of its files is garbled"},
		{"a peer that keeps nothing", in("kept", 31, is(fields{uint64(1): []any{"p9"}, uint64(2): []any{fields{}}, uint64(3): []byte{0, 4, 0, 0}})), "what is kept of its files is garbled"},
		{"more copies wanted than may be", keptAs([]any{fields{uint64(2): taskstate.MaxKeep + 1}}, []byte{0, 4, 0, 0}), "what is kept of its files is garbled"},
		{"files kept of a slot that is open", keptAs([]any{fields{}}, []byte{3, 4, 0, 0}), "what is kept of its files is garbled"},
		{"files kept of a slot beyond the last", keptAs([]any{fields{}}, []byte{4, 4, 0, 0}), "what is kept of its files is garbled"},
		{"a root that is cut off", keptAs([]any{fields{}}, []byte{0, 5, 0, 0, 7}), "what is kept of its files is garbled"},
		{"a root that is none", keptAs([]any{fields{}}, append([]byte{0, 6, 0, 0}, make([]byte, 32)...)), "what is kept of its files is garbled"},
		{"files kept that are no numbers", keptAs([]any{fields{}}, []byte{0, 4, 0xff}), "what is kept of its files is garbled"},
		{"why a job was cancelled that was not", in("open", 16, is("cancelled")), "its versions or slots are garbled"},
		{"a job that waits for itself", in("next", 17, is([]any{"next"})), "waits for what cannot be"},
		{"a job that waits for nobody", in("next", 17, is([]any{"none"})), "waits for what cannot be"},
		{"a job that waits twice for one", in("next", 17, is([]any{"open", "open"})), "waits for what cannot be"},
		{"a job that waits for one that is over", in("next", 17, is([]any{"done"})), "waits for what cannot be"},
		{"forgiven failures below none", in("again", 26, is(-1)), "its versions or slots are garbled"},
		{"starts that were skipped and not counted", in("cron", 27, is(fields{uint64(2): 5, uint64(3): []any{fields{uint64(1): 1, uint64(2): "r", uint64(3): 1}}})), "its versions or slots are garbled"},
		{"skipped starts that go back", in("cron", 27, is(fields{uint64(2): 2, uint64(3): []any{fields{uint64(1): 9, uint64(2): "r", uint64(3): 1}, fields{uint64(1): 8, uint64(2): "r", uint64(3): 1}}})), "its versions or slots are garbled"},
		{"slots of a service below none", in("web", 19, is(-1)), "its versions or slots are garbled"},
		{"more slots than a job may have", in("web", 19, is(ledger.MaxSlots+1)), "its versions or slots are garbled"},
		{"a batch job that has grown", in("open", 19, is(5)), "its versions or slots are garbled"},
		{"a batch job with a rollout", in("open", 23, is(fields{uint64(1): "updating"})), "its versions or slots are garbled"},
		{"a version to go back to that is not there", in("web", 22, is(7)), "its versions or slots are garbled"},
		{"the version that is wanted to go back to", in("web", 22, is(2)), "its versions or slots are garbled"},
		{"a side of a slot there is not", in("web", 20, first(1, 99)), "its versions or slots are garbled"},
		{"a side that says nothing", in("web", 20, is([]any{fields{uint64(1): 1}})), "its versions or slots are garbled"},
		{"sides that come twice", in("web", 20, twice), "its versions or slots are garbled"},
		{"a slot of a version there is not", in("web", 20, first(2, 9)), "its versions or slots are garbled"},
		{"a service's name that another has", func(s fields) { jobOf(s, "cron")[uint64(1)].(fields)[uint64(2)] = "name-web" }, "has a name that another job has"},
		{"a pinned peer twice", in("gl", 20, func(old any) any {
			for _, x := range old.([]any) {
				x.(fields)[uint64(9)] = "p1"
			}
			return old
		}), "a peer has two slots"},
	} {
		var s fields
		if err := cbor.Unmarshal(good, &s); err != nil {
			t.Fatal(err)
		}
		c.off(s)
		b, err := cbor.Marshal(s)
		if err != nil {
			t.Fatal(c.what, err)
		}
		if _, err := ledger.DecodeState(b); err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "ledger snapshot: ") {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
}

// scarred is a rich state with a job that heard contradictory and late ends, too.
func scarred(t *testing.T) *log {
	l := rich(t)
	l.must(submit("scar", 2), assign("scar", "p2", run(1, 2, 1)), supersede(taskstate.Task("scar", 1, 1), true), settle("p2", ended("scar", 2, taskstate.Complete)), invite("v", 1))
	l.one(settle("p2", ended("scar", 1, taskstate.Failed))) // of the attempt that was given up
	l.one(settle("p2", ended("scar", 2, taskstate.Failed))) // although it is complete
	first := kept("kept", 1, 1, "p2", "p1")
	first.Saved.Logs = piece.Root{9}
	l.must(saver("kept", 4), assign("kept", "p2", run(1, 4, 1)), settle("p2", first, ended("kept", 2, taskstate.Complete), kept("kept", 3, 2, "p2", "p3")))
	return l
}

func TestAStateWithScarsSurvivesItsSnapshot(t *testing.T) {
	l := scarred(t)
	j := l.record("scar")
	if late := j.Past(1)[0].Late; late == nil || late.State != taskstate.Failed || j.Conflicts() != 1 {
		t.Fatalf("the state has no scars: %+v, %d", j.Past(1), j.Conflicts())
	}
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := back.Job("scar")
	if !reflect.DeepEqual(again.Past(1), j.Past(1)) || !slices.Equal(again.Contradictions(), j.Contradictions()) || again.Conflicts() != 1 {
		t.Errorf("after a snapshot %+v and %+v", again.Past(1), again.Contradictions())
	}
	r := back.Apply(next(back, settle("p2", ended("scar", 1, taskstate.Failed)), settle("p2", ended("scar", 1, taskstate.Shutdown))))
	if again.Conflicts() != 2 || r[0].Refused != ledger.CodePartly || r[1].Refused != ledger.CodePartly {
		t.Errorf("the same late end again and another one: %d contradictions, want 2 (%+v)", again.Conflicts(), r)
	}
}
