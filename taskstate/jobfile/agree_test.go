package jobfile_test

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"pgregory.net/rapid"
)

// What is accepted here is understood where it is carried out: a job that passes and then cannot be
// placed waits for ever.

func TestConstraintsThatPassCanBeAskedOfPeers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"peer.name =~ a", "peer.name =~ b", "peer.name =~ c", "peer.name =~ d", "peer.name =~ e", "peer.name =~ f", "peer.name =~ g", "peer.name =~ h", "peer.name =~ i",
			"peer.name =~ j", "peer.os == linux", "peer.memory >= 1GiB", "peer.offer.gpus >= 1", "peer.label.x in (a, b)", "peer.addr != 10.0.0.0/8", "peer.cpus > 1",
		}), 0, 14, func(s string) string { return s }).Draw(t, "constraints")
		j := process(func(j *taskstate.Job, _ *taskstate.Process) { j.Constraints = texts })
		err := jobfile.Validate(j)
		_, err2 := constraint.ParseAll(texts)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("validated: %v; asked of peers: %v", err, err2)
		}
		if err != nil && !strings.Contains(err.Error(), "constraints[") {
			t.Fatalf("it does not say which: %v", err)
		}
	})
}

func TestTooManyRegularExpressionsAreRefusedBeforeTheJobWaitsForEver(t *testing.T) {
	job := func(n int) *taskstate.Job {
		return process(func(j *taskstate.Job, _ *taskstate.Process) {
			for i := range n {
				j.Constraints = append(j.Constraints, "peer.name =~ n"+itoa(i))
			}
		})
	}
	if err := jobfile.Validate(job(constraint.MaxRegexps)); err != nil {
		t.Errorf("as many as are allowed: %v", err)
	}
	err := jobfile.Validate(job(constraint.MaxRegexps + 1))
	if want := `constraints[8]: there are more than 8 regular expressions; join them with |, as in: peer.name =~ "^(east|west)-"`; err == nil || err.Error() != want {
		t.Errorf("one more: %v, want %s", err, want)
	}
}

func TestANameOfACountIsOneName(t *testing.T) {
	for _, key := range []string{`"a=1,b"`, `"gpus=1,x"`, `"a,b"`, `"a="`, `"a b"`, "Seats", "7up", "-a", `""`, strings.Repeat("x", 64)} {
		_, err := jobfile.Parse("x.yaml", []byte("run: {noop: {}}\nresources: {"+key+": 3}\n"), jobfile.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "x.yaml:2:13: resources: ") || !strings.Contains(err.Error(), "no name of a count") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestAZoneIsTheSameOnEveryPeer(t *testing.T) {
	job := func(zone string) *taskstate.Job {
		return process(func(j *taskstate.Job, _ *taskstate.Process) {
			j.Schedule = &taskstate.Schedule{Cron: "0 3 * * *", Zone: zone}
		})
	}
	for _, zone := range []string{"Local", "local", "localtime", "posixrules", "LOCALTIME"} {
		if err := jobfile.Validate(job(zone)); err == nil || !strings.Contains(err.Error(), "every peer may have another local time") {
			t.Errorf("%s: %v", zone, err)
		}
	}
	for _, zone := range []string{"", "UTC", "Europe/Berlin", "America/New_York"} {
		if err := jobfile.Validate(job(zone)); err != nil {
			t.Errorf("%q: %v", zone, err)
		}
	}
}
