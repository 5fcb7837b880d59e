//go:build !linux

package process

// Elsewhere there is no cheap way to tell who writes a file.
func unwritten(string) bool { return true }
