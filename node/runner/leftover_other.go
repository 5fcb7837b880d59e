//go:build !linux

package runner

import "covey/taskstate"

// endWriters: elsewhere nobody can tell who still has a file open.
func endWriters(string, taskstate.TaskID) bool { return true }
