package taskstate_test

import (
	"testing"

	. "github.com/coveyproject/covey/taskstate"
)

func TestATaskIDReadsBackAsItIsWritten(t *testing.T) {
	id := Task(NewJobID(), 12, 3)
	if len(id.Job) != JobIDLen {
		t.Fatalf("job id %q has %d characters", id.Job, len(id.Job))
	}
	if got, err := ParseTaskID(id.String()); err != nil || got != id {
		t.Fatalf("%v came back as %v: %v", id, got, err)
	}
	for _, bad := range []string{"", "x", "x.1", "x.1.1.1", ".1.1", "x.0.1", "x.1.-1", "x.a.1"} {
		if got, err := ParseTaskID(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
}

func TestEveryStateHasANameThatReadsBack(t *testing.T) {
	for i, s := range States() {
		text, _ := s.MarshalText()
		var back State
		if err := back.UnmarshalText(text); err != nil || back != s || !s.Valid() {
			t.Errorf("%v came back as %v: %v", s, back, err)
		}
		if i > 0 && s <= States()[i-1] {
			t.Errorf("%v is not above %v", s, States()[i-1])
		}
	}
	if State(577).Valid() || new(State).UnmarshalText([]byte("done")) == nil {
		t.Error("a state that does not exist was accepted")
	}
}

func TestAnEpochOfAHigherGenerationIsNewer(t *testing.T) {
	if !At(1, 9).Less(At(2, 1)) || !At(1, 1).Less(At(1, 2)) || At(2, 1).Less(At(1, 9)) || At(1, 1).Less(At(1, 1)) {
		t.Error("epochs are out of order")
	}
}

func TestAnItemComesFromTheListOrTheNumbers(t *testing.T) {
	list, array, plain := Job{Count: 2, Each: []string{"a", "b"}}, Job{Count: 6, First: 0, Numbered: true}, Job{Count: 1}
	if list.Item(2) != "b" || array.Item(1) != "0" || array.Item(6) != "5" || plain.Item(1) != "" {
		t.Errorf("items: %q %q %q %q", list.Item(2), array.Item(1), array.Item(6), plain.Item(1))
	}
}
