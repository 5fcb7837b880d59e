package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// heavyJob draws a job with much of something that people may give much of.
func heavyJob(r *rapid.T) taskstate.Job {
	j := taskstate.Job{ID: "heavy", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Process: &taskstate.Process{Command: []string{"true"}}}}
	texts := func() (out []string) {
		for range rapid.IntRange(1, 50).Draw(r, "how many") {
			out = append(out, strings.Repeat("x", rapid.IntRange(0, 500).Draw(r, "bytes")))
		}
		return out
	}
	switch rapid.SampledFrom([]string{"items", "matrix", "constraints", "command", "environment", "script"}).Draw(r, "of what") {
	case "items":
		j.Each = texts()
		j.Count = len(j.Each)
	case "matrix":
		for i := range rapid.IntRange(1, 16).Draw(r, "axes") {
			j.Matrix = append(j.Matrix, taskstate.Axis{Name: fmt.Sprint("axis", i), Values: texts()})
		}
	case "constraints":
		j.Constraints = texts()
	case "command":
		j.Run.Process.Command = texts()
	case "environment":
		j.Run.Process.Env = map[string]string{}
		for i, v := range texts() {
			j.Run.Process.Env[fmt.Sprint("NAME", i)] = v
		}
	default:
		j.Run.Process.Script = []byte(strings.Join(texts(), "\n"))
	}
	return j
}

// What is kept of finished jobs is bounded by what they weigh, so nothing that can be large may
// weigh nothing.
func TestAJobThatIsOverWeighsNoLessThanItsEncoding(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		job := heavyJob(r)
		encoded, err := wire.Marshal(job)
		if err != nil {
			r.Fatal(err)
		}
		l := newLog(t)
		l.must(ledger.Command{Submit: &ledger.Submit{Job: job}}, cancel(job.ID))
		if l.Kept() < len(encoded) {
			r.Fatalf("it has %d bytes and weighs %d: %.100s", len(encoded), l.Kept(), encoded)
		}
	})
}

func TestEachVersionOfAServiceThatIsKeptWeighs(t *testing.T) {
	l := newLog(t)
	web := service("web", 1)
	web.Submit.Job.Constraints = []string{strings.Repeat("a", 100_000)}
	l.must(web)
	second := spec(web, 2)
	second.Submit.Job.Constraints = []string{strings.Repeat("b", 100_000)}
	l.must(update(second, 1), cancel("web"))
	if l.Kept() < 200_000 {
		t.Errorf("two versions of 100,000 bytes weigh %d", l.Kept())
	}
}
