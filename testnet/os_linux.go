package testnet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr puts a peer into a process group of its own, so that a terminal's Ctrl-C reaches the
// testnet first, and has the system end it when the testnet's process dies without a word.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func interrupt(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// strayProcesses lists the processes whose command line has the word.
func strayProcesses(word string) (out []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if words := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"); err == nil && slices.Contains(words, word) {
			out = append(out, filepath.Dir(p)+" "+strings.Join(words, " "))
		}
	}
	return out
}

// reserve keeps room for a file, if the file system can.
func reserve(f *os.File, n int64) { _ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, n) }
