package taskstate_test

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// anySpec draws a job out of few values of each field, so that two of them are often alike.
func anySpec(t *rapid.T) *taskstate.Job {
	some := func(what string, from ...string) string { return rapid.SampledFrom(from).Draw(t, what) }
	word := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "a, b", "[a]", `"a"`, "", " a", "é"}), rapid.StringOfN(rapid.RuneFrom([]rune("aé日,\" ")), 0, 120, -1))
	words := rapid.SliceOfN(word, 0, 3)
	number := rapid.IntRange(0, 2)
	ms := rapid.SampledFrom([]int64{0, 1, 1000, 60_000, 3_600_000, 3_661_000})
	j := &taskstate.Job{
		Name: some("name", "web", "db"), Type: taskstate.JobType(some("type", "batch", "service")), Count: number.Draw(t, "count"),
		Each: words.Draw(t, "each"), Constraints: words.Draw(t, "constraints"), Timeout: ms.Draw(t, "timeout"),
		Strategy: taskstate.Strategy(some("strategy", "", "spread", "binpack")), MaxPerPeer: number.Draw(t, "max per peer"), Priority: number.Draw(t, "priority"),
		Resources:   taskstate.Resources{MilliCPU: rapid.SampledFrom([]int64{0, 1, 500, 1000}).Draw(t, "cpus"), Memory: rapid.SampledFrom([]int64{0, 1, 1024, 1 << 30}).Draw(t, "memory"), Disk: rapid.SampledFrom([]int64{0, 1 << 30}).Draw(t, "disk")},
		Unreachable: taskstate.Unreachable{ReplaceAfter: ms.Draw(t, "replace after")},
	}
	if rapid.Bool().Draw(t, "numbered") {
		j.Numbered, j.First = true, number.Draw(t, "first")
	}
	for range number.Draw(t, "axes") {
		j.Matrix = append(j.Matrix, taskstate.Axis{Name: some("axis", "x", "y"), Values: words.Draw(t, "values")})
	}
	if rapid.Bool().Draw(t, "restarts") {
		j.Restart = &taskstate.Restart{Condition: taskstate.RestartCondition(some("condition", "", "none", "any")), Delay: ms.Draw(t, "delay"), Attempts: number.Draw(t, "attempts")}
	}
	if rapid.Bool().Draw(t, "says how it is updated") {
		j.Update = &taskstate.Update{Parallelism: number.Draw(t, "parallelism"), OnFailure: taskstate.FailureAction(some("on failure", "", "pause", "rollback")), MaxFailureRatio: rapid.SampledFrom([]float64{0, 0.1, 0.25}).Draw(t, "ratio")}
	}
	if rapid.Bool().Draw(t, "scheduled") {
		j.Schedule = &taskstate.Schedule{Cron: some("cron", "* * * * *", "0 3 * * *"), Zone: some("zone", "", "UTC", "Europe/Berlin")}
	}
	j.Run.Process = &taskstate.Process{Command: words.Draw(t, "command"), Shell: rapid.Bool().Draw(t, "shell")}
	return j
}

// swapped is a change the other way round.
func swapped(c taskstate.Change) taskstate.Change {
	c.From, c.To = c.To, c.From
	return c
}

func TestEveryChangeCanBeSeenAndTheWayBackIsItsMirror(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		a, b := anySpec(r), anySpec(r)
		changes, back := taskstate.Changes(a, b), taskstate.Changes(b, a)
		if n := len(taskstate.Changes(a, a)); n != 0 {
			r.Fatalf("from itself it differs in %d fields", n)
		}
		restarts := false
		for i, c := range changes {
			restarts = restarts || c.Restarts
			switch {
			case c.From == c.To:
				r.Fatalf("%s is shown as %q before and after", c.Field, c.From)
			case len(c.From) > 130 || len(c.To) > 130:
				r.Fatalf("%s is shown with %d and %d bytes", c.Field, len(c.From), len(c.To))
			case !utf8.ValidString(c.From) || !utf8.ValidString(c.To):
				r.Fatalf("%s is cut inside of a character: %q, %q", c.Field, c.From, c.To)
			case len(back) != len(changes) || swapped(back[i]) != c:
				r.Fatalf("there %+v, and back %+v", changes, back)
			}
		}
		if taskstate.Restarts(a, b) != restarts || taskstate.Restarts(b, a) != restarts {
			r.Fatalf("it restarts tasks: %t, and its changes say %t: %+v", taskstate.Restarts(a, b), restarts, changes)
		}
	})
}

// Two changes in a row are no more than the changed fields of both.
func TestChangesOfChangesAreInFieldsThatChanged(t *testing.T) {
	fields := func(cs []taskstate.Change) (out []string) {
		for _, c := range cs {
			out = append(out, c.Field)
		}
		return out
	}
	rapid.Check(t, func(r *rapid.T) {
		a, b, c := anySpec(r), anySpec(r), anySpec(r)
		may := append(fields(taskstate.Changes(a, b)), fields(taskstate.Changes(b, c))...)
		for _, f := range fields(taskstate.Changes(a, c)) {
			if !slices.Contains(may, f) {
				r.Fatalf("%s changed on the way from one to the third and on neither half of it", f)
			}
		}
	})
}
