//go:build unix

package runner

import (
	"strings"
	"syscall"
)

// posixShell runs a line with /bin/sh, which finds COVEY_… in its environment.
func posixShell(line string, braces bool, item string) []string {
	if braces {
		line = strings.ReplaceAll(line, "{}", "'"+strings.ReplaceAll(item, "'", `'\''`)+"'")
	}
	return []string{"/bin/sh", "-c", line}
}

// noFollow keeps from opening what a task put in place of its folder.
const noFollow = syscall.O_NOFOLLOW
