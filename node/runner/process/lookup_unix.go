//go:build unix

package process

import (
	"errors"
	"syscall"
)

func isNoExec(err error) bool { return errors.Is(err, syscall.ENOEXEC) }

func program(file string) (string, error) { return statProgram(file) }

func shellArguments(line string, _ variables, braces bool, _ string) ([]string, error) {
	return posixShell(line, braces)
}
