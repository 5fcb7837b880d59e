//go:build !linux

package sandbox

import "syscall"

// Run calls fork: nothing can be kept from anything here, so s is nil.
func Run(_ *Spec, _ func(func() error) error, fork func(attr *syscall.SysProcAttr, around *Space) error) error {
	return fork(&syscall.SysProcAttr{}, nil)
}

// Space is what a process has around it that sees no others: there is none.
type Space struct{}

// Over has nothing to end.
func (*Space) Kill() {}

// Try finds out what can be done here: nothing.
func Try(bool) Holds { return Holds{Why: "not on this system"} }

// Sealed tells whether rules could hide a folder: there are none.
func Sealed([]string) bool { return false }

// Barred is the first folder that keeps the user from a file: a process has no other user here.
func (*User) Barred(string) string { return "" }
