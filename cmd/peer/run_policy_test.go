package main

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/coveyproject/covey/taskstate"
)

// jobOf builds the job of a command line of `peer run`.
func jobOf(t *testing.T, flags ...string) *taskstate.Job {
	t.Helper()
	var f runFlags
	fl := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.policy.register(fl)
	if err := fl.Parse(flags); err != nil {
		t.Fatal(err)
	}
	j, err := f.job([]string{"true"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestTheFlagsOfRunSayWhatAJobFileSays(t *testing.T) {
	got := jobOf(t, "--matrix", "size=s,l", "--matrix", "seed=1,2,3", "--constraint", "peer.os == linux", "--constraint", "peer.cpus >= 2",
		"--gpus", "2", "--restart", "on-failure:3", "--max-fails", "4", "--priority", "0", "--after", "frames", "--after", "k3v5q7x2ab")
	want := jobOf(t)
	want.Count, want.Matrix = 6, []taskstate.Axis{{Name: "size", Values: []string{"s", "l"}}, {Name: "seed", Values: []string{"1", "2", "3"}}}
	want.Constraints, want.Resources.Others, want.MaxFails, want.Priority = []string{"peer.os == linux", "peer.cpus >= 2"}, "gpus=2", 4, 0
	want.Restart = &taskstate.Restart{Condition: taskstate.RestartOnFailure, Attempts: 3}
	want.After = []taskstate.JobID{"frames", "k3v5q7x2ab"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestARunThatSaysNothingIsTriedOnceAtMiddlePriority(t *testing.T) {
	if j := jobOf(t); j.Restart != nil || j.Priority != taskstate.DefaultPriority || j.Count != 1 || len(j.Matrix) > 0 {
		t.Errorf("%+v", j)
	}
	for flag, want := range map[string]taskstate.Restart{
		"none": {Condition: taskstate.RestartNone}, "any": {Condition: taskstate.RestartAny}, "on-failure": {Condition: taskstate.RestartOnFailure}, "any:1": {Condition: taskstate.RestartAny, Attempts: 1},
	} {
		if got := jobOf(t, "--restart", flag).Restart; *got != want {
			t.Errorf("%s: %+v", flag, got)
		}
	}
}

func TestWhatPeersOfferByANameIsAskedForByIt(t *testing.T) {
	f := policyFlags{gpus: 2, resources: []string{"licence=1", "fpga=3"}}
	got, err := f.others()
	if err != nil || !maps.Equal(got.Map(), map[string]int64{"gpus": 2, "licence": 1, "fpga": 3}) {
		t.Errorf("%v, %v", got.Map(), err)
	}
	for _, s := range []string{"licence", "licence=", "licence=0", "licence=x", "gpus=1"} {
		f := policyFlags{gpus: 2, resources: []string{s}}
		if _, err := f.others(); err == nil {
			t.Errorf("%q is taken", s)
		}
	}
}
