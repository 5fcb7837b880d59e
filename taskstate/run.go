package taskstate

// Launch is everything a runner needs to run one attempt. The worker makes it and never changes it afterwards.
type Launch struct {
	Task  TaskID
	Job   *Job   // shared by all tasks of the job: read only; may come without Each
	Item  string // the item of this slot, "" if the job has none
	Epoch Epoch  // of the assignment: the fencing token in the task's environment
	Index uint64 // ledger index of the assignment
	Peer  string // name or id of the peer it runs on, for its environment
}

// RunReport is what a runner saw of a task. For one task they come in order: Running at most once, then exactly one end. A task
// that ends before it ran has no Running.
type RunReport struct {
	Task    TaskID
	State   State // Running, or an end
	Exit    int   // exit code, NoExit if there is none
	Signal  int   // number of the signal that ended it, 0 if none
	Reason  Reason
	Message string // for people; at most MaxMessage bytes
	At      int64  // the local clock, milliseconds since 1970
}
