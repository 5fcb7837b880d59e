//go:build unix

package testnet

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

var someTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// over is a job's row after its end.
func over(id, state string, exit int, tasks map[string]int) api.Job {
	return api.Job{ID: id, State: state, Ended: &someTime, ExitCode: &exit, Tasks: tasks}
}

// soaking is a soak of twins, with these jobs.
func soaking(t *testing.T, peers int, jobs map[string]*soakJob) (*soak, []*twin) {
	t.Helper()
	net, all := twins(t, peers)
	s := &soak{
		cfg: SoakConfig{Peers: peers, Talk: io.Discard, Dir: net.cfg.Dir}, net: net, jobs: jobs, order: slices.Sorted(maps.Keys(jobs)),
		hurting: make([]int, peers), touched: make([]int, peers), report: SoakReport{Hurts: map[string]int{}},
	}
	if err := os.MkdirAll(s.marks(), 0o700); err != nil {
		t.Fatal(err)
	}
	return s, all
}

func TestAJobIsJudgedByItsEnd(t *testing.T) {
	three := taskstate.Job{Count: 3}
	complete := over("j", "complete", 0, map[string]int{"complete": 3})
	short := over("j", "complete", 0, map[string]int{"complete": 2})
	failed := over("j", "failed", 7, nil)
	other := over("j", "failed", 9, nil)
	cancelled := over("j", "shutdown", 130, nil)
	cancelled.Cancelled = "cancelled"
	ignored := over("j", "shutdown", 130, nil)
	for what, x := range map[string]struct {
		job  soakJob
		lost bool
		why  string // "" is well
	}{
		"as it should":                   {soakJob{job: three, end: "complete", ended: &complete}, false, ""},
		"without an end":                 {soakJob{job: three, end: "complete"}, true, "never ended"},
		"cancelled without an end":       {soakJob{end: "shutdown", cancel: true}, true, "never ended"},
		"withdrawn while it was held":    {soakJob{end: "shutdown", cancel: true, told: true}, false, ""},
		"another end":                    {soakJob{end: "complete", ended: &failed}, false, "failed instead of complete"},
		"any end is right":               {soakJob{end: "", ended: &failed}, false, ""},
		"another exit code":              {soakJob{end: "failed", exit: 7, ended: &other}, false, "exit code 9 instead of 7"},
		"its exit code":                  {soakJob{end: "failed", exit: 7, ended: &failed}, false, ""},
		"too few tasks":                  {soakJob{job: three, end: "complete", ended: &short}, false, "of 3"},
		"a cancel that shows":            {soakJob{end: "shutdown", cancel: true, told: true, ended: &cancelled}, false, ""},
		"a cancel that was forgotten":    {soakJob{end: "shutdown", cancel: true, told: true, ended: &ignored}, false, "no sign"},
		"a cancel that was never heard":  {soakJob{end: "shutdown", cancel: true, ended: &ignored}, false, ""},
		"not cancelled, and not its end": {soakJob{end: "shutdown", cancel: true, told: true, ended: &complete}, false, "no sign"},
	} {
		lost, why := x.job.judge()
		if lost != x.lost || (why == "") != (x.why == "") || !strings.Contains(why, x.why) {
			t.Errorf("%s: lost %v, %q", what, lost, why)
		}
	}
}

func TestProcessesAreCountedByTheMarksTheyLeft(t *testing.T) {
	job := taskstate.Job{Count: 3}
	done := over("j", "complete", 0, nil)
	for what, x := range map[string]struct {
		marks string
		job   soakJob
		want  SoakReport
	}{
		"each once":             {"1 1 a 1\n2 1 a 1\n3 1 b 1\n", soakJob{job: job, ended: &done}, SoakReport{Runs: 3}},
		"one again, as allowed": {"1 1 a 1\n2 1 a 1\n2 2 b 1\n3 1 b 1\n", soakJob{job: job, ended: &done}, SoakReport{Runs: 4, Again: 1}},
		"one again, forbidden":  {"1 1 a 1\n2 1 a 1\n2 2 b 1\n3 1 b 1\n", soakJob{job: job, wait: true, ended: &done}, SoakReport{Runs: 4, Twice: 1}},
		"one never":             {"1 1 a 1\n3 1 b 1\n", soakJob{job: job, ended: &done}, SoakReport{Runs: 2, Wrong: 1}},
		"none, and no end":      {"", soakJob{job: job}, SoakReport{}},
		"a torn mark":           {"1 1 a 1\n\n \nx\n2 1", soakJob{job: job}, SoakReport{Runs: 2}},
	} {
		s, _ := soaking(t, 1, nil)
		if x.marks != "" {
			if err := os.WriteFile(filepath.Join(s.marks(), "j"), []byte(x.marks), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.judgeRuns("j", &x.job)
		got := s.report
		if got.Runs != x.want.Runs || got.Again != x.want.Again || got.Twice != x.want.Twice || got.Wrong != x.want.Wrong {
			t.Errorf("%s: %+v", what, got)
		}
		if got.OK() != (x.want.Twice+x.want.Wrong == 0) {
			t.Errorf("%s: all is well: %v, %q", what, got.OK(), got.Trouble)
		}
	}
}

func anyEnd(t *rapid.T, name string) api.Job {
	j := over(
		"j", rapid.SampledFrom([]string{"complete", "failed"}).Draw(t, name+" state"), rapid.IntRange(0, 1).Draw(t, name+" exit"),
		rapid.MapOfN(rapid.SampledFrom([]string{"complete", "failed", "shutdown"}), rapid.IntRange(0, 2), 0, 3).Draw(t, name+" tasks"),
	)
	j.Cancelled = rapid.SampledFrom([]string{"", "cancelled"}).Draw(t, name+" cancelled")
	ended := someTime.Add(time.Duration(rapid.IntRange(0, 1).Draw(t, name+" ended")) * time.Second)
	if rapid.Bool().Draw(t, name+" elsewhere") {
		ended = ended.In(time.FixedZone("x", 3600))
	}
	j.Ended = &ended
	return j
}

// Two peers show the same end if nothing that is decided differs: whichever is asked first.
func TestEndsAreTheSameOnlyIfAllThatIsDecidedIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := anyEnd(t, "a")
		b := a
		b.Tasks = maps.Clone(a.Tasks)
		b.Waiting = "news of the moment"
		if rapid.Bool().Draw(t, "another") {
			b = anyEnd(t, "b")
		}
		same := a.State == b.State && *a.ExitCode == *b.ExitCode && a.Cancelled == b.Cancelled && a.Ended.Unix() == b.Ended.Unix()
		for _, state := range []string{"complete", "failed", "shutdown"} {
			same = same && a.Tasks[state] == b.Tasks[state]
		}
		if sameEnd(&a, &b) != same || sameEnd(&b, &a) != same {
			t.Fatalf("%+v\n%+v\nare the same: %v and %v, not %v", a, b, sameEnd(&a, &b), sameEnd(&b, &a), same)
		}
	})
}

func TestAnEndThatAnotherPeerShowsDifferentlyIsWrong(t *testing.T) {
	x := &soakJob{accepted: true}
	s, all := soaking(t, 4, map[string]*soakJob{"j": x, "open": {accepted: true}})
	end, contrary, open := over("j", "complete", 0, nil), over("j", "failed", 1, nil), api.Job{ID: "open", State: "running"}
	all[0].jobs = []api.Job{end, open, over("stranger", "complete", 0, nil)}
	all[1].jobs = []api.Job{open, end}
	all[2].jobs = []api.Job{contrary}
	all[3].dumb = true
	for k := range all {
		s.noteEnds(t.Context(), k+1)
	}
	if x.ended == nil || x.ended.State != "complete" || s.jobs["open"].ended != nil {
		t.Errorf("noted %+v", x.ended)
	}
	if s.report.Wrong != 1 || len(s.report.Trouble) != 1 || !strings.Contains(s.report.Trouble[0], "job j ended twice: peer 3 shows failed") {
		t.Errorf("%+v", s.report)
	}
	if n := s.unfinished(); n != 1 {
		t.Errorf("%d are under way", n)
	}
}

func TestAClusterHasSettledWhenEveryPeerShowsTheSameEnds(t *testing.T) {
	ended := over("j", "complete", 0, map[string]int{"complete": 1})
	other := over("j", "failed", 1, map[string]int{"failed": 1})
	open := api.Job{ID: "j", Name: "nap", State: "running"}
	for what, x := range map[string]struct {
		lists [][]api.Job
		job   soakJob
		why   string
	}{
		"all agree":              {[][]api.Job{{ended}, {ended}}, soakJob{accepted: true}, ""},
		"one still runs":         {[][]api.Job{{ended}, {open}}, soakJob{accepted: true}, "peer 2: job j (nap) is running"},
		"they differ":            {[][]api.Job{{ended}, {other}}, soakJob{accepted: true}, "the lists of peers 1 and 2 differ:\n  j complete"},
		"one has more":           {[][]api.Job{{ended}, {ended, over("k", "complete", 0, nil)}}, soakJob{accepted: true}, "  (nothing)\n  k complete"},
		"one shows it twice":     {[][]api.Job{{ended, ended}, {ended}}, soakJob{accepted: true}, "peer 1: lists job j twice"},
		"nobody knows it":        {[][]api.Job{{}, {}}, soakJob{kind: "naps", accepted: true}, "peer 1: job j (naps) is not known"},
		"it was never accepted":  {[][]api.Job{{}, {}}, soakJob{}, ""},
		"it was withdrawn":       {[][]api.Job{{}, {}}, soakJob{accepted: true, cancel: true, told: true}, ""},
		"it is over and swept":   {[][]api.Job{{}, {}}, soakJob{accepted: true, ended: &ended}, ""},
		"a peer does not answer": {[][]api.Job{{ended}, nil}, soakJob{accepted: true}, "peer 2: "},
	} {
		s, all := soaking(t, 2, map[string]*soakJob{"j": &x.job})
		for k, list := range x.lists {
			all[k].jobs, all[k].dumb = list, list == nil
		}
		if why := s.unsettled(t.Context()); (why == "") != (x.why == "") || !strings.Contains(why, x.why) {
			t.Errorf("%s: %q", what, why)
		}
	}
}

func TestOutputsThatAreNotWhatWasWrittenAreWrong(t *testing.T) {
	line := func(task, text string) api.LogChunk { return api.LogChunk{Task: task, Data: []byte(text)} }
	for what, x := range map[string]struct {
		logs  []api.LogChunk
		wrong string
	}{
		"right":                  {[]api.LogChunk{line("j.1.1", "out 1\n"), line("j.2.1", "out 2\n")}, ""},
		"in pieces":              {[]api.LogChunk{line("j.1.1", "out"), line("j.2.1", "out 2\n"), line("j.1.1", " 1\n")}, ""},
		"of the second attempt":  {[]api.LogChunk{line("j.1.1", ""), line("j.1.2", "out 1\n"), line("j.2.1", "out 2\n")}, ""},
		"nothing of one":         {[]api.LogChunk{line("j.1.1", "out 1\n")}, "slot 2"},
		"twice":                  {[]api.LogChunk{line("j.1.1", "out 1\nout 1\n"), line("j.2.1", "out 2\n")}, "slot 1"},
		"of another slot":        {[]api.LogChunk{line("j.1.1", "out 2\n"), line("j.2.1", "out 2\n")}, "slot 1"},
		"of a slot named alike":  {[]api.LogChunk{line("j.12.1", "out 1\n"), line("j.2.1", "out 2\n")}, "slot 1"},
		"one that cannot be had": {[]api.LogChunk{line("j.1.1", "out 1\n"), {Task: "j.2.1", Error: api.Errorf(api.Failed, "gone")}}, "gone"},
	} {
		done := over("j", "complete", 0, nil)
		running := &soakJob{kind: "processes", job: taskstate.Job{Count: 2}}
		s, all := soaking(t, 2, map[string]*soakJob{
			"j": {kind: "processes", job: taskstate.Job{Count: 2}, ended: &done}, "k": running, "l": {kind: "noops", ended: &done},
		})
		all[0].dumb = true // the second is asked for the first job
		all[1].logs = x.logs
		s.judgeOutputs(t.Context())
		if (s.report.Wrong > 0) != (x.wrong != "") || !strings.Contains(strings.Join(s.report.Trouble, "\n"), x.wrong) {
			t.Errorf("%s: %d wrong, %q", what, s.report.Wrong, s.report.Trouble)
		}
	}
}

// The shell writes what is expected of it, and anything else is told.
func TestFilesOfASoakAreWhatItsTasksWrite(t *testing.T) {
	const id = taskstate.JobID("abc")
	for _, size := range soakSizes {
		c := exec.Command("/bin/sh", "-c", fileLine(id, size))
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), "COVEY_SLOT=3")
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		got := map[string]string{}
		for path := range soakFiles(id, 3, size) {
			b, err := os.ReadFile(filepath.Join(c.Dir, path))
			if err != nil {
				t.Fatal(err)
			}
			got[path] = string(b)
		}
		if why := difference(soakFiles(id, 3, size), got); why != "" {
			t.Errorf("%d bytes: %s", size, why)
		}
		want := soakFiles(id, 3, size)
		for why, other := range map[string]map[string]string{
			"out/a is not as it was written": {"out/a": want["out/a"] + "x", "out/deep/b": want["out/deep/b"]},
			"it left [\"out/a\"]":            {"out/a": want["out/a"]},
			"\"out/c\"":                      {"out/a": want["out/a"], "out/deep/b": want["out/deep/b"], "out/c": ""},
		} {
			if said := difference(want, other); !strings.Contains(said, why) {
				t.Errorf("%q, not %q", said, why)
			}
		}
	}
}

func TestASoakIsWellOnlyIfNothingIsWrong(t *testing.T) {
	well := SoakReport{Accepted: 9, Held: 2, Cancels: 1, Runs: 9, Again: 3, NoBoss: 2}
	if !well.OK() {
		t.Error("a second run that may be is no trouble")
	}
	for what, change := range map[string]func(*SoakReport){
		"lost": func(r *SoakReport) { r.Lost = 1 }, "wrong": func(r *SoakReport) { r.Wrong = 1 }, "twice": func(r *SoakReport) { r.Twice = 1 },
		"strays": func(r *SoakReport) { r.Strays = 1 }, "hung": func(r *SoakReport) { r.Hung = 1 }, "trouble": func(r *SoakReport) { r.Trouble = []string{"x"} },
	} {
		r := well
		if change(&r); r.OK() {
			t.Errorf("%s is taken for well", what)
		}
	}
	s, _ := soaking(t, 1, nil)
	for i := range 2 * maxTrouble {
		s.trouble("number %d", i)
	}
	if len(s.report.Trouble) != maxTrouble || s.report.Trouble[maxTrouble-1] != "number 29" {
		t.Errorf("%d troubles are told", len(s.report.Trouble))
	}
}
