package saver_test

import (
	"os"
	"testing"
)

// TestMain runs tests whose folders are in memory, where there is some: a sync costs nothing there.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("/dev/shm", "covey-saver-")
	if err == nil {
		_ = os.Setenv("TMPDIR", dir)
	}
	code := m.Run()
	if err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}
