package worker

import "covey/taskstate"

// Runner runs tasks. It is given a sink for its reports at construction – Loop.Report – and may
// call it from any goroutine, also before Start returns: a task that does nothing needs neither
// goroutine nor timer. Reports of one task come in order; after a final one nothing follows. The
// worker calls Adopt, Start, Stop and Kept one at a time.
type Runner interface {
	// Start begins a task and returns at once. What goes wrong is reported as the task's end.
	Start(taskstate.Launch)
	// Stop ends a task early and returns at once. Its end is reported as usual, as Shutdown with
	// this reason.
	Stop(task taskstate.TaskID, reason taskstate.Reason)
	// Adopt is called once, before anything is started: these tasks may have been started by an
	// earlier process of this peer, and nobody has its end. Those that still run are taken up again
	// and those that ended meanwhile are reported, as if they had been started just now. It returns
	// the others: of these nothing runs when it returns, and nothing is reported.
	Adopt(tasks []taskstate.Launch) (lost []taskstate.Loss)
	// Kept says that the ends of these tasks – processes, not no-ops – are in the journal. Until
	// then they may be told again by Adopt.
	Kept(tasks []taskstate.TaskID)
}
