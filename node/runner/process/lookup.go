package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

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

// lookup finds the program a task names: in the PATH of the task's own environment, or, with a
// slash in it, from the folder it runs in.
func lookup(name, path, dir string) (string, *rejection) {
	if name == "" {
		return "", reject(taskstate.ReasonNotFound, "the command is empty; name a program to run")
	}
	if strings.ContainsRune(name, '/') || strings.ContainsRune(name, filepath.Separator) {
		return lookupFile(name, dir)
	}
	var unusable string
	for _, in := range filepath.SplitList(path) {
		if !filepath.IsAbs(in) {
			in = filepath.Join(dir, in)
		}
		file := in + string(filepath.Separator) + name
		found, err := program(file)
		if err == nil {
			return found, nil
		}
		if unusable == "" && errors.Is(err, fs.ErrPermission) {
			unusable = file
		}
	}
	if unusable != "" {
		return "", notExecutable(unusable)
	}
	if path == "" {
		return "", reject(taskstate.ReasonNotFound, "%s: command not found: PATH is empty; give the full path of the program", name)
	}
	return "", reject(taskstate.ReasonNotFound, "%s: command not found in PATH %s on this peer; install it there, or give its full path", name, path)
}

func lookupFile(name, dir string) (string, *rejection) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	found, err := program(file)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, fs.ErrPermission):
		return "", notExecutable(name)
	}
	return "", reject(taskstate.ReasonNotFound, "%s: no such file on this peer", name)
}

func notExecutable(file string) *rejection {
	return reject(taskstate.ReasonNotExec, "%s: not an executable file on this peer; try chmod +x, or run it with its interpreter", file)
}

// startError says why a program that is there did not start.
func startError(name string, err error) *rejection {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return reject(taskstate.ReasonNotFound, "%s: the file is there, but the interpreter its first line names is not on this peer", name)
	case errors.Is(err, fs.ErrPermission):
		return notExecutable(name)
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
