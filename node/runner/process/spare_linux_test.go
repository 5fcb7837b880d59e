package process

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// homeOf is the folder, or the name, of a slot's first attempt.
func (h *harness) homeOf(slot int) string {
	return filepath.Dir(h.path(taskstate.Task(testJob, slot, 1), WorkName))
}

// through runs a line as a slot and waits for its end.
func (h *harness) through(slot int, line string, a ...any) {
	h.t.Helper()
	l := launch(shell(line, a...), slot)
	h.Start(l)
	if end := h.end(l.Task); end.State != taskstate.Complete {
		h.t.Fatalf("%+v", end)
	}
}

// spares counts the folders that wait for another task.
func (h *harness) spares() int {
	h.spare.mu.Lock()
	defer h.spare.mu.Unlock()
	return len(h.spare.homes)
}

func stat(t testing.TB, path string) os.FileInfo {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestTheNextTaskGetsTheFolderOfOneThatLeftNothingAndItsFiles(t *testing.T) {
	h := start(t, nil)
	h.through(1, "true")
	var before []os.FileInfo
	names := []string{".", WorkName, "stdout", "stderr"}
	for _, name := range names {
		before = append(before, stat(t, filepath.Join(h.homeOf(1), name)))
	}
	h.through(2, "echo out; echo err >&2; pwd > file")
	for i, name := range names {
		if !os.SameFile(before[i], stat(t, filepath.Join(h.homeOf(2), name))) {
			t.Errorf("%s is another", name)
		}
	}
	two := taskstate.Task(testJob, 2, 1)
	if h.file(two, "stdout") != "out\n" || h.file(two, "stderr") != "err\n" || h.file(two, "work/file") != filepath.Join(h.homeOf(2), WorkName)+"\n" {
		t.Error("the second task's files are not as it left them")
	}
	if !os.SameFile(stat(t, h.homeOf(1)), stat(t, filepath.Join(h.dir, nothingFile))) {
		t.Error("nothing tells that the first task was here and left nothing")
	}
	h.through(3, "true")
	if !stat(t, h.homeOf(2)).IsDir() {
		t.Error("the folder of a task that left something was given away")
	}
}

func TestATaskWithoutFilesOfOthersGetsTheFolderOfOneLikeIt(t *testing.T) {
	h, _ := boxed(t)
	if !h.boxes.holds.Files {
		t.Skip("no landlock here")
	}
	closed := taskstate.Confinement{As: as(), Isolate: taskstate.IsolateFS, Ours: true}
	h.under(closed, 0, "echo x >$TMPDIR/x; rm $TMPDIR/x")
	if h.spares() != 1 {
		t.Error("its folder is given to nobody")
	}
	h.under(taskstate.Confinement{As: as(), Ours: true}, 1, "true")
	if h.spares() != 2 {
		t.Error("its folder was given to a task of another kind")
	}
	if _, end := h.under(closed, 2, "touch $TMPDIR/left"); end.State != taskstate.Complete || h.spares() != 1 {
		t.Errorf("%v, %d folders are given to others, one of them with a file in it", end.State, h.spares())
	}
}

func TestATaskGetsNoFolderOfAnotherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root starts tasks as others")
	}
	h, _ := boxed(t)
	if h.boxes.users == nil {
		t.Skip("tasks have no users of their own here")
	}
	h.under(taskstate.Confinement{As: taskstate.AsDynamic}, 0, "true")
	if h.spares() != 1 {
		t.Fatal("its folder is given to nobody")
	}
	task, end := h.under(taskstate.Confinement{As: taskstate.AsSelf, Ours: true}, 1, "id -u; stat -c %%u . ../stdout")
	if out := h.said(task, "stdout"); end.State != taskstate.Complete || out != "0\n0\n0\n" {
		t.Errorf("%v: what root runs is in %q", end.State, out)
	}
}

func TestAFolderInWhichSomethingIsLeftIsNotGivenAway(t *testing.T) {
	h := start(t, nil)
	for i, line := range []string{
		"touch kept", "mkdir .hidden", "chmod 0755 .", "rmdir $PWD; ln -s / $PWD", "echo out", "echo err >&2", "touch ../more", "mkdir ../more",
		"chmod 0700 ../stdout", "chmod 0755 ..", "ln ../stderr ../../linked", "rm ../stderr", "rm ../stdout; ln -s /dev/null ../stdout",
	} {
		h.through(i+1, "%s", line)
		if h.spares() != 0 {
			t.Fatalf("%q left a folder that another task would get", line)
		}
	}
	h.through(50, "true")
	if h.spares() != 1 {
		t.Error("a folder that is as it was made is not given to another")
	}
}

func TestAPipeInPlaceOfOutputIsNeitherGivenAwayNorWaitedFor(t *testing.T) {
	home := filepath.Join(t.TempDir(), "job", "1.1")
	r := &Executor{}
	if err := r.freshFolder(home, kind{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range supervise.Streams() {
		if err := syscall.Mkfifo(filepath.Join(home, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if asNew(home, kind{}) {
		t.Error("another task would write into a pipe")
	}
}

func TestOutputThatSomebodyHasOpenIsNotGivenAway(t *testing.T) {
	h := start(t, nil)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for i, mode := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
		for j, name := range supervise.Streams() {
			l := launch(shell("read line < %s", fifo), 10*i+j+1)
			h.Start(l)
			h.running(l.Task)
			f, err := os.OpenFile(h.path(l.Task, name), mode, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(fifo, []byte("go on\n"), 0); err != nil {
				t.Fatal(err)
			}
			h.end(l.Task)
			if h.spares() != 0 {
				t.Errorf("%s is open with mode %d, and another task would get it", name, mode)
			}
			_ = f.Close()
		}
	}
}

func TestATaskStartedAgainHasItsFolderForItself(t *testing.T) {
	h := start(t, nil)
	h.through(1, "true")
	h.mu.Lock()
	clear(h.got)
	h.mu.Unlock()
	h.through(1, "echo again")
	if h.file(taskstate.Task(testJob, 1, 1), "stdout") != "again\n" || h.spares() != 0 {
		t.Error("its folder waits for another task")
	}
}

func TestFoldersOfAJobThatIsCleanedAwayAreNotGivenToOthers(t *testing.T) {
	h := start(t, nil)
	h.through(1, "true")
	if err := h.Clean(testJob); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(h.homeOf(1)); err == nil || h.spares() != 0 {
		t.Error("something is left of the job")
	}
	h.through(2, "true")
}

func TestWithoutTheFileOfNothingAnotherOneIsMade(t *testing.T) {
	h := start(t, nil)
	for slot := 1; slot <= 3; slot++ {
		h.through(slot, "true")
		_ = os.Remove(filepath.Join(h.dir, nothingFile))
	}
	for slot := 1; slot <= 2; slot++ {
		if st := stat(t, h.homeOf(slot)); !st.Mode().IsRegular() || st.Size() != 0 {
			t.Errorf("slot %d: %v", slot, st.Mode())
		}
	}
}

// attempts is a tasks folder and what should be in it.
type attempts struct {
	r    *Executor
	live []string
	kind map[string]kind   // of those
	over map[string]string // what its output is
	next int
}

func (a *attempts) begin(rt *rapid.T) {
	a.next++
	home := filepath.Join(a.r.cfg.Dir, fmt.Sprintf("job%d", rapid.IntRange(1, 3).Draw(rt, "job")), fmt.Sprintf("%d.1", a.next))
	if len(a.over) > 0 && rapid.IntRange(0, 3).Draw(rt, "again") == 0 {
		home = rapid.SampledFrom(sortedKeys(a.over)).Draw(rt, "which")
		delete(a.over, home)
	}
	k := kind{temp: rapid.Bool().Draw(rt, "temp")}
	if rapid.Bool().Draw(rt, "user") {
		k.user = sandbox.User{UID: 1, GID: 1}
	}
	if err := a.r.freshFolder(home, k); err != nil {
		rt.Fatal(err)
	}
	if st, err := os.Lstat(home); err != nil || st.Mode().Perm() == 0o711 && k.user.UID == 0 {
		rt.Fatalf("%s is another user's: %v", home, err)
	}
	if k.user.UID != 0 { // as it is handed over
		if err := os.Chmod(home, 0o711); err != nil {
			rt.Fatal(err)
		}
	}
	for _, name := range supervise.Streams() { // as the keeper does
		f, err := os.OpenFile(filepath.Join(home, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			rt.Fatal(err)
		}
		_ = f.Close()
	}
	a.kind[home] = k
	if !asNew(home, k) {
		rt.Fatalf("%s begins with what another left", home)
	}
	a.live = append(a.live, home)
}

func (a *attempts) end(rt *rapid.T) {
	if len(a.live) == 0 {
		return
	}
	i := rapid.IntRange(0, len(a.live)-1).Draw(rt, "ends")
	home := a.live[i]
	a.live = append(a.live[:i], a.live[i+1:]...)
	a.over[home] = rapid.SampledFrom([]string{"", "", home}).Draw(rt, "output")
	if err := os.WriteFile(filepath.Join(home, "stdout"), []byte(a.over[home]), 0o600); err != nil {
		rt.Fatal(err)
	}
	if a.r.spare.offer(home, a.kind[home]) != (a.over[home] == "") {
		rt.Fatalf("%s with output %q", home, a.over[home])
	}
}

func (a *attempts) clean(rt *rapid.T) {
	dir := filepath.Join(a.r.cfg.Dir, fmt.Sprintf("job%d", rapid.IntRange(1, 3).Draw(rt, "job")))
	for _, home := range a.live {
		if filepath.Dir(home) == dir {
			return
		}
	}
	a.r.spare.forget(dir)
	if err := RemoveTree(dir); err != nil {
		rt.Fatal(err)
	}
	for home := range a.over {
		if filepath.Dir(home) == dir {
			delete(a.over, home)
		}
	}
}

// check: nobody's folder is another's, and the output of what is over is what it was.
func (a *attempts) check(rt *rapid.T) {
	seen := map[uint64]string{}
	for _, home := range a.live {
		st, err := os.Lstat(home)
		if err != nil || !st.IsDir() {
			rt.Fatalf("%s runs without a folder: %v", home, err)
		}
		ino := st.Sys().(*syscall.Stat_t).Ino
		if seen[ino] != "" {
			rt.Fatalf("%s and %s have the same folder", home, seen[ino])
		}
		seen[ino] = home
	}
	for home, out := range a.over {
		if _, err := os.Lstat(home); err != nil {
			rt.Fatalf("nothing tells of %s: %v", home, err)
		}
		if got, err := os.ReadFile(filepath.Join(home, "stdout")); string(got) != out || out != "" && err != nil {
			rt.Fatalf("output of %s: %q, %v", home, got, err)
		}
	}
}

func TestWhateverComesAndGoesEveryTaskHasAFolderOfItsOwnAndKeepsWhatItWrote(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(root, "tasks-")
		if err != nil {
			rt.Fatal(err)
		}
		a := &attempts{r: &Executor{cfg: Config{Dir: dir}, spare: spare{dir: dir}}, kind: map[string]kind{}, over: map[string]string{}}
		rt.Repeat(map[string]func(*rapid.T){"begin": a.begin, "end": a.end, "clean": a.clean, "": a.check})
	})
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
