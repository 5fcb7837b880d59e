package taskstate_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"
	. "github.com/coveyproject/covey/taskstate"
)

func TestTheSizeOfWhatIsKeptIsEstimatedFromAbove(t *testing.T) {
	full := &Saved{Bytes: math.MaxInt64, Files: math.MaxInt32, Keep: MaxKeep, Why: strings.Repeat("w", MaxMessage)}
	copy(full.Root[:], bytes.Repeat([]byte{0xff}, 32))
	full.Logs = full.Root
	for range 2 * MaxKeep {
		full.Keepers = append(full.Keepers, strings.Repeat("k", 128))
	}
	for _, s := range []*Saved{{}, {Bytes: math.MaxInt64, Files: math.MaxInt32}, full} {
		p, err := wire.Marshal(Status{Saved: s})
		if err != nil {
			t.Fatal(err)
		}
		empty, err := wire.Marshal(Status{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p) - len(empty); n > s.Size() {
			t.Errorf("%d bytes are estimated, it takes %d", s.Size(), n)
		}
	}
}

func TestOnlyAnEndSaysWhatIsKept(t *testing.T) {
	s := Status{Task: Task("job2222222", 1, 1), Seq: 3, State: Complete, Saved: &Saved{Keep: 2}}
	if err := s.Check(); err != nil {
		t.Errorf("an end: %v", err)
	}
	s.State = Saving
	if s.Check() == nil {
		t.Error("a status that is no end may say what is kept")
	}
}
