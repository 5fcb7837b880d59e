//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for something that will come: generous, because machines that
// test are busy.
const patience = 60 * time.Second

// processesKey finds a script's processes in its values.
type processesKey struct{}

// processes are those a script started and has not seen the end of. A script is one goroutine.
type processes struct {
	work    string
	running map[string]*process
	input   string // stdin of the next command
	disks   map[string]*disk
}

// process is one run of the program that the script does not wait for at once.
type process struct {
	cmd      *exec.Cmd
	out, err *safeBuffer
	ended    chan struct{} // closed once it is reaped
}

// safeBuffer is read while the process writes.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// commandLine is `peer` on the data folder of name. `up` gets what keeps tests apart: loopback, a
// free port, no multicast.
func commandLine(work, name string, args []string) []string {
	line := append([]string{"--data", filepath.Join(work, name)}, args...)
	if len(args) == 0 || args[0] != "up" || slices.Contains(args, "--help") {
		return line
	}
	for flag, value := range map[string]string{"--listen": "127.0.0.1:0", "--name": filepath.Base(name), "--cpus": "2"} {
		if !slices.Contains(args, flag) {
			line = append(line, flag, value)
		}
	}
	return append(line, "--no-mdns")
}

func (p *processes) start(ts *testscript.TestScript, label, name string, args []string) *process {
	if _, ok := p.running[label]; ok {
		ts.Fatalf("%s is running already", label)
	}
	exe, err := exec.LookPath("peer")
	ts.Check(err)
	x := &process{cmd: exec.Command(exe, commandLine(p.work, name, args)...), out: &safeBuffer{}, err: &safeBuffer{}, ended: make(chan struct{})}
	x.cmd.Dir = ts.MkAbs(".")
	x.cmd.Env = p.environment(ts)
	x.cmd.Stdout, x.cmd.Stderr = x.out, x.err
	x.cmd.WaitDelay = time.Second // its output pipes may be held open by what it left behind
	x.cmd.SysProcAttr = childAttr()
	ts.Check(x.cmd.Start())
	go func() {
		_ = x.cmd.Wait() // the state tells
		close(x.ended)
	}()
	p.running[label] = x
	return x
}

// environment is what the script's own commands see.
func (p *processes) environment(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "TMPDIR", "WORK", "NO_COLOR", "XDG_STATE_HOME"} {
		env = append(env, k+"="+ts.Getenv(k))
	}
	for _, kv := range scriptSettings {
		if v := ts.Getenv(kv); v != "" {
			env = append(env, kv+"="+v)
		}
	}
	return env
}

// scriptSettings are variables scripts set for the program.
var scriptSettings = []string{"PEER_DATA", "PEER_JOIN", "PEER_NAME", "PEER_OUTPUT", "PEER_CPUS"}

// get finds what runs under a label and forgets it if asked to.
func (p *processes) get(ts *testscript.TestScript, label string) *process {
	x, ok := p.running[label]
	if !ok {
		ts.Fatalf("nothing runs under the name %q", label)
	}
	return x
}

func (x *process) awaitEnd(ts *testscript.TestScript, label string) {
	select {
	case <-x.ended:
	case <-time.After(patience):
		_ = x.cmd.Process.Signal(syscall.SIGQUIT) // its stacks say where it hangs
		<-x.ended
		ts.Fatalf("%s has not ended after %s\n[stdout]\n%s[stderr]\n%s", label, patience, x.out, x.err)
	}
}

// endAll kills what is left, tasks of killed peers included.
func (p *processes) endAll() {
	for _, x := range p.running {
		_ = x.cmd.Process.Kill()
		<-x.ended
	}
	killBelow(p.work)
}

func scriptProcesses(ts *testscript.TestScript) *processes {
	return ts.Value(processesKey{}).(*processes)
}

func want(ts *testscript.TestScript, neg bool, args []string, n int, usage string) {
	if neg || len(args) < n {
		ts.Fatalf("usage: %s", usage)
	}
}

func scriptUp(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "up NAME [FLAG…]")
	p := scriptProcesses(ts)
	x := p.start(ts, args[0], args[0], append([]string{"up"}, args[1:]...))
	limit := time.After(patience)
	for {
		if out, talk := x.out.String(), x.err.String(); greeted(out, talk) {
			fmt.Fprint(ts.Stdout(), out)
			fmt.Fprint(ts.Stderr(), talk)
			return
		}
		select {
		case <-x.ended:
			ts.Fatalf("%s ended instead of being ready: %v\n%s", args[0], x.cmd.ProcessState, x.err)
		case <-limit:
			ts.Fatalf("%s is not ready after %s\n%s", args[0], patience, x.err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// greeted tells whether a peer has said all it says when it is ready: who it is, and what to type
// next.
func greeted(out, talk string) bool {
	if strings.HasPrefix(out, "{") {
		return strings.HasSuffix(out, "\n")
	}
	return out != "" && (strings.Contains(talk, "peer up --join") || strings.Contains(talk, "peer up --bootstrap") || strings.Contains(talk, "\nnext:"))
}

// run is one command to its end; stdout and stderr are the script's then.
func (p *processes) run(ts *testscript.TestScript, args []string) int {
	out, talk, code := p.quietly(ts, args)
	fmt.Fprint(ts.Stdout(), out)
	fmt.Fprint(ts.Stderr(), talk)
	return code
}

// quietly is run without a word in the script's log.
func (p *processes) quietly(ts *testscript.TestScript, args []string) (out, talk string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exe, err := exec.LookPath("peer")
	ts.Check(err)
	cmd := exec.CommandContext(ctx, exe, commandLine(p.work, args[0], args[1:])...)
	var o, e bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = ts.MkAbs("."), p.environment(ts), &o, &e, childAttr()
	cmd.WaitDelay = time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // its stacks say where it hangs
	if p.input != "" {
		cmd.Stdin, p.input = strings.NewReader(p.input), ""
	}
	if err := cmd.Run(); cmd.ProcessState == nil {
		ts.Fatalf("%v", err)
	}
	if ctx.Err() != nil {
		ts.Fatalf("not done after %s\n[stdout]\n%s[stderr]\n%s", patience, &o, &e)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// scriptInput is testscript's stdin, for the words above.
func scriptInput(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "input FILE")
	scriptProcesses(ts).input = ts.ReadFile(args[0])
}

func scriptAt(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, args, 2, "[!] at NAME ARG…")
	if code := scriptProcesses(ts).run(ts, args); (code == 0) == neg {
		ts.Fatalf("exit %d", code)
	}
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "exits CODE NAME ARG…")
	if code := scriptProcesses(ts).run(ts, args[1:]); strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
}

func scriptBegin(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "begin LABEL NAME ARG…")
	scriptProcesses(ts).start(ts, args[0], args[1], args[2:])
}

func scriptPrinted(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "printed LABEL TEXT")
	x := scriptProcesses(ts).get(ts, args[0])
	limit := time.After(patience)
	for ended := false; ; {
		if strings.Contains(x.out.String(), args[1]) || strings.Contains(x.err.String(), args[1]) {
			return
		}
		if ended {
			ts.Fatalf("%s ended (%v) and has not printed %q\n[stdout]\n%s[stderr]\n%s", args[0], x.cmd.ProcessState, args[1], x.out, x.err)
		}
		select {
		case <-x.ended:
			ended = true
		case <-limit:
			ts.Fatalf("%s has not printed %q after %s\n[stdout]\n%s[stderr]\n%s", args[0], args[1], patience, x.out, x.err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "signal SIG LABEL|NAME")
	s, ok := map[string]syscall.Signal{
		"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}[args[0]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[0])
	}
	ts.Check(scriptProcesses(ts).get(ts, args[1]).cmd.Process.Signal(s))
}

func scriptEnds(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "ends CODE LABEL|NAME")
	p := scriptProcesses(ts)
	x := p.get(ts, args[1])
	x.awaitEnd(ts, args[1])
	delete(p.running, args[1])
	fmt.Fprint(ts.Stdout(), x.out.String())
	fmt.Fprint(ts.Stderr(), x.err.String())
	if code := x.cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s ended with %v, want exit %s\n[stdout]\n%s[stderr]\n%s", args[1], x.cmd.ProcessState, args[0], x.out, x.err)
	}
}

func scriptCrash(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, max(1, len(args)), "crash NAME…")
	p := scriptProcesses(ts)
	for _, name := range args { // all in one moment
		ts.Check(p.get(ts, name).cmd.Process.Kill())
	}
	for _, name := range args {
		<-p.get(ts, name).ended
		delete(p.running, name)
	}
}

func scriptCrashAt(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "crashat BYTES VAR NAME")
	least, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	x := scriptProcesses(ts).get(ts, args[2])
	read := func() int64 {
		n, _, err := movedBytes(x.cmd.Process.Pid)
		ts.Check(err)
		return n
	}
	for begun := time.Now(); read() < least; time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			ts.Fatalf("%s has read %d bytes after %s", args[2], read(), patience)
		}
	}
	ts.Check(x.cmd.Process.Signal(syscall.SIGSTOP)) // what it has read can only be asked while it is there
	for last := int64(-1); last != read(); time.Sleep(10 * time.Millisecond) {
		last = read()
	}
	ts.Setenv(args[1], strconv.FormatInt(read(), 10))
	scriptCrash(ts, false, args[2:])
}

func scriptWritten(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "written VAR NAME")
	_, n, err := movedBytes(scriptProcesses(ts).get(ts, args[1]).cmd.Process.Pid)
	ts.Check(err)
	ts.Setenv(args[0], strconv.FormatInt(n, 10))
}

func scriptHolds(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "holds FILE TEXT")
	limit := time.After(patience)
	for {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if bytes.Contains(text, []byte(args[1])) {
			return
		}
		select {
		case <-limit:
			ts.Fatalf("%s does not hold %q after %s: %q %v", args[0], args[1], patience, text, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// scriptTmpfs mounts a small file system, so that a script can fill it.
func scriptTmpfs(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "tmpfs DIR SIZE")
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(mountTmpfs(dir, args[1]))
	ts.Defer(func() {
		scriptProcesses(ts).endAll()
		_ = unmount(dir) // the folder is removed with what is in it, if anything is
	})
}

// scriptReadOnly has a folder take no writes; with ! it takes them again.
func scriptReadOnly(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, args, 1, "[!] readonly DIR")
	dir := ts.MkAbs(args[0])
	if neg {
		ts.Check(unmount(dir))
		return
	}
	ts.Check(bindReadOnly(dir))
}

// scriptPort takes the port out of a multiaddr.
func scriptPort(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "port VAR MULTIADDR")
	ts.Setenv(args[0], filepath.Base(args[1]))
}

// scriptFill writes a file until there is no room for a single block more.
func scriptFill(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "fill FILE")
	f, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
}

// scriptDisk makes a disk that can fail.
func scriptDisk(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "disk DIR MEBIBYTES")
	dir, p := ts.MkAbs(args[0]), scriptProcesses(ts)
	size, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.MkdirAll(dir, 0o700))
	d, err := makeDisk(dir, size<<20)
	ts.Check(err)
	p.disks[args[0]] = d
	ts.Defer(func() {
		_ = d.thaw() // first: who waits for it cannot be killed
		p.endAll()
		d.remove()
	})
}

func onDisk(word string, f func(*disk) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		want(ts, neg, args, 1, word+" DIR")
		d := scriptProcesses(ts).disks[args[0]]
		if d == nil {
			ts.Fatalf("there is no disk %s", args[0])
		}
		ts.Check(f(d))
	}
}

// scriptLimitFiles bounds how many files a peer that runs may have open.
func scriptLimitFiles(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "files NAME N [hard]")
	n, err := strconv.ParseUint(args[1], 10, 64)
	ts.Check(err)
	ts.Check(limitFiles(scriptProcesses(ts).get(ts, args[0]).cmd.Process.Pid, n, len(args) > 2))
}
