//go:build !linux

package atomicfile

import "os"

// FlushData brings what was written in place to the disk.
func FlushData(f *os.File) error { return f.Sync() }

// FlushDir does nothing: not every system can. Who relies on a name looks for the file when it is
// needed.
func FlushDir(string) error { return nil }
