//go:build !linux

package supervise

import (
	"os"
	"sync"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

type child struct {
	pid  int
	held sandbox.Confined
	p    *os.Process
	mu   sync.Mutex
	over bool
}

func spawn(s spec) (*child, error) {
	p, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Dir: s.dir, Env: s.env, Files: []*os.File{s.stdin, s.stdout.File, s.stderr.File}, Sys: apart(),
	})
	if err != nil {
		return nil, err
	}
	return &child{pid: p.Pid, held: sandbox.ConfinedKnown, p: p}, nil
}

// reap is never asked for here: nobody follows a child without waiting for it.
func (c *child) reap(error) ending { return c.wait() }
