//go:build !linux

package testnet

import (
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

// interrupt asks a peer to end; where there is no such signal (Windows), it is killed.
func interrupt(p *os.Process) error {
	if err := p.Signal(syscall.SIGTERM); err == nil {
		return nil
	}
	return p.Kill()
}

// strayProcesses cannot look on systems without /proc.
func strayProcesses(string) []string { return nil }

func reserve(*os.File, int64) {}
