package process

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coveyproject/covey/taskstate"
)

// asSomebody runs the calling test once more as a user that is not root, as most peers are run.
func asSomebody(t *testing.T) (here bool) {
	if os.Geteuid() != 0 {
		return true
	}
	dir, err := os.MkdirTemp("/var/tmp", "covey-test-") // below folders that everybody may pass
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	program := filepath.Join(dir, "process.test")
	if err := copyProgram(program); err != nil {
		t.Fatal(err)
	}
	const somebody = 1234
	for _, p := range []string{dir, program} {
		if err := os.Chown(p, somebody, somebody); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("as user %d: %v\n%s", somebody, err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("as user %d: %s", somebody, out)
	}
	return false
}

func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	return f.Close()
}

// boxed is an executor in a data folder with what a peer has there.
func boxed(t *testing.T, change ...func(*Config)) (h *harness, data string) {
	t.Helper()
	root, err := os.MkdirTemp("", "box") // its sockets have short paths
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	data = filepath.Join(root, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"identity.key", "policy.yaml"} {
		if err := os.WriteFile(filepath.Join(data, name), []byte("the secret of this peer"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(data, "peer.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	h = start(t, func(c *Config) {
		c.Dir = filepath.Join(data, "tasks")
		c.Environ = append(c.Environ, "HOME="+filepath.Dir(data))
		c.Sandbox = &Sandbox{Hide: []string{data}, Show: []string{socket}, Users: filepath.Join(data, "task-users")}
		for _, f := range change {
			f(c)
		}
	})
	if !h.boxes.holds.Mounts {
		t.Skip("folders cannot be hidden here: " + h.boxes.holds.Why)
	}
	return h, data
}

// Attack (e).
func TestATaskReachesNeitherItsPeersFilesNorItsPeerNorOtherTasks(t *testing.T) {
	attack(t)
}

// Attack (e), but that what runs as the same user outside of every sandbox may be asked for help.
func TestATaskOfAnotherUsersPeerReachesNeitherItsPeersFilesNorItsPeer(t *testing.T) {
	if asSomebody(t) {
		attack(t)
	}
}

func attack(t *testing.T) {
	h, data := boxed(t)
	victim := launch(shell("echo mine > file; sleep 1000"), 2)
	other := *victim.Job
	other.ID, other.Submitter = taskstate.NewJobID(), "another"
	victim.Job, victim.Task = &other, taskstate.Task(other.ID, 2, 1)
	h.Start(victim)
	h.running(victim.Task)
	for name, line := range map[string]string{
		"the key":                fmt.Sprintf("cat %s/identity.key", data),
		"the policy":             fmt.Sprintf("cat %s/policy.yaml", data),
		"the key, by /proc":      fmt.Sprintf("cat /proc/%d/root%s/identity.key", os.Getpid(), data),
		"the key, by cwd":        fmt.Sprintf("cat /proc/%d/cwd/../data/identity.key", h.supervisor()),
		"a new key":              fmt.Sprintf("echo mine > %s/identity.key", data),
		"a new file":             fmt.Sprintf("echo mine > %s/new", data),
		"another task's folder":  fmt.Sprintf("ls %s", h.path(victim.Task, "work")),
		"another task's output":  fmt.Sprintf("cat %s", h.path(victim.Task, "stdout")),
		"the memory of the peer": fmt.Sprintf("head -c 1 /proc/%d/maps", os.Getpid()),
		"its open files":         fmt.Sprintf("readlink /proc/%d/fd/1", os.Getpid()),
		"the supervisor's files": fmt.Sprintf("readlink /proc/%d/fd/1", h.supervisor()),
		"to be root again":       "unshare -m umount " + data,
	} {
		job := shell("%s && echo reached", line)
		job.ID = taskstate.NewJobID()
		task, end := h.run(job)
		if end.State != taskstate.Failed || strings.Contains(h.file(task, "stdout"), "reached") {
			t.Errorf("%s: %v %s\n%s", name, end.State, h.file(task, "stdout"), h.file(task, "stderr"))
		}
		h.forgetFolder(job.ID)
	}
	h.Stop(victim.Task, taskstate.ReasonCancelled)
	h.end(victim.Task)
}

func (h *harness) forgetFolder(job taskstate.JobID) {
	if err := h.Clean(job); err != nil {
		h.t.Error(err)
	}
}

// supervisor is the process that owns the tasks.
func (h *harness) supervisor() (pid int) {
	out, _ := exec.Command("pgrep", "-f", "supervise "+h.dir+"$").Output()
	_, _ = fmt.Sscan(string(out), &pid)
	if pid == 0 {
		h.t.Fatal("no supervisor to be found")
	}
	return pid
}

func TestATaskFindsItsFolderAndItsHomeAndMayOpenItsOutputOnceMore(t *testing.T) {
	works(t)
}

func TestATaskOfAnotherUsersPeerWritesWhereThatUserDoes(t *testing.T) {
	if asSomebody(t) {
		works(t)
	}
}

func works(t *testing.T) {
	h, data := boxed(t)
	script := process(taskstate.Process{Script: []byte("#!/bin/sh\nset -e\n" +
		"echo one >file; test $(cat file) = one; mkdir a b; mv file a/; mv a/file b/; ln b/file a/\n" +
		"echo new >$HOME/new; test $(cat $HOME/new) = new; rm $HOME/new\n" +
		"mkdir $HOME/made; echo x >$HOME/made/y; cat $HOME/made/y >/dev/null; rm -r $HOME/made\n" +
		"test -d $PWD; cd ..; cd work; echo out >/dev/stdout; echo err >/dev/stderr; echo tmp >/tmp/covey-$$; rm /tmp/covey-$$\n" +
		"test -S " + data + "/peer.sock; grep -q 'NoNewPrivs:.1' /proc/self/status; echo done\n")})
	task, end := h.run(script)
	if out := h.file(task, "stdout"); end.State != taskstate.Complete || out != "out\ndone\n" {
		t.Errorf("%v %s\n%s%s", end.State, end.Message, out, h.file(task, "stderr"))
	}
}

func TestEverySubmitterHasAUserOfItsOwnThatStaysTheSame(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("other users' processes take root")
	}
	path := filepath.Join(t.TempDir(), "task-users")
	u, err := openUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]string{}
	for i := range 40 {
		who := fmt.Sprint("submitter ", i)
		user, err := u.of(who)
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[user.UID]; taken {
			t.Fatalf("%s and %s are the same user", who, other)
		}
		seen[user.UID] = who
	}
	again, err := openUsers(path)
	if err != nil {
		t.Fatal(err)
	}
	for uid, who := range seen {
		if user, err := again.of(who); err != nil || user.UID != uid {
			t.Errorf("%s: %v %v, was %d", who, user, err, uid)
		}
	}
}

// said is what a task printed; nothing if its folder was needed again.
func (h *harness) said(id taskstate.TaskID, name string) string {
	b, _ := os.ReadFile(h.path(id, name))
	return string(b)
}

// under runs a line under a confinement.
func (h *harness) under(c taskstate.Confinement, n int, line string, a ...any) (taskstate.TaskID, taskstate.RunReport) {
	job := shell(line, a...)
	job.ID = testJob + taskstate.JobID(fmt.Sprintf("u%d", n))
	l := launch(job, 1)
	l.Confinement = &c
	h.Start(l)
	return l.Task, h.end(l.Task)
}

// Attack (l).
func TestATaskWithoutANetworkConnectsToNothingNotEvenThisMachine(t *testing.T) {
	withoutNet(t)
}

// Attack (l).
func TestATaskOfAnotherUsersPeerWithoutANetworkConnectsToNothing(t *testing.T) {
	if asSomebody(t) {
		withoutNet(t)
	}
}

func TestWhatAnOwnerRunsAsThemselfSeesItsLikeAndStillNotThePeersFiles(t *testing.T) {
	if !asSomebody(t) {
		return
	}
	h, data := boxed(t)
	other := launch(shell("echo mine > file; sleep 1000"), 2)
	h.Start(other)
	h.running(other.Task)
	for n := range 6 { // also by threads that have run others
		ours := n%2 == 0
		c := taskstate.Confinement{As: taskstate.AsSelf, Ours: ours}
		task, end := h.under(c, 2*n, "ls %s", h.path(other.Task, "work"))
		if (end.State == taskstate.Complete) != ours {
			t.Errorf("ours: %v, and another task's folder: %v\n%s", ours, end.State, h.said(task, "stderr"))
		}
		if task, end = h.under(c, 2*n+1, "cat %s/identity.key || cat %s/policy.yaml", data, data); end.State != taskstate.Failed {
			t.Errorf("ours: %v, and it read of its peer: %s", ours, h.said(task, "stdout"))
		}
	}
	h.Stop(other.Task, taskstate.ReasonCancelled)
	h.end(other.Task)
}

// as is the user that tasks are by default.
func as() string {
	if os.Geteuid() == 0 {
		return taskstate.AsDynamic
	}
	return taskstate.AsSelf
}

func withoutNet(t *testing.T) {
	h, _ := boxed(t)
	if !h.boxes.holds.Net {
		t.Skip("no task can be without a network here")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for i := range 3 { // threads that have run others are at hand
		h.under(taskstate.Confinement{As: as()}, 20+i, "true")
	}
	connect := "exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + port + "'"
	if _, end := h.under(taskstate.Confinement{As: as()}, 0, "%s", connect); end.State != taskstate.Complete {
		t.Fatalf("with a network: %+v", end)
	}
	abstract, err := net.Listen("unix", "@covey-test-"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	reach := "grep -q @covey-test-" + port + " /proc/net/unix"
	for i, ours := range []bool{false, true, false, true} { // what was made for one is another's
		for j, line := range []string{connect, reach} {
			if _, end := h.under(taskstate.Confinement{As: as(), Net: taskstate.NetNone, Ours: ours}, 30+4*i+j, "%s", line); end.State != taskstate.Failed {
				t.Errorf("without, ours %v, %s: %+v", ours, line, end)
			}
			if _, end := h.under(taskstate.Confinement{As: as(), Ours: ours}, 32+4*i+j, "%s", line); end.State != taskstate.Complete {
				t.Errorf("after one without, ours %v, %s: %+v", ours, line, end)
			}
		}
	}
}

func TestATaskWithoutFilesOfOthersReadsTheSystemAndWhatIsNamedAndWritesItsFolder(t *testing.T) {
	withoutFiles(t)
}

func TestATaskOfAnotherUsersPeerWithoutFilesOfOthersReadsTheSystemAndWhatIsNamed(t *testing.T) {
	if asSomebody(t) {
		withoutFiles(t)
	}
}

func withoutFiles(t *testing.T) {
	h, _ := boxed(t)
	if !h.boxes.holds.Files {
		t.Skip("no landlock here")
	}
	dir := taskFolder(t)
	for _, name := range []string{"named/file", "other/file"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 { // threads that have run others are at hand
		h.under(taskstate.Confinement{As: as()}, 20+i, "true")
	}
	c := taskstate.Confinement{As: as(), Isolate: taskstate.IsolateFS, Read: []string{dir + "/named"}}
	n := 0
	for line, good := range map[string]bool{
		"cat " + dir + "/named/file": true, "cat " + dir + "/other/file": false, "echo x >" + dir + "/named/new": false, "echo x >" + dir + "/other/new": false,
		"echo x >new; mkdir d; mv new d/; cat d/new >/dev/stderr": true, "echo x >$HOME/x; mktemp": true, "cat /etc/passwd": true, "echo x >/tmp/covey-new": false, "kill -0 " + fmt.Sprint(os.Getpid()): false,
	} {
		task, end := h.under(c, n, "set -e; %s", line)
		n++
		if (end.State == taskstate.Complete) != good {
			t.Errorf("%s: %v %s %s", line, end.State, end.Message, h.said(task, "stderr"))
		}
		h.forgetFolder(task.Job)
	}
	c.Ours = true
	other := launch(shell("echo mine > file; sleep 1000"), 2)
	other.Confinement = &c
	h.Start(other)
	h.running(other.Task)
	for i := range 2 { // they have the same mounts, and yet
		for j, line := range []string{"ls %s", "echo x >%s/new", "cat %s/../stdout"} {
			task, end := h.under(c, 40+3*i+j, line, h.path(other.Task, "work"))
			if end.State != taskstate.Failed {
				t.Errorf("%s: %v %s", line, end.State, h.said(task, "stdout"))
			}
			h.forgetFolder(task.Job)
		}
	}
	h.Stop(other.Task, taskstate.ReasonCancelled)
	h.end(other.Task)
}

// Rules on files have no say in who connects to a socket: it must not be there.
func TestAnIsolatedTaskFindsNoSocketsOfOthers(t *testing.T) {
	noSockets(t)
}

func TestAnIsolatedTaskOfAnotherUsersPeerFindsNoSocketsOfOthers(t *testing.T) {
	if asSomebody(t) {
		noSockets(t)
	}
}

func noSockets(t *testing.T) {
	h, data := boxed(t)
	if closes, why := h.Closes(); !closes {
		t.Skip(why)
	}
	named, linked := taskFolder(t), taskFolder(t)
	if err := os.Symlink(named, linked+"/link"); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("covey-test-%d.sock", os.Getpid())
	listening := func(dir string) string {
		path := filepath.Join(dir, name)
		l, err := net.Listen("unix", path)
		if err != nil {
			return "" // of a folder that is not there, or another user's
		}
		t.Cleanup(func() { _ = l.Close() })
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		return path
	}
	sees := func(c taskstate.Confinement, n int, path string) bool {
		t.Helper()
		task, end := h.under(c, n, "test -S %s && echo seen; true", path)
		if end.State != taskstate.Complete {
			t.Fatalf("%+v: %s %s", c, end.Message, h.said(task, "stderr"))
		}
		return h.said(task, "stdout") == "seen\n"
	}
	isolated := []taskstate.Confinement{
		{As: as(), Isolate: taskstate.IsolateFS},
		{As: as(), Isolate: taskstate.IsolateFS, Ours: true},
		{As: as(), Isolate: taskstate.IsolateFS, Net: taskstate.NetNone},
		{As: taskstate.AsSelf, Isolate: taskstate.IsolateFS, Without: []string{taskstate.WithoutHide}},
	}
	if strong, _ := h.Strong(); strong {
		isolated = append(isolated, taskstate.Confinement{As: as(), Isolate: taskstate.IsolateStrong})
	}
	n := 0
	for _, dir := range []string{"/tmp", "/var/tmp", "/run", "/home", "/srv", "/dev/shm", named} {
		path := listening(dir)
		if path == "" {
			continue
		}
		if n++; !sees(taskstate.Confinement{As: as()}, 100*n, path) {
			t.Errorf("%s: a task that is not isolated does not see it", path)
		}
		for i, c := range isolated {
			if sees(c, 100*n+2*i+1, path) {
				t.Errorf("%+v sees %s", c, path)
			}
			c.Read = []string{named}
			if sees(c, 100*n+2*i+2, path) != (dir == named) {
				t.Errorf("%+v does not see what was named, or more: %s", c, path)
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d sockets were tried", n)
	}
	c := taskstate.Confinement{As: as(), Isolate: taskstate.IsolateFS, Read: []string{linked + "/link", filepath.Dir(data)}}
	if !sees(c, 1, filepath.Join(linked, "link", name)) {
		t.Error("by a link that was named it sees nothing")
	}
	if _, end := h.under(c, 2, "cat %s/identity.key", data); end.State != taskstate.Failed {
		t.Error("the folder around its peer's was named, and it read the key")
	}
}

func TestWhatGaveUpItsMarkEndsWithItsTaskAndADaemonOfOneThatRunsDoesNot(t *testing.T) {
	for _, program := range []string{"setsid", "prlimit"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	h := start(t, func(*Config) {})
	dir := taskFolder(t)
	daemon := func(name, as string) string { // begins one that no process of its task is above
		return fmt.Sprintf("(setsid env -i PATH=\"$PATH\" %s sh -c 'echo $$ >%s/%s.new; mv %s/%[3]s.new %[2]s/%[3]s; exec sleep 1000' >/dev/null 2>&1 &); until [ -s %[2]s/%[3]s ]; do sleep 0.01; done; ", as, dir, name, dir)
	}
	pidOf := func(name string) (pid int) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscan(string(b), &pid)
		return pid
	}
	other := launch(shell("%s exec sleep 1000", daemon("kept", "")), 2)
	h.Start(other)
	h.running(other.Task)
	_, end := h.under(taskstate.Confinement{As: taskstate.AsSelf, Ours: true}, 1, "%s", daemon("fled", "prlimit --rttime=unlimited:unlimited")+"exit 3")
	if end.State != taskstate.Failed {
		t.Fatalf("%+v", end)
	}
	if err := exec.Command("sh", "-c", "while kill -0 $1; do sleep 0.05; done", "sh", fmt.Sprint(pidOf("fled"))).Run(); err != nil {
		t.Fatal(err)
	}
	if syscall.Kill(pidOf("kept"), 0) != nil {
		t.Fatal("the daemon of a task that runs was ended")
	}
	h.Stop(other.Task, taskstate.ReasonCancelled)
	h.end(other.Task)
}

// taskFolder is a folder that tasks reach: they are other users' where root runs the tests.
func taskFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "covey-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Attack (n): the trial of a kernel without landlock shows what this one's is made to show.
func TestATaskThatMustNotRunWithoutWhatDoesNotHoldHereIsRejected(t *testing.T) {
	h, _ := boxed(t)
	h.boxes.holds.Files, h.boxes.holds.Net, h.boxes.holds.Groups, h.boxes.holds.Limits, h.boxes.holds.Apart = false, false, false, false, false
	for n, c := range []taskstate.Confinement{
		{Require: []string{taskstate.RequireLandlock}},
		{Isolate: taskstate.IsolateFS},
		{Net: taskstate.NetNone},
		{Require: []string{taskstate.RequireCgroup}},
		{As: taskstate.AsUser + "nobody-has-this-name"},
		{Isolate: taskstate.IsolateStrong},
		{Limits: []taskstate.Limit{{Of: taskstate.LimitFiles, Max: 32}}},
	} {
		task, end := h.under(c, n, "echo ran")
		if end.State != taskstate.Rejected || end.Reason != taskstate.ReasonPolicy || h.said(task, "stdout") != "" {
			t.Errorf("%+v: %+v", c, end)
		}
	}
}

func TestWhatATaskWasHeldToIsWhatWasDoneAndNotMore(t *testing.T) {
	whatWasHeld(t)
}

func TestWhatATaskOfAnotherUsersPeerWasHeldToIsWhatWasDoneAndNotMore(t *testing.T) {
	if asSomebody(t) {
		whatWasHeld(t)
	}
}

// whatWasHeld has tasks look themselves: what one finds is what is said of it.
func whatWasHeld(t *testing.T) {
	h, data := boxed(t)
	look := "grep -q 'NoNewPrivs:.1' /proc/self/status && echo nnp; ls " + data + "/policy.yaml >/dev/null 2>&1 || echo hide; " +
		"[ $(id -u) != " + fmt.Sprint(os.Geteuid()) + " ] && echo uid; ls /var/tmp >/dev/null 2>&1 || echo landlock fs; [ $(wc -l </proc/self/net/dev) = 3 ] && echo net; set -- /proc/[0-9]*; [ $# -lt 5 ] && echo strong; grep -q ^0::/.*covey- /proc/self/cgroup && echo cgroup; true"
	for n, c := range []taskstate.Confinement{
		{As: as()},
		{As: taskstate.AsSelf},
		{As: taskstate.AsSelf, Without: []string{taskstate.WithoutHide, taskstate.WithoutNNP}},
		{As: as(), Net: taskstate.NetNone},
		{As: as(), Isolate: taskstate.IsolateFS},
		{As: as(), Isolate: taskstate.IsolateFS, Net: taskstate.NetNone},
		{As: as(), Ours: true},
		{As: as(), Isolate: taskstate.IsolateStrong},
		{As: as(), Isolate: taskstate.IsolateStrong, Net: taskstate.NetNone, Ours: true},
		{As: taskstate.AsSelf, Require: []string{taskstate.RequireLandlock}}, // that it can be had is not that it was
		{As: as(), Require: []string{taskstate.RequireCgroup}},
	} {
		if h.lacks(&c) != nil {
			continue
		}
		task, end := h.under(c, n, "%s", look)
		found := strings.Join(slices.Sorted(slices.Values(strings.Fields(h.said(task, "stdout")))), " ")
		if said := strings.Join(end.Held.Words(), " "); end.State != taskstate.Complete || end.Held == 0 || said != found {
			t.Errorf("%+v: %v %s; it is said %q, and it finds %q", c, end.State, end.Message, said, found)
		}
	}
}

func TestATaskIsHeldToTheLimitsOfItsProcesses(t *testing.T) {
	h, _ := boxed(t)
	limited(t, h)
}

func TestATaskOfAnotherUsersPeerIsHeldToTheLimitsOfItsProcesses(t *testing.T) {
	if asSomebody(t) {
		h, _ := boxed(t)
		limited(t, h)
	}
}

func limited(t *testing.T, h *harness) {
	limits := []taskstate.Limit{{Of: taskstate.LimitFiles, Max: 32}, {Of: taskstate.LimitCore}, {Of: taskstate.LimitFileSize, Max: 8192}}
	who, processes := as(), "0"
	switch {
	case h.boxes.holds.Limits:
		limits, processes = append(limits, taskstate.Limit{Of: taskstate.LimitProcesses, Max: 4000}), "1"
	case os.Geteuid() == 0: // one that may not limit processes of others may limit its own
		h.boxes.holds.Limits, who = true, taskstate.AsSelf
	default:
		t.Skip("processes cannot be limited here")
	}
	for n, c := range []taskstate.Confinement{{As: who, Limits: limits}, {As: who, Ours: true, Limits: limits, Isolate: taskstate.IsolateFS}} {
		if h.lacks(&c) != nil {
			continue
		}
		line := "ulimit -n; ulimit -Hn; ulimit -c; ulimit -Hc; prlimit --nofile=64 true 2>/dev/null || echo stays; sh -c 'ulimit -n'; grep -c 'Max processes *4000 *4000' /proc/self/limits; head -c 4096 /dev/zero >small && echo small"
		task, end := h.under(c, 2*n, "%s", line)
		if out := h.said(task, "stdout"); end.State != taskstate.Complete || strings.Join(strings.Fields(out), " ") != "32 32 0 0 stays 32 "+processes+" small" || !slices.Contains(end.Held.Words(), taskstate.HoldsLimits) {
			t.Errorf("%+v: %+v\n%s%s", c, end, out, h.said(task, "stderr"))
		}
		if task, end = h.under(c, 2*n+1, "exec head -c 9000 /dev/zero >large"); end.State != taskstate.Failed {
			t.Errorf("it wrote a larger file: %+v\n%s", end, h.said(task, "stderr"))
		}
	}
	job := process(taskstate.Process{Command: []string{"/nowhere/program"}})
	l := launch(job, 1)
	l.Confinement = &taskstate.Confinement{As: who, Limits: limits}
	h.Start(l)
	if end := h.end(l.Task); end.Reason != taskstate.ReasonNotFound {
		t.Errorf("a program that is not there: %+v", end)
	}
	c := taskstate.Confinement{As: taskstate.AsSelf, Limits: []taskstate.Limit{{Of: taskstate.LimitProcesses, Max: 4000}}}
	if refused := h.lacks(&c) != nil; refused != (os.Geteuid() == 0) {
		t.Errorf("as the peer's user it is refused: %v", refused)
	}
}

func TestNothingIsSaidOfWhatATaskWasHeldToThatDidNotRun(t *testing.T) {
	h, _ := boxed(t)
	job := process(taskstate.Process{Command: []string{"/nowhere/program"}})
	if _, end := h.run(job); end.State != taskstate.Rejected || end.Held != 0 {
		t.Errorf("%+v", end)
	}
}

func TestATaskMayBeTrustedWithThePeerItself(t *testing.T) {
	h, data := boxed(t)
	c := taskstate.Confinement{As: taskstate.AsSelf, Without: []string{taskstate.WithoutHide, taskstate.WithoutNNP}}
	task, end := h.under(c, 0, "cat %s/identity.key; grep -q 'NoNewPrivs:.0' /proc/self/status", data)
	if end.State != taskstate.Complete || h.said(task, "stdout") != "the secret of this peer" {
		t.Errorf("%+v", end)
	}
}

func TestATaskMayRunAsAUserOfTheMachine(t *testing.T) {
	h, _ := boxed(t)
	if os.Geteuid() != 0 {
		t.Skip("other users' processes take root")
	}
	task, end := h.under(taskstate.Confinement{As: taskstate.AsUser + "nobody"}, 0, "id -un; echo x >file")
	if end.State != taskstate.Complete || h.said(task, "stdout") != "nobody\n" {
		t.Errorf("%+v\n%s", end, h.said(task, "stderr"))
	}
}

func TestRulesHideTheDataFolderAlsoWhereTheyCannotHideOthers(t *testing.T) {
	inMemory := func(of []string) bool {
		return !slices.ContainsFunc(of, func(p string) bool { return strings.HasPrefix(p, "/dev/shm/") })
	}
	for _, x := range []struct{ hide, want []string }{
		{[]string{"/var/lib/covey", "/dev/shm/covey-secrets-1"}, []string{"/var/lib/covey"}},
		{[]string{"/var/lib/covey", "/run/covey"}, []string{"/var/lib/covey", "/run/covey"}},
		{[]string{"/dev/shm/data", "/run/covey"}, nil},
	} {
		if got := byRules(x.hide, inMemory); !slices.Equal(got, x.want) {
			t.Errorf("of %v: %v, want %v", x.hide, got, x.want)
		}
	}
}
