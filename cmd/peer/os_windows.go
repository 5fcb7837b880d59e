package main

import (
	"os"
	"syscall"
)

// hungUp is not known here.
func hungUp(*os.File) bool { return false }

func writeOnly(*os.File) bool { return false }

// ownerOf is not known here.
func ownerOf(string) (uid int, known bool) { return 0, false }

// detachedProcess is DETACHED_PROCESS of CreateProcess.
const detachedProcess = 0x00000008

// ownSession detaches a child from this console.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}
