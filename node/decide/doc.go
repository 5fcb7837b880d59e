// Package decide answers calls, as coordinator: it checks what the asker may ask, turns the call
// into commands of the ledger, and words what came of them. A call that finds this peer no longer
// leading is Lost: the caller tries again, at the next coordinator.
//
//	desk := decide.New(decide.Config{…})
//	reply, err := desk.Execute(ctx, call)   // from calls.Line, on the goroutine of the caller
//
// A Decider has no state of its own: all it knows it reads from the ledger, the roster and the
// coordinator's loop. It places no tasks, and holds nothing against who asks twice (calls.Line
// does).
package decide
