package runner

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

func isNoExec(err error) bool { return errors.Is(err, syscall.Errno(193)) } // ERROR_BAD_EXE_FORMAT

func program(file string) (string, error) {
	found, err := exec.LookPath(file)
	if err != nil {
		return "", os.ErrNotExist
	}
	return found, nil
}

// shellArguments runs the line with cmd, which knows no ${…}: the runner expands it.
func shellArguments(line string, vars variables, braces bool, item string) []string {
	return []string{"cmd", "/C", expand(line, vars, braces, item)}
}

// noFollow has no meaning here.
const noFollow = 0
