package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// says runs a line under a spec and returns what it prints.
func says(t *testing.T, s *Spec, line string) (string, error) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var pid int
	err = Run(s, nil, func(attr *syscall.SysProcAttr, _ *Space) (err error) {
		pid, err = syscall.ForkExec("/bin/sh", []string{"sh", "-c", line}, &syscall.ProcAttr{
			Dir: "/", Env: os.Environ(), Files: []uintptr{0, out.Fd(), out.Fd()}, Sys: attr,
		})
		return err
	})
	if err != nil {
		return "", err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b), nil
}

func TestRulesHideAFolderAndNothingBesideIt(t *testing.T) {
	if !Try(false).Files {
		t.Skip("no landlock here")
	}
	dir := t.TempDir()
	for _, name := range []string{"a/b/data/key", "a/b/data/own/file", "a/b/beside", "a/other/file"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "a/b/data")
	s := &Spec{Hide: []string{data}, Show: []string{data + "/own"}, Rules: true}
	got, err := says(t, s, "cd "+dir+"/a; for f in b/data/key b/data/own/file b/beside other/file; do cat $f 2>/dev/null || echo -n no; echo; done; echo new >other/new; cat other/new; mv other/new b/data/own/ && cat b/data/own/new; echo x >b/data/key || echo kept")
	if err != nil {
		t.Fatal(err)
	}
	want := "no\na/b/data/own/file\na/b/beside\na/other/file\nnew\nnew\n"
	if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "kept\n") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWhatCannotBeDoneStartsNothing(t *testing.T) {
	for _, s := range []*Spec{
		{Hide: []string{"/no-such-folder"}}, {Hide: []string{"/no-such-folder/below"}, Rules: true}, {Hide: []string{t.TempDir()}, Show: []string{"/dev/null/x"}},
	} {
		if out, err := says(t, s, "echo ran"); err == nil {
			t.Errorf("%+v: %q", s, out)
		}
	}
}

func TestASpecThatMakesNoSenseIsFound(t *testing.T) {
	for _, s := range []Spec{
		{Hide: []string{"relative"}},
		{Hide: []string{"/"}},
		{Hide: []string{"/a/../b"}},
		{Show: []string{"/a"}},
		{Hide: []string{"/a"}, Show: []string{"/ab"}},
		{User: &User{}},
		{User: &User{UID: 1 << 32, GID: 1}},
		{Read: []string{""}},
		{Write: []string{"x"}},
	} {
		if s.Check() == nil {
			t.Errorf("%+v makes sense", s)
		}
	}
	if err := (Spec{Hide: []string{"/a"}, Show: []string{"/a/b"}, User: &User{UID: 1, GID: 1}, Closed: true, Read: []string{"/r"}}).Check(); err != nil {
		t.Error(err)
	}
}

// What runs before main must not take a program for a trial that is none.
func TestOnlyATrialIsATrial(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "-test.list", "OnlyATrial")
	cmd.Env = append(os.Environ(), tryEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "TestOnlyATrialIsATrial") {
		t.Errorf("%v\n%s", err, out)
	}
}
