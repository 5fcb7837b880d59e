// Package runner runs one task to its end, whatever kind of task it is.
//
//	             ┌─► process ─► supervisor ─► processes
//	Start ► kind ┤                                        every report ─► reporter ─► sink
//	             └─► noop
//
// Each kind (taskstate.Run.Kind) has an Executor in a package of its own below; Runner hands a task
// to the one for its kind, and reports of all go to one sink, in order. What every executor
// promises is in the interface, and executor_test.go holds each of them to it. To add a kind: its
// field in taskstate.Run and its name in Kind, a package with an Executor, its line in New, and one
// in the table of executor_test.go. Where what it runs comes to a process of this machine in the
// end, the supervisor owns that too, or it would not outlive the peer: an executor then says how to
// prepare and start one, as process does in prepare, and what its end means, as in classify.
//
// The package does not queue by resources, retry, decide or talk to anybody: the worker starts what
// may run now.
package runner
