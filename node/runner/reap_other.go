//go:build !linux

package runner

import "covey/taskstate"

// Elsewhere there is no cheap and safe way to tell a process from a later one of the same number, so nothing is recorded or killed.
func bootID() string { return "" }

func sinceBoot() int64 { return 0 }

func killGroup(record) bool { return false }

func killByEnvironment(func(taskstate.TaskID) bool) int { return 0 }

func unwritten(string) bool { return true }
