package guard_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/trust/audit"
	"github.com/coveyproject/covey/trust/policy"
)

const (
	mine   = "12D3KooWmine1111"
	marie  = "12D3KooWmarie111"
	friend = "12D3KooWfriend11"
)

// runs is a runner that remembers what it was given.
type runs struct {
	mu      sync.Mutex
	started []taskstate.Launch
	stopped []taskstate.TaskID
	sink    func(taskstate.RunReport)
	starts  func(taskstate.Launch) // called before it knows the task; optional
}

func (r *runs) Start(l taskstate.Launch) {
	if r.starts != nil {
		r.starts(l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, l)
}

func (r *runs) Stop(id taskstate.TaskID, why taskstate.Reason) {
	r.mu.Lock()
	r.stopped = append(r.stopped, id)
	r.mu.Unlock()
	r.sink(taskstate.RunReport{Task: id, State: taskstate.Shutdown, Reason: why})
}

func (r *runs) Adopt([]taskstate.Launch) []taskstate.Loss            { return nil }
func (r *runs) Kept([]taskstate.TaskID)                              {}
func (r *runs) Live(taskstate.TaskID) (<-chan struct{}, int64, bool) { return nil, 0, false }
func (r *runs) Clean(taskstate.JobID) error                          { return nil }
func (r *runs) Close() error                                         { return nil }
func (r *runs) Lasting() bool                                        { return true }

// bench is a guard with what it stands between.
type bench struct {
	*guard.Guard
	runs
	force    policy.Policy
	roles    map[string][]admission.Role
	applied  uint64
	unsigned bool
	forged   error
	void     string // a key that was revoked
	log      *audit.Log
	path     string // of the log
	heard    []taskstate.RunReport
}

func newBench(t *testing.T, text string) *bench {
	t.Helper()
	b := &bench{roles: map[string][]admission.Role{}, path: filepath.Join(t.TempDir(), audit.FileName)}
	b.log = audit.New(audit.Config{Path: b.path})
	var err error
	if b.force, err = policy.Read([]byte(text)); err != nil {
		t.Fatal(err)
	}
	b.Guard, err = guard.New(guard.Config{
		Self: mine, Policy: func() policy.Policy { return b.force },
		Sink: func(r taskstate.RunReport) { b.mu.Lock(); b.heard = append(b.heard, r); b.mu.Unlock() },
		Asks: func(l *taskstate.Launch) (string, bool, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return l.Job.Submitter, !b.unsigned, b.forged
		},
		Roles:   func(p string) []admission.Role { b.mu.Lock(); defer b.mu.Unlock(); return b.roles[p] },
		Applied: func() uint64 { b.mu.Lock(); defer b.mu.Unlock(); return b.applied },
		Void:    func(key string) bool { return key == b.void },
		Audit:   b.log,
	}, func(sink func(taskstate.RunReport)) (guard.Runner, error) { b.runs.sink = sink; return &b.runs, nil })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Guard.Close() })
	return b
}

func task(by string, slot int, change ...func(*taskstate.Job)) taskstate.Launch {
	j := &taskstate.Job{ID: "j" + taskstate.JobID(strings.ToLower(by[8:10])), Submitter: by, Count: 9}
	j.Run.Process = &taskstate.Process{Command: []string{"/bin/true"}}
	for _, c := range change {
		c(j)
	}
	return taskstate.Launch{Task: taskstate.Task(j.ID, slot, 1), Job: j}
}

// refused is the newest refusal's words, "" if the newest report is none.
func (b *bench) refused() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.heard) == 0 {
		return ""
	}
	if r := b.heard[len(b.heard)-1]; r.State == taskstate.Rejected && r.Reason == taskstate.ReasonPolicy {
		return r.Message
	}
	return ""
}

func (b *bench) count() int { b.mu.Lock(); defer b.mu.Unlock(); return len(b.started) }

func TestWhatTheOwnerDoesNotAllowIsRejectedAndNamesTheRule(t *testing.T) {
	b := newBench(t, "rules:\n- {from: [self], run: any}\n- from: [key:"+marie+"]\n  run: {process: [/usr/bin/ffmpeg]}\n")
	b.Guard.Start(task(mine, 1))
	if b.count() != 1 || b.started[0].Confinement == nil || b.started[0].Confinement.As != taskstate.AsSelf {
		t.Fatalf("own task: %+v", b.started)
	}
	b.Guard.Start(task(marie, 1))
	if b.refused() != "rule 2 (line 3) runs only /usr/bin/ffmpeg" {
		t.Errorf("%q", b.refused())
	}
	b.Guard.Start(task(friend, 1))
	if !strings.HasPrefix(b.refused(), "no rule lets in jobs of "+friend) {
		t.Errorf("%q", b.refused())
	}
	if b.count() != 1 {
		t.Errorf("%d tasks run", b.count())
	}
}

func TestWhatIsNotAsItWasSignedDoesNotRunWhateverThePolicySays(t *testing.T) {
	// Attack (a): the coordinator has changed a byte of the job.
	b := newBench(t, "unsigned: allow\nrules:\n- {from: [self, role:submit, role:admin], run: any}\n")
	b.forged = errors.New("its command is not what was signed")
	b.Guard.Start(task(mine, 1))
	if b.count() != 0 || b.refused() != b.forged.Error() {
		t.Errorf("%d run; %q", b.count(), b.refused())
	}
}

func TestAnUnsignedJobRunsOnlyWhereTheOwnerAllowsIt(t *testing.T) {
	b := newBench(t, "rules:\n- {from: [self], run: any}\n")
	b.unsigned = true
	b.Guard.Start(task(mine, 1))
	if b.count() != 0 || !strings.Contains(b.refused(), "not signed") {
		t.Errorf("%d run; %q", b.count(), b.refused())
	}
	b.force.Unsigned = true
	if b.Guard.Start(task(mine, 2)); b.count() != 1 {
		t.Error("not run where it is allowed")
	}
}

func TestAKeyHasNoMoreHereThanItsLimit(t *testing.T) {
	b := newBench(t, "rules:\n- from: [key:"+marie+", self]\n  run: any\n  limits: {tasks: 2, time: 1h}\n")
	for slot := range 4 {
		b.Guard.Start(task(marie, slot+1))
	}
	if b.count() != 2 || b.started[0].Job.Timeout != time.Hour.Milliseconds() {
		t.Fatalf("%d run", b.count())
	}
	b.Guard.Start(task(mine, 1))
	if b.count() != 3 {
		t.Error("the limit of one key holds up another")
	}
	b.Guard.Stop(taskstate.Task(task(marie, 3).Job.ID, 3, 1), taskstate.ReasonCancelled)
	if r := b.heard[len(b.heard)-1]; r.State != taskstate.Shutdown || r.Reason != taskstate.ReasonCancelled || len(b.stopped) != 0 {
		t.Errorf("one that waits is not stopped: %+v", r)
	}
	b.runs.sink(taskstate.RunReport{Task: b.started[0].Task, State: taskstate.Complete})
	if b.count() != 4 || b.started[3].Task.Slot != 4 {
		t.Errorf("what waited did not start: %+v", b.started)
	}
}

func TestWhatWaitedAndIsStoppedOnItsWayToTheRunnerIsStopped(t *testing.T) {
	b := newBench(t, "rules:\n- from: [key:"+marie+"]\n  run: any\n  limits: {tasks: 1}\n")
	first, second := task(marie, 1), task(marie, 2)
	b.Guard.Start(first)
	b.Guard.Start(second)
	b.starts = func(l taskstate.Launch) { b.Guard.Stop(l.Task, taskstate.ReasonCancelled) }
	b.runs.sink(taskstate.RunReport{Task: first.Task, State: taskstate.Complete})
	if len(b.stopped) != 1 || b.stopped[0] != second.Task {
		t.Errorf("stopped %v of %+v", b.stopped, b.started)
	}
}

func TestWhatWaitsStartsWhenTheOwnerAllowsMore(t *testing.T) {
	b := newBench(t, "rules:\n- from: [key:"+marie+"]\n  run: any\n  limits: {tasks: 1}\n")
	b.Guard.Start(task(marie, 1))
	b.Guard.Start(task(marie, 2))
	b.force, _ = policy.Read([]byte("rules:\n- from: [key:" + marie + "]\n  run: any\n  limits: {tasks: 2}\n"))
	b.Guard.Review()
	if b.count() != 2 {
		t.Errorf("%d run", b.count())
	}
	b.force = policy.Policy{}
	b.Guard.Review()
	if len(b.stopped) != 2 {
		t.Errorf("not let in any more, and stopped are %v", b.stopped)
	}
}

func TestAKeyThatIsAdmittedInWhatHasNotComeYetIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, string(policy.Text(true, false)))
		b.applied = 5
		late := task(marie, 1)
		late.Index = 7
		b.Guard.Start(late)
		time.Sleep(time.Second)
		if b.count() != 0 || b.refused() != "" {
			t.Fatalf("decided before its copy of the ledger had come so far: %q", b.refused())
		}
		b.mu.Lock()
		b.applied, b.roles[marie] = 7, admission.AllRoles()
		b.mu.Unlock()
		time.Sleep(time.Second)
		if b.count() != 1 {
			t.Errorf("refused: %q", b.refused())
		}
		stranger := task(friend, 1)
		stranger.Index = 99
		b.Guard.Start(stranger)
		time.Sleep(2 * guard.BehindFor)
		if b.refused() == "" {
			t.Error("waits for ever")
		}
	})
}

func TestWhatTheLedgerDoesNotBearOutIsWaitedForUntilItHasComeSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, string(policy.Text(true, false)))
		b.applied, b.forged = 5, fmt.Errorf("%w: not yet", guard.ErrUnsure)
		first, second, third := task(mine, 1), task(mine, 2), task(mine, 3)
		first.Index, second.Index, third.Index = 6, 7, 8
		for _, l := range []taskstate.Launch{first, second, third} {
			b.Guard.Start(l)
		}
		time.Sleep(10 * guard.BehindFor)
		if b.count() != 0 || b.refused() != "" {
			t.Fatalf("%d run before its copy of the ledger has come so far; %q", b.count(), b.refused())
		}
		b.Guard.Stop(third.Task, taskstate.ReasonCancelled)
		if r := b.heard[len(b.heard)-1]; r.State != taskstate.Shutdown || r.Task != third.Task {
			t.Errorf("one that waits is not stopped: %+v", r)
		}
		b.mu.Lock()
		b.applied = 6
		b.mu.Unlock()
		time.Sleep(time.Second)
		if b.count() != 0 || b.refused() != b.forged.Error() {
			t.Errorf("%d run; refused: %q", b.count(), b.refused())
		}
		b.mu.Lock()
		b.applied, b.forged = 8, nil
		b.mu.Unlock()
		time.Sleep(time.Second)
		if b.count() != 1 || b.started[0].Task != second.Task {
			t.Errorf("what the ledger bears out by now: %+v", b.started)
		}
		b.forged = guard.ErrUnsure
		late := task(mine, 4)
		late.Index = 8
		if b.Guard.Start(late); b.refused() == "" {
			t.Error("waited for though the ledger has come so far")
		}
	})
}

func TestWhatRunsOfAKeyThatIsNoLongerLetInIsStopped(t *testing.T) {
	for _, finish := range []bool{false, true} {
		b := newBench(t, "rules:\n- {from: [self, key:"+marie+"], run: any}\n")
		b.Guard.Start(task(marie, 1))
		b.Guard.Start(task(mine, 1))
		b.Guard.Review()
		if len(b.stopped) != 0 {
			t.Fatal("stopped though nothing has changed")
		}
		b.force.Rules = []policy.Rule{{From: []string{policy.Self}, Run: policy.Run{Any: true}}}
		b.force.Finish = finish
		b.Guard.Review()
		if want := 1; !finish && (len(b.stopped) != want || b.stopped[0] != task(marie, 1).Task) || finish && len(b.stopped) != 0 {
			t.Errorf("finish %v: stopped %v", finish, b.stopped)
		}
	}
}

func TestABrokenPolicyLeavesTheLastGoodOneInForceAndNoneAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), policy.FileName)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changes := 0
	f := guard.OpenFile(path, func() { changes++ })
	if len(f.Now().Rules) != 0 || f.Now().Unsigned || f.Exists() {
		t.Errorf("without a file: %+v", f.Now())
	}
	write("rules: []\n")
	if f.Look(); len(f.Now().Rules) != 0 || changes != 1 || f.Wrong() != nil {
		t.Errorf("%+v, %d changes, %v", f.Now(), changes, f.Wrong())
	}
	write("rules:\n- from: [self]\n  run: any\n")
	f.Look()
	write("rules:\n- from: [self]\n  rum: any\n")
	if f.Look(); len(f.Now().Rules) != 1 || f.Wrong() == nil || !strings.Contains(f.Wrong().Error(), policy.FileName+":3:3: unknown key") {
		t.Errorf("%+v, %v", f.Now(), f.Wrong())
	}
	changes = 0
	if f.Look(); changes != 0 {
		t.Error("the same fault is told twice")
	}
	if g := guard.OpenFile(path, func() {}); len(g.Now().Rules) != 0 || g.Wrong() == nil {
		t.Errorf("broken at the start: %+v, %v", g.Now(), g.Wrong())
	}
	write("rules:\n- from: [self]\n  run: any\n")
	if f.Look(); f.Wrong() != nil || changes != 1 {
		t.Errorf("%v, %d changes", f.Wrong(), changes)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if f.Look(); f.Wrong() == nil || len(f.Now().Rules) != 1 {
		t.Errorf("without the file: %v, %+v", f.Wrong(), f.Now())
	}
}

func TestWhatRunsByAKeyThatIsRevokedIsStoppedThoughThePolicyNamesIt(t *testing.T) {
	b := newBench(t, "rules:\n- {from: [self, key:"+marie+"], run: any}\n")
	b.Guard.Start(task(marie, 1))
	b.Guard.Start(task(mine, 1))
	b.void = marie
	b.Guard.Review()
	if len(b.stopped) != 1 || b.stopped[0] != task(marie, 1).Task {
		t.Errorf("stopped %v", b.stopped)
	}
}

func TestARuleBoundsWhatIsKeptOfItsKeysTasks(t *testing.T) {
	b := newBench(t, "rules:\n- from: [key:"+marie+"]\n  run: any\n  limits: {disk: 100MiB}\n- from: [self]\n  run: any\n")
	for by, want := range map[taskstate.PeerID]int64{marie: 100 << 20, mine: 0, friend: 0} {
		if got := b.MaxKept(&taskstate.Job{Submitter: by, Order: &taskstate.Order{By: by}}); got != want {
			t.Errorf("of %s: %d, want %d", by, got, want)
		}
	}
}
