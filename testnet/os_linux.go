package testnet

import (
	"os"
	"syscall"
)

// childAttr puts a peer into a process group of its own, so that a terminal's Ctrl-C reaches the testnet first, and has the
// system end it when the testnet's process dies without a word.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func interrupt(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
