package dispatch

import "covey/taskstate"

// Runner runs tasks. It is given a sink for its reports at construction – Worker.Report – and may call it from any goroutine,
// also before Start returns: a task that does nothing needs neither goroutine nor timer. Reports of one task come in order; after
// a final one nothing follows. The worker calls Reap, Start and Stop from one goroutine.
type Runner interface {
	// Start begins a task and returns at once. What goes wrong is reported as the task's end.
	Start(taskstate.Launch)
	// Stop ends a task early and returns at once. Its end is reported as usual, as Shutdown with this reason.
	Stop(task taskstate.TaskID, reason taskstate.Reason)
	// Reap is called at most once, before anything is started: these tasks may have been running when this peer's last process
	// ended. When it returns, nothing of them runs any more; it tells how many processes it ended. Nothing is reported about them.
	Reap(tasks []taskstate.TaskID) (killed int)
}
