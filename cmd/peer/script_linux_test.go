package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// childAttr lets a child end with the test, however that ends.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// killBelow kills every process that works in a folder below dir: detached peers, and tasks of peers that were killed.
func killBelow(dir string) {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, l := range links {
		at, err := os.Readlink(l)
		if err != nil || !strings.HasPrefix(at+"/", dir+"/") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(l))); err == nil && pid != os.Getpid() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

func mountTmpfs(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

// canMountTmpfs tries it: being root is not enough in most containers.
func canMountTmpfs() bool {
	dir, err := os.MkdirTemp("", "covey-mount-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	if mountTmpfs(dir, "64k") != nil {
		return false
	}
	return unmount(dir) == nil
}
