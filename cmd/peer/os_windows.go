package main

import "syscall"

// detachedProcess is DETACHED_PROCESS of CreateProcess.
const detachedProcess = 0x00000008

// ownSession detaches a child from this console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
