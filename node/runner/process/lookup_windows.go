package process

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/coveyproject/covey/taskstate"
)

func isNoExec(err error) bool { return errors.Is(err, syscall.Errno(193)) } // ERROR_BAD_EXE_FORMAT

func program(file string) (string, error) {
	found, err := exec.LookPath(file)
	if err != nil {
		return "", os.ErrNotExist
	}
	return found, nil
}

// shellArguments runs the line with cmd, which knows no ${…}: the runner expands it. There is no
// way to quote that holds everywhere in such a line, so what cmd would read as its own language is
// refused.
func shellArguments(line string, vars variables, braces bool, item string) ([]string, error) {
	const special = "\"&|<>^%!()\r\n"
	for _, v := range vars {
		if strings.ContainsAny(v[1], special) && (strings.Contains(line, "${"+v[0]+"}") || braces && v[1] == item && strings.Contains(line, "{}")) {
			return nil, reject(taskstate.ReasonPrepare, "%s has characters that cmd would take for commands: %q; run a program with arguments instead of a line", v[0], v[1])
		}
	}
	return []string{"cmd", "/C", expand(line, vars, braces, item)}, nil
}
