package dispatch

import "covey/taskstate"

// Launch is everything a runner needs to run one attempt.
type Launch struct {
	Task  taskstate.TaskID
	Job   *taskstate.Job // without Each; shared, not to be changed
	Item  string
	Epoch taskstate.Epoch // of the assignment: with the attempt, the task's fencing token
	Index uint64          // ledger index of the assignment
	Peer  string          // this peer
}

// RunReport is what a runner says about one task: that it runs, or how it ended. After a final state nothing follows. Messages
// may be of any length and content: the worker makes them valid and short.
type RunReport struct {
	Task    taskstate.TaskID
	State   taskstate.State // between Accepted and Running, or final
	Exit    int             // taskstate.NoExit if there is none
	Signal  int
	Reason  taskstate.Reason
	Message string
	At      int64 // milliseconds since 1970; 0 means now
}

// Runner runs tasks. It is given a sink for its RunReports at construction – Worker.Report – and may call it from any
// goroutine, also before Start returns: a task that does nothing needs neither goroutine nor timer. Reports of one task come in
// order. The worker calls Reap, Start and Stop from one goroutine.
type Runner interface {
	// Start begins a task and returns at once. What goes wrong is reported as the task's end.
	Start(Launch)
	// Stop ends a task early and returns at once. Its end is reported as usual, as Shutdown with this reason.
	Stop(task taskstate.TaskID, reason taskstate.Reason)
	// Reap is called once, before anything is started: these tasks may have been running when this peer's last process ended.
	// When it returns, nothing of them runs any more. Nothing is reported about them.
	Reap(tasks []taskstate.TaskID)
}
