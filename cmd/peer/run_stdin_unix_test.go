//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStdinIsPassedOnUnlessItIsEmptyOrCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	full, fifo := filepath.Join(dir, "full"), filepath.Join(dir, "fifo")
	if err := os.WriteFile(full, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		mode   int
		passed bool
		says   string
	}{
		{full, os.O_RDONLY, true, ""},
		{full, os.O_RDWR, true, ""},
		{full, os.O_WRONLY, false, "it is open for writing only"},
		{fifo, os.O_RDWR, true, ""},
		{dir, os.O_RDONLY, false, "it is a folder"},
		{"/dev/zero", os.O_RDONLY, true, ""},
		{os.DevNull, os.O_RDONLY, false, ""},
		{os.DevNull, os.O_WRONLY, false, ""}, // as nohup leaves it
	} {
		f, err := os.OpenFile(c.path, c.mode, 0)
		if err != nil {
			t.Fatal(err)
		}
		passed, err := (&stdinFlags{}).passed(f, &runFlags{})
		if passed != c.passed || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, mode %d: %v, %v", c.path, c.mode, passed, err)
		}
		if passed, err := (&stdinFlags{no: true}).passed(f, &runFlags{}); passed || err != nil {
			t.Errorf("%s, mode %d, with --no-stdin: %v, %v", c.path, c.mode, passed, err)
		}
		_ = f.Close()
	}
}
