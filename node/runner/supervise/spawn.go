package supervise

import (
	"os"
	"syscall"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

const (
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL

	sigFileSize = 25 // SIGXFSZ, where there are such limits
)

// spec is a process to start. argv is never empty.
type spec struct {
	task           string
	path           string
	argv, env      []string
	dir            string
	stdin          *os.File
	stdout, stderr logFile
	box            *sandbox.Spec
	group          *sandbox.Group // nil: none is to be had
}

// group is the process group it leads.
func (c *child) group() int { return c.pid }

type ending struct {
	exit, signal int
	err          error // its end could not be seen
	alone        bool  // nobody else was left in its group; never known on Windows
}
