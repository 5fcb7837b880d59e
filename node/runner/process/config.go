package process

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// Defaults of Config.
const (
	DefaultLogCap = supervise.DefaultLogCap
	DefaultGrace  = supervise.DefaultGrace
)

// Config is what an Executor needs. Dir and Report have no default.
type Config struct {
	Dir      string                       // the peer's tasks folder; made if absent, owned by one executor at a time
	Report   func(...taskstate.RunReport) // told everything, in order of each task; must not block
	LogCap   int64                        // bytes kept of stdout and of stderr, each; 0 = DefaultLogCap
	Grace    time.Duration                // from SIGTERM to SIGKILL; 0 = DefaultGrace
	Starters int                          // how many processes are prepared at once; 0 = two per CPU
	Environ  []string                     // the daemon's environment; nil = os.Environ(). Only PATH HOME LANG TMPDIR are passed on
	Log      *slog.Logger                 // nil = silent

	// Copied says that Dir is a copy of another one, or was moved: the processes its notes speak of
	// are that one's, and are left alone.
	Copied bool

	// Stdin is where the stdin of tasks comes from whose job has one; nil: they are rejected.
	Stdin Stdin

	// Inputs is what puts the inputs of tasks into their folders; nil: tasks with inputs are
	// rejected.
	Inputs Inputs

	// Sandbox is what tasks are kept from; nil: nothing that this peer's user is not kept from.
	Sandbox *Sandbox

	// Secrets is what opens the secrets of tasks; nil: tasks with secrets are rejected.
	Secrets Secrets

	InProcess bool          // processes are this process's own and end with Close; so it is, too, where there is no supervisor (all but Linux)
	Idle      time.Duration // how long a supervisor without processes is kept; 0 = supervise.DefaultIdle
	Guard     int           // a process whose end ends all processes at once, even when no peer is there; 0 = none
}

// Inputs puts what tasks are to find into their folders.
type Inputs interface {
	// Place puts the inputs of a task's job into its work folder, which is new. It ends with ctx.
	// If it takes long, it calls say with how far it is, for people.
	Place(ctx context.Context, l taskstate.Launch, work string, say func(string)) error
}

// Secrets opens what a task is to find in its folder of secrets.
type Secrets interface {
	// Values are the secrets of a task by name. It ends with ctx.
	Values(ctx context.Context, l taskstate.Launch) (map[string][]byte, error)
}

// Stdin brings what a task is to read.
type Stdin interface {
	// Copy calls put with what follows offset at, piece by piece, and at the end with nothing;
	// before that ready, once, when it is certain that all of it is still there. It returns nil
	// after the end, and an error that says to a person why there is no more. It ends with ctx.
	Copy(ctx context.Context, l taskstate.Launch, at int64, ready func(), put func([]byte) error) error
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" || c.Report == nil {
		return c, errors.New("process: Dir and Report must be set")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	c.Dir = dir
	if c.LogCap <= 0 {
		c.LogCap = DefaultLogCap
	}
	if c.Grace <= 0 {
		c.Grace = DefaultGrace
	}
	if c.Starters <= 0 {
		c.Starters = 2 * runtime.GOMAXPROCS(0)
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}
