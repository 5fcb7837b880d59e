package supervise

import (
	"os"
	"runtime/debug"
)

// The environment variable that makes a process of this program a supervisor, and the command it
// shows in a list of processes.
const (
	beginEnv  = "COVEY_SUPERVISE"
	beginWord = "supervise"
)

// This is the one place of the program where something runs before main, and on purpose: the
// runtime initialises packages in the order of their paths as their imports allow, so that a
// supervisor is at work – and never comes back from here – before most of the peer's packages have
// touched their memory. It also makes every program that links this package, a test among them, its
// own supervisor. docs/adr/0010 has the measurements.
var _ = begin()

func begin() struct{} {
	if os.Getenv(beginEnv) == "" || len(os.Args) != 3 || os.Args[1] != beginWord {
		return struct{}{}
	}
	debug.SetGCPercent(25)
	os.Exit(superviseMain(os.Args[2]))
	return struct{}{}
}
