//go:build !linux

package sandbox

import "syscall"

// Run calls fork: nothing can be kept from anything here, so s is nil.
func Run(_ *Spec, fork func(attr *syscall.SysProcAttr) error) error {
	return fork(&syscall.SysProcAttr{})
}

// Try finds out what can be done here: nothing.
func Try(bool) Holds { return Holds{Why: "not on this system"} }

// Sealed tells whether rules could hide a folder: there are none.
func Sealed([]string) bool { return false }
