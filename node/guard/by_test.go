package guard_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/audit"
	"github.com/coveyproject/covey/trust/policy"
)

func TestWhoSignedWhatATaskRunsIsKnownAsLongAsItRuns(t *testing.T) {
	b := newBench(t, "rules:\n- {from: ['key:"+marie+"'], run: any}\nunsigned: allow\n")
	l := task(marie, 1)
	if by, err := b.By(l.Task); err == nil || by != "" {
		t.Errorf("before it is started: %q, %v", by, err)
	}
	b.Guard.Start(l)
	if by, err := b.By(l.Task); err != nil || by != marie {
		t.Errorf("it runs: %q, %v", by, err)
	}
	b.Guard.Stop(l.Task, taskstate.ReasonCancelled)
	if by, err := b.By(l.Task); err == nil || !strings.Contains(err.Error(), "has ended") || by != "" {
		t.Errorf("it has ended: %q, %v", by, err)
	}
	b.unsigned = true
	b.Guard.Start(l)
	if by, err := b.By(l.Task); err == nil || !strings.Contains(err.Error(), "nobody signed") || by != "" {
		t.Errorf("nobody signed it: %q, %v", by, err)
	}
}

func TestWhatIsDecidedIsWrittenDownOnceForEachJobAndReason(t *testing.T) {
	b := newBench(t, "rules:\n- {from: ['key:"+marie+"'], run: any}\n")
	for range 2 {
		for slot := 1; slot <= 3; slot++ {
			b.Guard.Start(task(marie, slot))
		}
		b.Guard.Start(task(friend, 4))
	}
	got := b.written(t)
	want := []string{"order-taken of " + marie + ", jma.1.1 by rule 1", "order-refused of " + friend + ", jfr.4.1 by rule "}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestThatATaskIsToldToEndIsWrittenDownOnce(t *testing.T) {
	b := newBench(t, "rules:\n- {from: ['key:"+marie+"'], run: any}\n")
	b.Guard.Start(task(marie, 1))
	b.force = policy.Policy{}
	b.Guard.Review()
	b.Guard.Review()
	want := []string{"order-taken of " + marie + ", jma.1.1 by rule 1", "order-stopped of " + marie + ", jma.1.1 by rule "}
	if got := b.written(t); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// written is what the log has, when nothing more comes.
func (b *bench) written(t *testing.T) (got []string) {
	t.Helper()
	over, end := context.WithCancel(t.Context())
	end()
	if err := b.log.Run(over); err != nil { // writes what there is
		t.Fatal(err)
	}
	if v, err := audit.Read(b.path, func(r audit.Record) error {
		got = append(got, fmt.Sprint(r.What, " of ", r.By, ", ", r.Task, " by rule ", r.Rule))
		return nil
	}); err != nil || v.Broken != "" {
		t.Fatal(v, err)
	}
	return got
}
