//go:build !amd64 && !386

package sandbox

import "syscall"

const sysSetns = syscall.SYS_SETNS
