package saver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/saver"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// hands runs tasks: they leave what they are told to leave, and end as they are told to.
type hands struct {
	dir  string
	sink func(taskstate.RunReport)
	runs map[taskstate.TaskID]func(home string) taskstate.RunReport

	mu      sync.Mutex
	stopped []taskstate.TaskID
	kept    []taskstate.TaskID
	adopted []taskstate.Launch
}

func (h *hands) Start(l taskstate.Launch) {
	h.sink(taskstate.RunReport{Task: l.Task, State: taskstate.Running, Exit: taskstate.NoExit, At: 1})
	rel, err := l.Task.Folder()
	if err != nil {
		panic(err)
	}
	run := h.runs[l.Task]
	if run == nil {
		return // it goes on
	}
	home := filepath.Join(h.dir, rel)
	if err := os.MkdirAll(filepath.Join(home, "work"), 0o700); err != nil {
		panic(err)
	}
	r := run(home)
	r.Task, r.At = l.Task, 2
	h.sink(r)
}

func (h *hands) Stop(id taskstate.TaskID, _ taskstate.Reason) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = append(h.stopped, id)
}

func (h *hands) Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	h.adopted = tasks
	return nil
}

func (h *hands) Kept(ids []taskstate.TaskID) { h.kept = append(h.kept, ids...) }
func (h *hands) Live(taskstate.TaskID) (<-chan struct{}, int64, bool) {
	return nil, 0, false
}
func (h *hands) Clean(taskstate.JobID) error { return nil }
func (h *hands) Close() error                { return nil }
func (h *hands) Lasting() bool               { return true }

// scene is a peer with a saver, and others that keep files.
type scene struct {
	may func(*taskstate.Job, int64) error // what the owner lets be kept; nil: all
	*saver.Saver
	t      *testing.T
	net    *memnet.Network
	dir    string
	store  *store.Store
	hands  *hands
	others []taskstate.PeerID
	stores map[string]*store.Store

	mu  sync.Mutex
	got map[taskstate.TaskID][]taskstate.RunReport
}

// play runs a test in virtual time.
func play(t *testing.T, f func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, net: memnet.New(), dir: t.TempDir(), got: map[taskstate.TaskID][]taskstate.RunReport{}, stores: map[string]*store.Store{}}
		t.Cleanup(func() { _ = s.net.Close() })
		s.hands = &hands{dir: filepath.Join(s.dir, "tasks"), runs: map[taskstate.TaskID]func(string) taskstate.RunReport{}}
		s.store = s.openStore("self", 1<<30)
		s.begin()
		f(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (s *scene) openStore(name string, quota int64) *store.Store {
	s.t.Helper()
	st, err := store.Open(filepath.Join(s.dir, name), store.Config{Quota: quota, Leave: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	srv := blob.Serve(s.net.Host(name), blob.Shelved(st), blob.ServerConfig{})
	s.t.Cleanup(srv.Close)
	return st
}

// begin begins a life of the saver.
func (s *scene) begin() {
	s.t.Helper()
	sv, err := saver.New(saver.Config{
		MayKeep: s.mayKeep, Self: "self", Dir: s.hands.dir, Net: s.net.Host("self"), Store: func() *store.Store { return s.store }, Others: func(taskstate.PeerID) []taskstate.PeerID { return s.others },
		Sink: func(r taskstate.RunReport) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.got[r.Task] = append(s.got[r.Task], r)
		},
	}, func(sink func(taskstate.RunReport)) (saver.Runner, error) { s.hands.sink = sink; return s.hands, nil })
	if err != nil {
		s.t.Fatal(err)
	}
	s.Saver = sv
}

// keeper is one more peer that keeps files.
func (s *scene) keeper(name string, quota int64) {
	st := s.openStore(name, quota)
	srv := keep.Serve(s.net.Host(name), keep.ServerConfig{Self: name, Net: s.net.Host(name), Store: st, Stores: quota > 0})
	s.t.Cleanup(srv.Close)
	s.others, s.stores[name] = append(s.others, name), st
}

func (s *scene) reports(id taskstate.TaskID) []taskstate.RunReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got[id])
}

// end waits for a task's end and checks the way to it.
func (s *scene) end(id taskstate.TaskID) taskstate.RunReport {
	s.t.Helper()
	for range 1000 {
		got := s.reports(id)
		if len(got) > 0 && got[len(got)-1].State.Final() {
			for i, r := range got {
				if i > 0 && got[i-1].State >= r.State || r.Saved != nil && !r.State.Final() {
					s.t.Fatalf("reports %+v", got)
				}
			}
			return got[len(got)-1]
		}
		time.Sleep(time.Second)
	}
	s.t.Fatalf("%v does not end: %+v", id, s.reports(id))
	panic("")
}

// job is one whose tasks leave what these globs match.
func job(globs ...string) *taskstate.Job {
	j := &taskstate.Job{ID: "k3v5q7x2ab", Name: "t", Type: taskstate.BatchJob, Count: 100, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Submitter: "home"}
	if len(globs) > 0 {
		j.Outputs = &taskstate.Outputs{Globs: globs}
	}
	return j
}

// run has a task of the job leave files (below its work folder; the name "stdout" is its output),
// and end with an exit code.
func (s *scene) run(j *taskstate.Job, slot, exit int, files map[string]string) taskstate.TaskID {
	s.t.Helper()
	id := taskstate.Task(j.ID, slot, 1)
	s.hands.runs[id] = func(home string) taskstate.RunReport {
		for name, content := range files {
			path := filepath.Join(home, "work", name)
			if name == "stdout" {
				path = filepath.Join(home, name)
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
				s.t.Error(err)
			}
		}
		return ended(exit)
	}
	s.Start(taskstate.Launch{Task: id, Job: j})
	return id
}

func ended(exit int) taskstate.RunReport {
	r := taskstate.RunReport{State: taskstate.Complete, Exit: exit, Took: 77}
	if exit != 0 {
		r.State, r.Reason, r.Message = taskstate.Failed, taskstate.ReasonExit, fmt.Sprint("exit code ", exit)
	}
	return r
}

// holds lists what is in a tree of a store, if all of it is there.
func (s *scene) holds(st *store.Store, root piece.Root) string {
	s.t.Helper()
	if root.IsZero() {
		return ""
	}
	var out []string
	var totals tree.Totals
	for e, err := range blob.Entries(st, root, &totals) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Kind == tree.Dir {
			out = append(out, e.Path+"/")
			continue
		}
		if e.Kind == tree.Link {
			out = append(out, e.Path+"->"+e.Target)
			continue
		}
		r, err := st.Reader(e.Root)
		if err != nil {
			s.t.Fatal(err)
		}
		b := make([]byte, r.Size())
		if _, err := r.ReadAt(b, 0); err != nil && len(b) > 0 && r.Size() > 1<<20 {
			s.t.Fatal(err)
		}
		r.Close()
		out = append(out, e.Path+"="+string(b))
	}
	return strings.Join(out, " ")
}

func TestATaskIsCompleteWhenAnotherPeerHasWhatItLeft(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		s.keeper("home", 1<<30)
		j := job("out/**", "*.txt")
		id := s.run(j, 1, 0, map[string]string{"out/x/1": "one", "out/2": "two", "a.txt": "a", "b.bin": "no", "stdout": "said"})
		end := s.end(id)
		got := s.reports(id)
		if len(got) != 3 || got[1].State != taskstate.Saving || got[1].Took != 77 || got[1].At != 2 {
			t.Errorf("on the way: %+v", got)
		}
		if end.State != taskstate.Complete || end.Exit != 0 || end.Took != 77 || end.Message != "" || end.Saved == nil {
			t.Fatalf("%+v", end)
		}
		k := end.Saved
		if !slices.Equal(k.Keepers, []string{"self", "home"}) || k.Keep != 2 || k.Why != "" || k.Bytes != 7 || k.Files != 3 {
			t.Errorf("%+v", k)
		}
		for name, st := range map[string]*store.Store{"self": s.store, "home": s.stores["home"]} {
			if got, want := s.holds(st, k.Root), "a.txt=a out/ out/2=two out/x/ out/x/1=one"; got != want {
				t.Errorf("%s has %q", name, got)
			}
			if got := s.holds(st, k.Logs); got != "stdout=said" {
				t.Errorf("%s has the logs %q", name, got)
			}
			if p, ok := st.PinNamed(keep.PinName(id)); !ok || len(p.Roots) != 6 || p.Until.IsZero() != (name == "self") {
				t.Errorf("%s has the pin %+v", name, p)
			}
		}
		if s.stores["a"].Have(k.Root).Pieces != nil {
			t.Error("more keep it than were asked to")
		}
		// The same files have the same name, wherever and whenever.
		if again := s.end(s.run(j, 2, 0, map[string]string{"out/2": "two", "a.txt": "a", "out/x/1": "one", "stdout": ""})); again.Saved.Root != k.Root || !again.Saved.Logs.IsZero() {
			t.Errorf("%+v", again.Saved)
		}
	})
}

func TestJobsThatKeepNothingPassThrough(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		id := s.run(job(), 1, 0, map[string]string{"x": "x", "stdout": "said"})
		if got := s.reports(id); len(got) != 2 || got[1].State != taskstate.Complete || got[1].Saved != nil || got[1].At != 2 {
			t.Errorf("%+v", got)
		}
		logs := job()
		logs.KeepLogs = 2
		for slot, exit := range map[int]int{2: 0, 3: 3} { // logs of a task that failed are of most use
			end := s.end(s.run(logs, slot, exit, map[string]string{"x": "x", "stdout": "said"}))
			if k := end.Saved; end.Exit != exit || k == nil || !k.Root.IsZero() || k.Keep != 2 || len(k.Keepers) != 2 || s.holds(s.stores["a"], k.Logs) != "stdout=said" {
				t.Errorf("%+v, %+v", end, k)
			}
		}
		if s.Kept([]taskstate.TaskID{id}); !slices.Equal(s.hands.kept, []taskstate.TaskID{id}) {
			t.Errorf("kept %v", s.hands.kept)
		}
	})
}

// Case 5: a glob that matches nothing.
func TestAGlobWithoutMatchFailsATaskUnlessItsJobAllowsThat(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		files := map[string]string{"result.csv": "1", "tmp/x": "x", "sp ace": ""}
		end := s.end(s.run(job("out/*.png", "*.csv"), 1, 0, files))
		if end.State != taskstate.Failed || end.Reason != taskstate.ReasonNoOutput || end.Exit != 0 {
			t.Errorf("%+v", end)
		}
		for _, part := range []string{`"out/*.png"`, "result.csv", "tmp/", `"sp ace"`} {
			if !strings.Contains(end.Message, part) {
				t.Errorf("the message does not name %s: %s", part, end.Message)
			}
		}
		if strings.Contains(end.Message, `"*.csv"`) {
			t.Errorf("it names a glob that matches: %s", end.Message)
		}
		if k := end.Saved; k == nil || k.Keep != 1 || !slices.Equal(k.Keepers, []string{"self"}) || s.holds(s.store, k.Root) != "result.csv=1" {
			t.Errorf("what matches is not kept as a partial output: %+v", k)
		}
		empty := s.end(s.run(job("*"), 2, 0, nil))
		if empty.State != taskstate.Failed || empty.Saved != nil || !strings.Contains(empty.Message, "its folder is empty") {
			t.Errorf("%+v", empty)
		}
		for slot, missing := range map[int]taskstate.Missing{3: taskstate.MissingOK, 4: taskstate.MissingWarns} {
			j := job("out/*.png")
			j.Outputs.Missing = missing
			end := s.end(s.run(j, slot, 0, files))
			if end.State != taskstate.Complete || end.Saved != nil || (end.Message == "") != (missing == taskstate.MissingOK) {
				t.Errorf("%s: %+v", missing, end)
			}
		}
	})
}

func TestATaskWithoutAFolderLeavesNothing(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		for slot, missing := range map[int]taskstate.Missing{1: "", 2: taskstate.MissingOK} {
			j := job("*")
			j.Outputs.Missing = missing
			id := taskstate.Task(j.ID, slot, 1)
			s.hands.runs[id] = func(home string) taskstate.RunReport {
				if err := os.RemoveAll(home); err != nil {
					t.Error(err)
				}
				if slot == 2 { // as one whose folder was given to a later task
					if err := os.WriteFile(home, nil, 0o400); err != nil {
						t.Error(err)
					}
				}
				return ended(0)
			}
			s.Start(taskstate.Launch{Task: id, Job: j})
			if end := s.end(id); (end.State == taskstate.Complete) != (slot == 2) || end.Saved != nil {
				t.Errorf("%+v", end)
			}
		}
	})
}

// Case 6: a task that fails half way.
func TestWhatATaskThatFailedLeftIsKeptHereAndNowhereElse(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		end := s.end(s.run(job("out/*", "more"), 1, 3, map[string]string{"out/half": "half", "stdout": "so far"}))
		if end.State != taskstate.Failed || end.Exit != 3 || end.Reason != taskstate.ReasonExit || end.Message != "exit code 3" {
			t.Errorf("%+v", end)
		}
		if k := end.Saved; k == nil || k.Keep != 1 || len(k.Keepers) != 1 || s.holds(s.store, k.Root) != "out/ out/half=half" || s.holds(s.store, k.Logs) != "stdout=so far" {
			t.Errorf("%+v", k)
		}
		if end := s.end(s.run(job("out/*"), 2, 3, nil)); end.Saved != nil || end.Message != "exit code 3" {
			t.Errorf("%+v", end)
		}
	})
}

// Case 14: a keeper that is full gives way to another; with none there is one copy, and why.
func TestWhereNobodyHasRoomThereIsOneCopyAndTheReason(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("home", 4<<10)
		s.keeper("none", 0)
		s.keeper("b", 1<<30)
		big := map[string]string{"x": strings.Repeat("0123456789", 10_000)}
		end := s.end(s.run(job("*"), 1, 0, big))
		if k := end.Saved; end.State != taskstate.Complete || len(k.Keepers) != 2 || k.Keepers[1] != "b" || k.Why != "" {
			t.Errorf("%+v", k)
		}
		s.others = []taskstate.PeerID{"home", "none"}
		end = s.end(s.run(job("*"), 2, 0, big))
		if k := end.Saved; end.State != taskstate.Complete || end.Message != "" || len(k.Keepers) != 1 || k.Keep != 2 ||
			!strings.Contains(k.Why, "home: no room in the store") || !strings.Contains(k.Why, "none: it stores nothing for others") {
			t.Errorf("%+v", k)
		}
		s.others = nil
		began := time.Now()
		end = s.end(s.run(job("*"), 3, 0, map[string]string{"x": "alone"}))
		if k := end.Saved; end.State != taskstate.Complete || len(k.Keepers) != 1 || k.Keep != 2 || k.Why != "no other peer is here" || time.Since(began) > 2*time.Second {
			t.Errorf("%+v after %v", k, time.Since(began))
		}
		one := job("*")
		one.Outputs.Keep = 1
		s.others = []taskstate.PeerID{"b"}
		end = s.end(s.run(one, 4, 0, map[string]string{"x": "one is enough"}))
		if k := end.Saved; len(k.Keepers) != 1 || k.Keep != 1 || k.Why != "" {
			t.Errorf("%+v", k)
		}
		three := job("*")
		three.Outputs.Keep = 3
		s.keeper("c", 1<<30)
		end = s.end(s.run(three, 5, 0, map[string]string{"x": "three"}))
		if k := end.Saved; !slices.Equal(slices.Sorted(slices.Values(k.Keepers)), []string{"b", "c", "self"}) || k.Keepers[0] != "self" {
			t.Errorf("%+v", k)
		}
	})
}

// What one task leaves does not fill a store, nor go beyond what the machine's owner has kept of a
// key's tasks.
func TestWhatCannotBeKeptFailsWithItsReason(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.store = s.openStore("small", 1<<20)
		big := strings.Repeat("0123456789abcdef", 1<<17) // 2 MiB
		end := s.end(s.run(job("*"), 1, 0, map[string]string{"x": big}))
		if end.State != taskstate.Failed || end.Reason != taskstate.ReasonOutputLost || !strings.Contains(end.Message, "2.0 MiB") || !strings.Contains(end.Message, "1.0 MiB: give it more with `peer up --store SIZE`") {
			t.Errorf("%+v", end)
		}
		if end := s.end(s.run(job("*"), 2, 0, map[string]string{"x": "small"})); end.State != taskstate.Complete {
			t.Errorf("the next one: %+v", end)
		}
		s.may = func(_ *taskstate.Job, bytes int64) error {
			if bytes > 10 {
				return fmt.Errorf("the owner keeps 10, not %d", bytes)
			}
			return nil
		}
		end = s.end(s.run(job("*"), 3, 0, map[string]string{"x": "far too much for its owner"}))
		if end.State != taskstate.Failed || end.Reason != taskstate.ReasonOutputLost || !strings.Contains(end.Message, "the owner keeps 10, not 26") || end.Saved != nil {
			t.Errorf("%+v", end)
		}
		if end := s.end(s.run(job("*"), 4, 0, map[string]string{"x": "a little"})); end.State != taskstate.Complete {
			t.Errorf("the next one: %+v", end)
		}
	})
}

func (s *scene) mayKeep(j *taskstate.Job, bytes int64) error {
	if s.may == nil {
		return nil
	}
	return s.may(j, bytes)
}

// Case 16: a link that leads out.
func TestAnOutputThatLeadsOutIsRefusedAndNotRead(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("a", 1<<30)
		secret := filepath.Join(s.dir, "secret")
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		for slot, target := range map[int]string{1: secret, 2: "../../../../secret", 3: "/etc/passwd"} {
			j := job("out/*")
			id := taskstate.Task(j.ID, slot, 1)
			s.hands.runs[id] = func(home string) taskstate.RunReport {
				out := filepath.Join(home, "work", "out")
				if err := errors.Join(os.Mkdir(out, 0o700), os.Symlink(target, filepath.Join(out, "link")), os.WriteFile(filepath.Join(home, "stdout"), []byte("said"), 0o600)); err != nil {
					t.Error(err)
				}
				return ended(0)
			}
			s.Start(taskstate.Launch{Task: id, Job: j})
			end := s.end(id)
			if end.State != taskstate.Failed || end.Reason != taskstate.ReasonNoOutput || !strings.Contains(end.Message, "out/link") || !strings.Contains(end.Message, target) {
				t.Errorf("%+v", end)
			}
			if s.store.Have(piece.Sum([]byte("secret"))).Pieces != nil {
				t.Error("it was read")
			}
			if k := end.Saved; k == nil || k.Keep != 1 || !k.Root.IsZero() || s.holds(s.store, k.Logs) != "stdout=said" {
				t.Errorf("what it printed is not kept: %+v", k)
			}
		}
		// Inside it may lead to whatever is there, which comes along; a folder that is a link is
		// not entered.
		j := job("in/*", "way/*")
		j.Outputs.Missing = taskstate.MissingOK
		id := taskstate.Task(j.ID, 4, 1)
		s.hands.runs[id] = func(home string) taskstate.RunReport {
			work := filepath.Join(home, "work")
			if err := errors.Join(os.Mkdir(filepath.Join(work, "in"), 0o700), os.WriteFile(filepath.Join(work, "x"), []byte("there"), 0o600), os.Symlink("../x", filepath.Join(work, "in", "link")), os.Symlink(s.dir, filepath.Join(work, "way"))); err != nil {
				t.Error(err)
			}
			return ended(0)
		}
		s.Start(taskstate.Launch{Task: id, Job: j})
		if end := s.end(id); end.State != taskstate.Complete || s.holds(s.stores["a"], end.Saved.Root) != "in/ in/link->../x x=there" {
			t.Errorf("%+v", end)
		}
	})
}

func TestATaskThatIsStoppedWhileItIsSavedEndsAsThatAndKeepsWhatWasCollected(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("home", 1<<30)
		s.net.Delay(5 * time.Second)
		id := s.run(job("*"), 1, 0, map[string]string{"x": "x"})
		time.Sleep(time.Second)
		s.Stop(id, taskstate.ReasonCancelled)
		if len(s.hands.stopped) > 0 {
			t.Errorf("%v was stopped, which had ended", s.hands.stopped)
		}
		s.Stop(id, taskstate.ReasonDrained) // the first reason stands; the runner hears of it if the end was told already
		end := s.end(id)
		s.hands.stopped = nil
		if end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled || end.Exit != 0 || end.Took != 77 {
			t.Errorf("%+v", end)
		}
		if k := end.Saved; k == nil || k.Keep != 1 || s.holds(s.store, k.Root) != "x=x" {
			t.Errorf("%+v", k)
		}
		runs := taskstate.Task("k3v5q7x2ab", 2, 1)
		s.Start(taskstate.Launch{Task: runs, Job: job("*")})
		s.Stop(runs, taskstate.ReasonCancelled)
		if !slices.Equal(s.hands.stopped, []taskstate.TaskID{runs}) {
			t.Errorf("stopped %v", s.hands.stopped)
		}
		s.hands.sink(taskstate.RunReport{Task: runs, State: taskstate.Shutdown, Reason: taskstate.ReasonCancelled, Exit: taskstate.NoExit})
		if end := s.end(runs); end.State != taskstate.Shutdown || len(s.reports(runs)) != 2 {
			t.Errorf("%+v", s.reports(runs))
		}
		late := taskstate.Task("k3v5q7x2ab", 3, 1) // it had ended by itself before it heard of the stop
		s.Start(taskstate.Launch{Task: late, Job: job("*")})
		s.Stop(late, taskstate.ReasonCancelled)
		r := ended(0)
		r.Task = late
		s.hands.sink(r)
		if end := s.end(late); end.State != taskstate.Shutdown || end.Reason != taskstate.ReasonCancelled {
			t.Errorf("%+v", end)
		}
	})
}

func TestATaskThatIsCancelledWhileItRunsKeepsWhatItHasWritten(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("home", 1<<30)
		j := job("x")
		begin := func(slot int) taskstate.TaskID {
			id := taskstate.Task(j.ID, slot, 1)
			rel, err := id.Folder()
			if err != nil {
				t.Fatal(err)
			}
			work := filepath.Join(s.hands.dir, rel, "work")
			if err := errors.Join(os.MkdirAll(work, 0o700), os.WriteFile(filepath.Join(work, "x"), []byte("half"), 0o600)); err != nil {
				t.Fatal(err)
			}
			s.Start(taskstate.Launch{Task: id, Job: j})
			return id
		}
		ends := func(id taskstate.TaskID, state taskstate.State, why taskstate.Reason) taskstate.RunReport {
			s.hands.sink(taskstate.RunReport{Task: id, State: state, Reason: why, Exit: taskstate.NoExit, Message: "as it ended"})
			s.Stop(id, taskstate.ReasonCancelled) // again, which changes nothing
			return s.end(id)
		}
		for slot, c := range []struct {
			stop, why taskstate.Reason
			state     taskstate.State
			keeps     bool
		}{
			{"", taskstate.ReasonCancelled, taskstate.Shutdown, true}, // an earlier life was asked to stop it
			{taskstate.ReasonCancelled, taskstate.ReasonCancelled, taskstate.Shutdown, true},
			{taskstate.ReasonCancelled, taskstate.ReasonExit, taskstate.Failed, true}, // by itself, before
			{taskstate.ReasonDrained, taskstate.ReasonDrained, taskstate.Shutdown, false},
			{taskstate.ReasonCancelled, taskstate.ReasonInterrupted, taskstate.Orphaned, false},
		} {
			id := begin(slot + 1)
			if c.stop != "" {
				s.Stop(id, c.stop)
			}
			end := ends(id, c.state, c.why)
			if end.State != c.state || end.Reason != c.why || end.Message != "as it ended" || len(s.reports(id)) != 2 {
				t.Errorf("%+v", s.reports(id))
			}
			if k := end.Saved; (k != nil) != c.keeps || k != nil && (k.Keep != 1 || len(k.Keepers) != 1 || s.holds(s.store, k.Root) != "x=half") {
				t.Errorf("%+v: %+v", c, k)
			}
		}
	})
}

// Case 29, at this peer: what is cut off meanwhile is told once, with all copies there are.
func TestAKeeperThatIsCutOffGivesWayToAnother(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("home", 1<<30)
		s.keeper("b", 1<<30)
		s.net.Cut("self", "home")
		end := s.end(s.run(job("*"), 1, 0, map[string]string{"x": "x"}))
		if k := end.Saved; end.State != taskstate.Complete || len(k.Keepers) != 2 || k.Keepers[1] != "b" {
			t.Errorf("%+v", k)
		}
		s.net.Heal()
		s.net.Kill("b")
		began := time.Now()
		time.Sleep(time.Minute) // home is asked again by then
		end = s.end(s.run(job("*"), 2, 0, map[string]string{"x": "y"}))
		if k := end.Saved; len(k.Keepers) != 2 || k.Keepers[1] != "home" {
			t.Errorf("%+v after %v", k, time.Since(began))
		}
	})
}

func TestAPeerThatRestartsSavesAgainAndRunsNothing(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("home", 1<<30)
		s.net.Delay(5 * time.Second)
		j := job("*")
		good := s.run(j, 1, 0, map[string]string{"x": "x"})
		bad := s.run(j, 2, 3, map[string]string{"y": "y"})
		s.end(bad)
		time.Sleep(time.Second)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		got := s.reports(good)
		if len(got) != 2 || got[1].State != taskstate.Saving {
			t.Fatalf("%+v", got)
		}
		s.net.Delay(0)
		again := s.reports(bad)[1]
		s.got = map[taskstate.TaskID][]taskstate.RunReport{}
		s.begin()
		runs := taskstate.Launch{Task: taskstate.Task(j.ID, 3, 1), Job: j}
		lost := s.Adopt([]taskstate.Launch{{Task: good, Job: j, Ended: &got[1]}, {Task: bad, Job: j, Ended: &again}, runs})
		if len(lost) > 0 || len(s.hands.adopted) != 1 || s.hands.adopted[0].Task != runs.Task {
			t.Fatalf("lost %v, adopted %v", lost, s.hands.adopted)
		}
		if end := s.end(good); end.State != taskstate.Complete || len(end.Saved.Keepers) != 2 || end.Took != 77 || len(s.reports(good)) != 1 {
			t.Errorf("%+v", s.reports(good))
		}
		if end := s.end(bad); end.State != taskstate.Failed || end.Exit != 3 || end.Saved.Keep != 1 {
			t.Errorf("%+v", end)
		}
		r := ended(0)
		r.Task = runs.Task
		s.hands.sink(r)
		if end := s.end(runs.Task); end.Reason != taskstate.ReasonNoOutput {
			t.Errorf("%+v", end)
		}
	})
}

func TestThousandsOfSmallOutputsAreSavedSideBySide(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.keeper("home", 1<<30)
		s.net.Delay(10 * time.Millisecond)
		const n = 1000
		j := job("*")
		began := time.Now()
		var ids []taskstate.TaskID
		for slot := 1; slot <= n; slot++ {
			ids = append(ids, s.run(j, slot, 0, map[string]string{"x": fmt.Sprint("of ", slot%50), "stdout": fmt.Sprint(slot)}))
		}
		for _, id := range ids {
			if end := s.end(id); end.State != taskstate.Complete || len(end.Saved.Keepers) != 2 {
				t.Fatalf("%+v, %+v", end, end.Saved)
			}
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

func TestThereIsNoGoroutineOnceAllIsOver(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Host("home").Handle(keep.Protocol, nil)
		s.others = []taskstate.PeerID{"home", "nobody"}
		id := s.run(job("*"), 1, 0, map[string]string{"x": "x"})
		if end := s.end(id); len(end.Saved.Keepers) != 1 || end.Saved.Why == "" {
			t.Errorf("%+v", end)
		}
		// Close, which play calls, waits for what there is, and the bubble for everything else.
	})
}
