package taskstate_test

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/wire"
	. "github.com/coveyproject/covey/taskstate"
)

// fullBatch has something in every field.
func fullBatch() Batch {
	return Batch{Author: "p1", Incarnation: "i1", Number: 7, Statuses: []Status{
		{
			Task: Task("job", 3, 2), Seq: 4, State: Failed, Index: 500, At: 1_700_000_000_000, Exit: 70000, Signal: 9, Reason: ReasonExit, Message: "m",
			Took: 61_000, Waited: 300, Truncated: true,
		},
		{Task: Task("job", 1, 1), Seq: 1, State: Accepted, Index: 500, At: 1_700_000_000_000, Exit: NoExit},
	}}
}

// What is signed and kept in journals is read for ever: a line that changes is a batch that others
// cannot read.
func TestABatchKeepsItsShape(t *testing.T) {
	p, err := EncodeBatch(fullBatch())
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check("testdata/batch.hex", hex.EncodeToString(p)+"\n"); err != nil {
		t.Fatal(err)
	}
}

// asArray is a status as version 0.1 wrote it.
func asArray(s Status) []any {
	return []any{[]any{s.Task.Job, s.Task.Slot, s.Task.Attempt}, s.Seq, s.State, s.Index, s.At, s.Exit, s.Signal, s.Reason, s.Message}
}

func TestABatchOfVersion01IsRead(t *testing.T) {
	want := fullBatch()
	var statuses []any
	for i := range want.Statuses {
		s := &want.Statuses[i]
		s.Took, s.Waited, s.Truncated = 0, 0, false
		statuses = append(statuses, asArray(*s))
	}
	p, err := wire.Marshal([]any{want.Author, want.Incarnation, want.Number, statuses})
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check("testdata/batch-0.1.hex", hex.EncodeToString(p)+"\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeBatch(p); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it is read as %+v: %v", got, err)
	}
	for name, wrong := range map[string]any{
		"a field too few":  asArray(want.Statuses[0])[:8],
		"a field too many": append(asArray(want.Statuses[0]), 1),
	} {
		p, err := wire.Marshal(wrong)
		if err != nil {
			t.Fatal(err)
		}
		var s Status
		if err := wire.Unmarshal(p, &s); err == nil {
			t.Errorf("%s: read as %+v", name, s)
		}
	}
}

// byReflection is a Status that is decoded without the fast way.
type byReflection Status

func TestTheFastWayToReadAStatusReadsWhatTheOtherReads(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := anyBatch(r).Statuses[0]
		p, err := wire.Marshal(s)
		if err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(0, 3).Draw(r, "changes") {
			i := rapid.IntRange(0, len(p)-1).Draw(r, "at")
			p[i] = rapid.Byte().Draw(r, "byte")
		}
		if rapid.Bool().Draw(r, "cut") {
			p = p[:rapid.IntRange(0, len(p)).Draw(r, "to")]
		}
		var fast Status
		var slow byReflection
		errFast, errSlow := wire.Unmarshal(p, &fast), wire.Unmarshal(p, &slow)
		if (errFast == nil) != (errSlow == nil) && (len(p) == 0 || p[0]>>5 != 4) {
			r.Fatalf("%x: %v, %v", p, errFast, errSlow)
		}
		if errFast == nil && errSlow == nil && fast != Status(slow) {
			r.Fatalf("%x is read as %+v and as %+v", p, fast, slow)
		}
	})
}

func TestAStatusSaysInItsEncodingOnlyWhatThereIsToSay(t *testing.T) {
	p, err := wire.Marshal(Status{Task: Task("job", 1, 1), Seq: 1, State: Running})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", p); strings.Contains(got, "f4") || len(p) > 16 {
		t.Errorf("%s: %d bytes", got, len(p))
	}
}
