//go:build unix

package process

import (
	"github.com/coveyproject/covey/taskstate"
	posix "github.com/coveyproject/covey/taskstate/shell"
)

// posixShell runs a line with /bin/sh, which finds COVEY_… in its environment, and the item as
// well: text that became part of the line would be read as shell.
func posixShell(line string, braces bool) ([]string, error) {
	if braces {
		filled, err := posix.Fill(line, "COVEY_ITEM")
		if err != nil {
			return nil, reject(taskstate.ReasonPrepare, "%v", err)
		}
		line = filled
	}
	return []string{"/bin/sh", "-c", line}, nil
}
