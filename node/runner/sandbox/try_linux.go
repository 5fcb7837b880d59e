package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tryEnv makes a process of this program one that tries what its first argument is the folder for.
const tryEnv = "COVEY_SANDBOX_TRY"

// Runs before main, as a supervisor does: a trial takes a process of its own, born as a supervisor
// is born.
var _ = try()

func try() struct{} {
	if os.Getenv(tryEnv) == "" || len(os.Args) != 2 {
		return struct{}{}
	}
	switch os.Args[1] {
	case tryWait:
		time.Sleep(tryWaits)
		os.Exit(0)
	case tryLook:
		os.Exit(looked())
	}
	for i, trial := range [...]func(string) error{tryMounts, tryNet, tryFiles, tryGroup, tryLimits, tryApart} {
		dir, err := os.MkdirTemp(os.Args[1], "try")
		if err == nil {
			err = errors.Join(layOut(dir), trial(dir))
		}
		if err != nil {
			_, _ = os.Stdout.WriteString(trials[i] + ": " + strings.ReplaceAll(err.Error(), "\n", "; ") + "\n")
		}
	}
	os.Exit(0)
	return struct{}{}
}

// trials are the names of what is tried.
var trials = [...]string{"mounts", "net", "files", "group", "limits", "apart"}

// tryWait makes such a process one that waits to be killed, for so long, and tryLook one that looks
// who is around it.
const (
	tryWait  = "wait"
	tryWaits = 10 * time.Second
	tryLook  = "look"
)

// layOut makes what is tried with.
func layOut(dir string) error {
	shown := filepath.Join(dir, "shown", "here")
	return errors.Join(os.MkdirAll(shown, 0o700), os.WriteFile(filepath.Join(shown, "file"), nil, 0o600), os.WriteFile(filepath.Join(dir, "hidden"), nil, 0o600))
}

// tryMounts hides a folder from a process, and looks whether that sees what it should.
func tryMounts(dir string) error {
	hidden, shown := filepath.Join(dir, "hidden"), filepath.Join(dir, "shown", "here")
	spec := Spec{Hide: []string{dir}, Show: []string{shown}, NNP: true}
	return Run(&spec, nil, func(*syscall.SysProcAttr, *Space) error {
		if _, err := os.Stat(hidden); !errors.Is(err, os.ErrNotExist) {
			return errors.New("what is mounted is not to be seen")
		}
		_, err := os.Stat(filepath.Join(shown, "file"))
		return err
	})
}

// tryNet looks whether a process without a network has none.
func tryNet(string) error {
	return Run(&Spec{NoNet: true, NNP: true}, nil, func(*syscall.SysProcAttr, *Space) error {
		b, err := os.ReadFile("/proc/thread-self/net/dev")
		if err == nil && strings.Count(string(b), "\n") != 3 { // two lines of words, and the loopback
			err = errors.New("there is a network all the same")
		}
		return err
	})
}

// tryFiles looks whether a process opens what it may, and nothing else.
func tryFiles(dir string) error {
	shown := filepath.Join(dir, "shown")
	return Run(&Spec{Closed: true, Write: []string{shown}, NNP: true}, nil, func(*syscall.SysProcAttr, *Space) error {
		if _, err := os.ReadFile(filepath.Join(dir, "hidden")); !errors.Is(err, os.ErrPermission) {
			return errors.New("what must not be read can be")
		}
		return os.WriteFile(filepath.Join(shown, "new"), nil, 0o600)
	})
}

// tryGroup looks whether a process that is started in a control group ends with it.
func tryGroup(dir string) error {
	g := OpenGroups(dir)
	if g == nil {
		return errors.New("no control group can be made here")
	}
	defer g.Close()
	k := g.Acquire()
	if k == nil {
		return errors.New("no control group can be made here")
	}
	attr := &syscall.SysProcAttr{}
	k.Start(attr)
	pid, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], tryWait}, &syscall.ProcAttr{Env: os.Environ(), Sys: attr})
	if err != nil {
		return os.NewSyscallError("start a process in a control group", err)
	}
	k.Kill()
	var end syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &end, 0, nil); err != nil || end.Signal() != syscall.SIGKILL {
		return errors.New("what is in a control group did not end with it")
	}
	return nil
}

// tryLimits looks whether a process has the limits it is given, where root asks one of another
// user: a root without CAP_SYS_RESOURCE, as in containers, may not give it any.
func tryLimits(string) error {
	spec := Spec{NNP: true, Limits: []Limit{{LimitFiles, 64}}}
	if os.Geteuid() == 0 {
		spec.User = &User{UID: 65534, GID: 65534}
	}
	return Run(&spec, nil, func(attr *syscall.SysProcAttr, _ *Space) error {
		pid, err := spec.Fork("/proc/self/exe", []string{os.Args[0], tryWait}, &syscall.ProcAttr{Env: os.Environ(), Sys: attr})
		if err != nil {
			return err
		}
		has, err := limitOf(pid, LimitFiles, nil)
		if err == nil && has.Max != 64 {
			err = errors.New("it has others")
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, werr := wait(pid)
		return errors.Join(err, werr)
	})
}

// tryApart looks whether a process sees itself and the first of its space only, and whether what it
// leaves behind there ends with it.
func tryApart(dir string) error {
	spec := Spec{Hide: []string{dir}, Apart: true, NNP: true}
	return Run(&spec, nil, func(attr *syscall.SysProcAttr, around *Space) error {
		defer around.Kill()
		how := &syscall.ProcAttr{Env: os.Environ(), Sys: attr}
		pid, err := syscall.ForkExec("/proc/self/exe", []string{os.Args[0], tryLook}, how)
		if err != nil {
			return os.NewSyscallError("start a process that sees no others", err)
		}
		end, err := wait(pid)
		if err == nil && end.ExitStatus() != 0 {
			err = errors.New("what must not be seen is")
		}
		return err
	})
}

// looked is 0 where a process sees only itself and the first of its space.
func looked() int {
	all, err := os.ReadDir("/proc")
	seen := 0
	for _, e := range all {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			if seen++; n != 1 && n != os.Getpid() {
				return 1
			}
		}
	}
	if self, rerr := os.Readlink("/proc/self"); err != nil || rerr != nil || seen != 2 || os.Getppid() != 0 || self != strconv.Itoa(os.Getpid()) {
		return 1
	}
	return 0
}

// Try finds out what can be done here: born tells that what starts processes can be born anew, as
// the supervisor is; otherwise it is this very process.
func Try(born bool) Holds {
	root := os.Geteuid() == 0
	var failed map[string]string
	err := errors.New("processes are this process's own, and it is not root's")
	if root || born {
		failed, err = tryIn(InUserNamespace)
	}
	h := Holds{Privileges: true, Users: root, Mounts: err == nil && failed["mounts"] == "", Net: err == nil && failed["net"] == "", Why: failed["mounts"]}
	if err != nil {
		h.Why = err.Error()
		failed, err = tryIn(func(*syscall.SysProcAttr) {})
	}
	if h.Apart, h.WhySeen = h.Mounts && failed["apart"] == "", failed["apart"]; !h.Mounts {
		h.WhySeen = h.Why
	}
	h.Limits = (root || born) && err == nil && failed["limits"] == ""
	h.Files, h.Groups = err == nil && failed["files"] == "", (root || born) && err == nil && failed["group"] == ""
	return h
}

// tryIn tries all in a process of its own, and says what failed and why.
func tryIn(born func(*syscall.SysProcAttr)) (failed map[string]string, err error) {
	dir, err := os.MkdirTemp("", "covey-try-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/proc/self/exe", dir)
	cmd.Env = []string{tryEnv + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	born(cmd.SysProcAttr)
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	failed = map[string]string{}
	for line := range strings.Lines(string(out)) {
		what, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
		failed[what] = why
	}
	return failed, nil
}
