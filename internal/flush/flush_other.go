//go:build !linux

package flush

import "os"

// Data brings what was written in place to the disk.
func Data(f *os.File) error { return f.Sync() }

// Dir does nothing: not every system can. Who relies on a name looks for the file when it is
// needed.
func Dir(string) error { return nil }
