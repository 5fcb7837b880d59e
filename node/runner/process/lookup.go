package process

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/coveyproject/covey/node/runner/sandbox"
	"github.com/coveyproject/covey/taskstate"
)

type rejection struct {
	reason    taskstate.Reason
	message   string
	exhausted string // the error by which the machine refused this peer a process or a file; "": it did not
}

func (r *rejection) Error() string { return r.message }

func reject(reason taskstate.Reason, format string, a ...any) *rejection {
	return &rejection{reason: reason, message: fmt.Sprintf(format, a...)}
}

// finder looks a program up as its task: what this peer may execute the task's user may not reach.
type finder struct {
	path, dir string        // of the task's environment, and what it runs in
	home      string        // the task's own folder, in which everything is its own
	box       *sandbox.Spec // nil: the task may do what this peer may
}

// lookup finds the program a task names: in the PATH of the task's own environment, or, with a
// slash in it, from the folder it runs in.
func (f finder) lookup(name string) (string, *rejection) {
	if name == "" {
		return "", reject(taskstate.ReasonNotFound, "the command is empty; name a program to run")
	}
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return f.lookupFile(name)
	}
	var unusable *rejection
	for _, in := range filepath.SplitList(f.path) {
		if !filepath.IsAbs(in) {
			in = filepath.Join(f.dir, in)
		}
		file := in + string(filepath.Separator) + name
		found, err := program(file)
		var why *rejection
		switch {
		case errors.Is(err, fs.ErrPermission):
			why = notExecutable(file)
		case err != nil:
			continue
		default:
			if why = f.bars(found); why == nil {
				return found, nil
			}
		}
		unusable = cmp.Or(unusable, why)
	}
	if unusable != nil {
		return "", unusable
	}
	if f.path == "" {
		return "", reject(taskstate.ReasonNotFound, "%s: command not found: PATH is empty; give the full path of the program", name)
	}
	return "", reject(taskstate.ReasonNotFound, "%s: command not found in PATH %s on this peer; install it there, or give its full path", name, f.path)
}

func (f finder) lookupFile(name string) (string, *rejection) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(f.dir, file)
	}
	found, err := program(file)
	switch {
	case err == nil:
		return found, f.bars(found)
	case errors.Is(err, fs.ErrPermission):
		return "", notExecutable(name)
	}
	return "", reject(taskstate.ReasonNotFound, "%s: no such file on this peer", name)
}

// bars is what keeps the task from a program that is there; nil: nothing is known to.
func (f finder) bars(file string) *rejection {
	if f.box == nil || within(f.home, file) {
		return nil
	}
	real := realPath(file)
	for _, p := range []string{file, real} {
		if slices.ContainsFunc(f.box.Show, func(show string) bool { return within(show, p) }) {
			return nil // it is mounted for the task, whatever is around it here
		}
		if i := slices.IndexFunc(f.box.Hide, func(hide string) bool { return within(hide, p) }); i >= 0 {
			return f.hidden(f.box.Hide[i], place(file, real))
		}
	}
	if f.box.User == nil {
		return nil
	}
	switch at := f.box.User.Barred(file); at {
	case "":
		return nil
	case file, real:
		return reject(taskstate.ReasonNotExec, "%s: %s, as whom the task runs on this peer, may not execute it; try chmod o+rx, or use a program elsewhere, as in /usr/bin", place(file, real), userText(f.box.User))
	default:
		return reject(taskstate.ReasonNotExec, "%s: %s, as whom the task runs on this peer, may not enter %s; use a program elsewhere, as in /usr/bin, or have the peer's owner let that user in", place(file, real), userText(f.box.User), at)
	}
}

func (f finder) hidden(folder, file string) *rejection {
	if f.box.Closed {
		return reject(taskstate.ReasonNotExec, "%s: the isolated task finds %s empty; use a program elsewhere, as in /usr/bin, or have the peer's owner show its folder with read: in policy.yaml", file, folder)
	}
	return reject(taskstate.ReasonNotExec, "%s: tasks find %s empty on this peer; use a program elsewhere, as in /usr/bin", file, folder)
}

// place is a file and, if it is a link, where it leads.
func place(file, real string) string {
	if file == real {
		return file
	}
	return file + " (" + real + ")"
}

func userText(u *sandbox.User) string {
	if known, err := user.LookupId(strconv.Itoa(u.UID)); err == nil {
		return "user " + known.Username
	}
	return "user " + strconv.Itoa(u.UID)
}

// within reports whether a path is a folder, or lies below it.
func within(folder, path string) bool {
	return folder != "" && (path == folder || strings.HasPrefix(path, folder+string(filepath.Separator)))
}

func notExecutable(file string) *rejection {
	return reject(taskstate.ReasonNotExec, "%s: not an executable file on this peer; try chmod +x, or run it with its interpreter", file)
}

// firstLine is the first line of a script, or of a file that is named by its path; "" if that
// cannot be read.
func firstLine(name string, script []byte) string {
	if st, err := os.Stat(name); script == nil && filepath.IsAbs(name) && err == nil && st.Mode().IsRegular() {
		if f, err := os.Open(filepath.Clean(name)); err == nil {
			defer f.Close()
			script, _ = io.ReadAll(io.LimitReader(f, 256))
		}
	}
	line, _, _ := strings.Cut(string(script), "\n")
	return line
}

// startError says why a program that is there did not start. script is the text of a job's script,
// nil without one.
func startError(name string, script []byte, err error) *rejection {
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(firstLine(name, script), "\r"):
		return reject(taskstate.ReasonNotExec, "%s: its lines end as on Windows (CRLF), and no interpreter is called so; convert it, as with sed -i 's/\\r$//'", name)
	case errors.Is(err, fs.ErrNotExist):
		return reject(taskstate.ReasonNotFound, "%s: the file is there, but the interpreter its first line names is not on this peer", name)
	case errors.Is(err, fs.ErrPermission) && script != nil:
		return reject(taskstate.ReasonNotExec, "%s: its interpreter may not be executed, or this peer's data folder is on a file system that is mounted noexec", name)
	case errors.Is(err, fs.ErrPermission):
		return notExecutable(name)
	case errors.Is(err, syscall.E2BIG):
		return reject(taskstate.ReasonNotExec, "%s: its arguments and environment are longer than this system takes; put them into a file, and bring it with --in", name)
	case isNoExec(err):
		return reject(taskstate.ReasonNotExec, "%s: not a program of this system, and no script with a #! line; begin it with #!/bin/sh", name)
	}
	return reject(taskstate.ReasonPrepare, "%s could not be started: %v", name, err)
}

// statProgram is program for systems where a mode bit says what is executable.
func statProgram(file string) (string, error) {
	st, err := os.Stat(file)
	switch {
	case err != nil:
		return "", err
	case st.IsDir(), st.Mode()&0o111 == 0:
		return "", fs.ErrPermission
	}
	return file, nil
}
