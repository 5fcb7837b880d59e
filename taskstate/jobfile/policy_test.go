package jobfile_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"github.com/adhocore/gronx"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestAServiceHasTheDefaultsOfWhatIsKeptRunning(t *testing.T) {
	for text, want := range map[string]taskstate.Job{
		"type: service":           {Count: 1, Restart: &taskstate.Restart{Condition: taskstate.RestartAny, Delay: 1000}},
		"type: service\ncount: 0": {Count: 0, Restart: &taskstate.Restart{Condition: taskstate.RestartAny, Delay: 1000}},
		"type: global":            {Count: 0, Restart: &taskstate.Restart{Condition: taskstate.RestartAny, Delay: 1000}},
		"type: service\nrestart: {condition: none}":                       {Count: 1, Restart: &taskstate.Restart{Condition: taskstate.RestartNone}},
		"restart: {condition: on-failure}\ntype: service":                 {Count: 1, Restart: &taskstate.Restart{Condition: taskstate.RestartOnFailure, Delay: 1000}},
		"type: service\nrestart: {delay: 0s, attempts: 2}":                {Count: 1, Restart: &taskstate.Restart{Condition: taskstate.RestartAny, Attempts: 2}},
		"type: global\nunreachable: {replace_after: 3s}":                  {Restart: taskstate.DefaultRestart(taskstate.GlobalJob), Unreachable: taskstate.Unreachable{ReplaceAfter: 3000}},
		"type: service\nunreachable: {wait: true}":                        {Count: 1, Restart: taskstate.DefaultRestart(taskstate.ServiceJob), Unreachable: taskstate.Unreachable{Wait: true}},
		"type: service\nafter: [setup]\nrestart: {}\ncount: 7":            {Count: 7, Restart: taskstate.DefaultRestart(taskstate.ServiceJob), After: []taskstate.JobID{"setup"}},
		"type: service\nplacement: {strategy: random, max_per_peer: 1}":   {Count: 1, Restart: taskstate.DefaultRestart(taskstate.ServiceJob), Strategy: taskstate.Random, MaxPerPeer: 1},
		"type: service\nplacement: {over: peer.os}\nresources: {gpus: 1}": {Count: 1, Restart: taskstate.DefaultRestart(taskstate.ServiceJob), Over: "peer.os", Resources: taskstate.Resources{Others: "gpus=1"}},
	} {
		got := mustParse(t, "web.yaml", text+"\nrun: {noop: {}}")
		want.Name, want.Priority, want.Run, want.Type = "web", 50, got.Run, got.Type
		if d := cmp.Diff(&want, got); d != "" || !got.Type.Lasts() {
			t.Errorf("%s\n%s", text, d)
		}
	}
}

func TestAnUpdateLeavesOutWhatItDoesNotChange(t *testing.T) {
	got := mustParse(t, "x.yaml", "type: service\nrun: {noop: {}}\nupdate: {parallelism: 0, order: start-first}").Update
	want := taskstate.DefaultUpdate()
	want.Parallelism, want.Order = 0, taskstate.StartFirst
	if *got != want {
		t.Errorf("got %+v", *got)
	}
	full := mustParse(t, "x.yaml", "type: service\nrun: {noop: {}}\nupdate: {parallelism: 2, delay: 1s, monitor: 0s, max_failure_ratio: .25, on_failure: rollback, order: stop-first}").Update
	if *full != (taskstate.Update{Parallelism: 2, Delay: 1000, MaxFailureRatio: 0.25, OnFailure: taskstate.RollBackUpdate, Order: taskstate.StopFirst}) {
		t.Errorf("got %+v", *full)
	}
	if mustParse(t, "x.yaml", "type: service\nrun: {noop: {}}").Update != nil {
		t.Error("what the file does not say is not put into the job")
	}
}

func TestARestartOfABatchJobMeansFailures(t *testing.T) {
	for text, want := range map[string]*taskstate.Restart{
		"":                                  nil,
		"restart: {attempts: 3}":            {Condition: taskstate.RestartOnFailure, Attempts: 3},
		"restart: {condition: any}":         {Condition: taskstate.RestartAny},
		"restart: {}":                       {Condition: taskstate.RestartOnFailure},
		"restart: {condition: none}":        {Condition: taskstate.RestartNone},
		"restart: {delay: 2s, window: 0s}":  {Condition: taskstate.RestartOnFailure, Delay: 2000},
		"type: batch\nrestart: {delay: 0s}": {Condition: taskstate.RestartOnFailure},
	} {
		if d := cmp.Diff(want, mustParse(t, "x.yaml", text+"\nrun: {noop: {}}").Restart); d != "" {
			t.Errorf("%q\n%s", text, d)
		}
	}
}

func TestAnExplicitPriorityOfZeroIsTheLowest(t *testing.T) {
	if got := mustParse(t, "x.yaml", "run: {noop: {}}\npriority: 0").Priority; got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestAMatrixHasASlotForEachPointInTheOrderOfTheFile(t *testing.T) {
	j := mustParse(t, "x.yaml", "matrix: {size: [s, l], seed: [1, 02, 3.0]}\nrun: {noop: {}}")
	var got []string
	for slot := 1; slot <= j.Count; slot++ {
		got = append(got, j.Item(slot))
	}
	if want := "s,1 s,02 s,3.0 l,1 l,02 l,3.0"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAMillionSlotsAreNeverWrittenOut(t *testing.T) {
	hundred := "[" + strings.Repeat("0, ", 99) + "0]"
	for _, text := range []string{"count: 1000000", "matrix: {a: " + hundred + ", b: " + hundred + ", c: " + hundred + "}"} {
		var j *taskstate.Job
		allocated := testing.AllocsPerRun(1, func() { j = mustParse(t, "x.yaml", text+"\nrun: {noop: {}}") })
		if j.Count != jobfile.MaxCount || allocated > 50_000 {
			t.Errorf("%.20s: %d slots, %.0f allocations", text, j.Count, allocated)
		}
		if b, err := wire.Marshal(j); err != nil || len(b) > 2000 {
			t.Errorf("%.20s: %d bytes, %v", text, len(b), err)
		}
	}
	axes := make([]taskstate.Axis, 10_000)
	for i := range axes {
		axes[i] = taskstate.Axis{Name: "a", Values: []string{"0", "1"}}
	}
	if err := jobfile.Validate(&taskstate.Job{Type: taskstate.BatchJob, Count: 1, Matrix: axes}); err == nil {
		t.Error("two to the power of ten thousand slots pass")
	}
}

// service is a complete, valid service, changed by change.
func service(change func(j *taskstate.Job)) *taskstate.Job {
	j := &taskstate.Job{Type: taskstate.ServiceJob, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	jobfile.Defaults(j)
	change(j)
	return j
}

func TestWhatNoFileCanSayIsRefusedAllTheSame(t *testing.T) {
	batch := func(change func(j *taskstate.Job)) *taskstate.Job {
		return process(func(j *taskstate.Job, _ *taskstate.Process) { change(j) })
	}
	matrix := []taskstate.Axis{{Name: "a", Values: []string{"1", "2"}}}
	for says, j := range map[string]*taskstate.Job{
		"count: the matrix makes 2 slots, got 3": batch(func(j *taskstate.Job) { j.Matrix, j.Count = matrix, 3 }),
		"matrix: use a matrix, or items or":      batch(func(j *taskstate.Job) { j.Matrix, j.Count, j.Numbered = matrix, 2, true }),
		"matrix: it has 17 axes":                 batch(func(j *taskstate.Job) { j.Matrix = make([]taskstate.Axis, 17) }),
		"matrix.a: the axis is given twice":      batch(func(j *taskstate.Job) { j.Matrix, j.Count = append(matrix, matrix...), 4 }),
		"matrix: its values have": batch(func(j *taskstate.Job) {
			j.Matrix = []taskstate.Axis{{Name: "a", Values: []string{strings.Repeat("x", 1<<20)}}}
		}),
		"version: only service":                                         batch(func(j *taskstate.Job) { j.Version = 1 }),
		"version: expected 0 to":                                        service(func(j *taskstate.Job) { j.Version = -1 }),
		"array: a service job has tasks":                                service(func(j *taskstate.Job) { j.Numbered = true }),
		"resources: \"gpus=2,gpus=1\" is not in":                        batch(func(j *taskstate.Job) { j.Resources.Others = "gpus=2,gpus=1" }),
		"resources: gpus: expected 1 to":                                batch(func(j *taskstate.Job) { j.Resources.Others = "gpus=-1" }),
		"isolate: allowed is none, fs, strong, got":                     batch(func(j *taskstate.Job) { j.Isolate = "much" }),
		"placement.strategy: allowed is spread, binpack, random, got":   batch(func(j *taskstate.Job) { j.Strategy = "pack" }),
		"constraints: 65 of them":                                       batch(func(j *taskstate.Job) { j.Constraints = make([]string, 65) }),
		"constraints[0]: ":                                              batch(func(j *taskstate.Job) { j.Constraints = []string{"\xff"} }),
		"restart.condition: allowed is none, on-failure, any, got \"\"": batch(func(j *taskstate.Job) { j.Restart = &taskstate.Restart{} }),
		"restart.attempts: expected 0 to 1,000":                         batch(func(j *taskstate.Job) { j.Restart = &taskstate.Restart{Condition: "any", Attempts: 1001} }),
		"restart.delay: expected":                                       batch(func(j *taskstate.Job) { j.Restart = &taskstate.Restart{Condition: "any", Delay: -1} }),
		"restart.window: expected":                                      batch(func(j *taskstate.Job) { j.Restart = &taskstate.Restart{Condition: "any", Window: -1} }),
		"update.max_failure_ratio: expected a share":                    service(func(j *taskstate.Job) { j.Update = &taskstate.Update{MaxFailureRatio: math.NaN()} }),
		"update.parallelism: expected":                                  service(func(j *taskstate.Job) { j.Update = &taskstate.Update{Parallelism: -1} }),
		"update.delay: expected":                                        service(func(j *taskstate.Job) { j.Update = &taskstate.Update{Delay: -1} }),
		"update.monitor: expected":                                      service(func(j *taskstate.Job) { j.Update = &taskstate.Update{Monitor: 1 << 60} }),
		"update.on_failure: allowed is pause, continue, rollback":       service(func(j *taskstate.Job) { j.Update = &taskstate.Update{OnFailure: "x"} }),
		"update.order: allowed is stop-first, start-first":              service(func(j *taskstate.Job) { j.Update = &taskstate.Update{Order: "x"} }),
		"priority: expected 0 to 100":                                   batch(func(j *taskstate.Job) { j.Priority = -1 }),
		"max_fails: expected 0 to":                                      batch(func(j *taskstate.Job) { j.MaxFails = -1 }),
		"after: 65 jobs":                                                batch(func(j *taskstate.Job) { j.After = make([]taskstate.JobID, 65) }),
		"schedule.cron: expected five fields":                           batch(func(j *taskstate.Job) { j.Schedule = &taskstate.Schedule{Cron: strings.Repeat(" ", 300) + "* * * * *"} }),
		"schedule.overlap: allowed is skip, allow":                      batch(func(j *taskstate.Job) { j.Schedule = &taskstate.Schedule{Cron: "* * * * *", Overlap: "x"} }),
		"schedule.zone: there is no time zone":                          batch(func(j *taskstate.Job) { j.Schedule = &taskstate.Schedule{Cron: "* * * * *", Zone: "../../etc/passwd"} }),
		"schedule.zone: expected a time zone": batch(func(j *taskstate.Job) {
			j.Schedule = &taskstate.Schedule{Cron: "* * * * *", Zone: strings.Repeat("x", 65)}
		}),
		"origin: this is no run": batch(func(j *taskstate.Job) { j.Origin = &taskstate.Origin{Job: "x"} }),
	} {
		if err := jobfile.Validate(j); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	for what, j := range map[string]*taskstate.Job{
		"a service":               service(func(*taskstate.Job) {}),
		"a service that is off":   service(func(j *taskstate.Job) { j.Count = 0 }),
		"a version":               service(func(j *taskstate.Job) { j.Version = 7 }),
		"no policy":               service(func(j *taskstate.Job) { j.Restart = nil }),
		"an update in short form": service(func(j *taskstate.Job) { j.Update = &taskstate.Update{} }),
		"a run of a schedule":     batch(func(j *taskstate.Job) { j.Origin = &taskstate.Origin{Job: "k3v5q7x2ab", At: 5} }),
		"a schedule in UTC":       batch(func(j *taskstate.Job) { j.Schedule = &taskstate.Schedule{Cron: "0 3 * * *"} }),
		"the lowest priority":     batch(func(j *taskstate.Job) { j.Priority = 0 }),
	} {
		if err := jobfile.Validate(j); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAScheduleIsReadAsCronReadsIt(t *testing.T) {
	from := time.Date(2026, 11, 21, 13, 30, 0, 0, time.UTC) // a Saturday
	for expr, want := range map[string]string{
		"0 3 * * *": "2026-11-22 03:00", "*/15 * * * *": "2026-11-21 13:45", "5 4 1,15 * *": "2026-12-01 04:05", "0 0 29 2 *": "2028-02-29 00:00",
		"0 9 * * MON-FRI": "2026-11-23 09:00", "0 9 * * 7": "2026-11-22 09:00", "0 9 * jan *": "2027-01-01 09:00", "10-20/5 14 * * *": "2026-11-21 14:10",
		"0 0 13 * 5": "2026-11-27 00:00", // either day, as in every cron
	} {
		j := mustParse(t, "x.yaml", "run: {noop: {}}\nschedule: \""+expr+"\"")
		next, err := gronx.NextTickAfter(j.Schedule.Cron, from, false)
		if got := next.Format("2006-01-02 15:04"); err != nil || got != want {
			t.Errorf("%s: next at %s, want %s; %v", expr, got, want, err)
		}
	}
	full := mustParse(t, "x.yaml", "run: {noop: {}}\nschedule: {cron: 0 3 * * *, zone: Europe/Berlin, overlap: allow}").Schedule
	if *full != (taskstate.Schedule{Cron: "0 3 * * *", Zone: "Europe/Berlin", Overlap: taskstate.AllowOverlap}) {
		t.Errorf("got %+v", *full)
	}
}

// The first of a month is a given weekday at least once in twelve years: the longest that a step in
// the days, which has to meet the weekday, can wait ("* * */7 12 4").
func TestEveryScheduleThatIsAcceptedComesSoonFromAnyDay(t *testing.T) {
	number := func(low, high int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			n := rapid.IntRange(low, high).Draw(t, "n")
			switch rapid.IntRange(0, 4).Draw(t, "form") {
			case 0, 1:
				return "*"
			case 2:
				return "*/" + itoa(rapid.IntRange(1, high).Draw(t, "step"))
			case 3:
				return itoa(n) + "-" + itoa(rapid.IntRange(n, high).Draw(t, "to"))
			}
			return itoa(n) + "," + itoa(rapid.IntRange(low, high).Draw(t, "or"))
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		expr := number(0, 59).Draw(t, "minute") + " " + number(0, 23).Draw(t, "hour") + " " + number(1, 31).Draw(t, "day") + " " +
			number(1, 12).Draw(t, "month") + " " + number(0, 7).Draw(t, "weekday")
		j := process(func(j *taskstate.Job, _ *taskstate.Process) { j.Schedule = &taskstate.Schedule{Cron: expr} })
		if jobfile.Validate(j) != nil {
			return
		}
		from := time.Unix(rapid.Int64Range(1_700_000_000, 4_000_000_000).Draw(t, "from"), 0).UTC()
		next, err := gronx.NextTickAfter(expr, from, false)
		if err != nil || !next.After(from) || next.Sub(from) > 12*366*24*time.Hour {
			t.Fatalf("%q after %v: %v, %v", expr, from, next, err)
		}
	})
}

func itoa(n int) string { return strconv.Itoa(n) }
