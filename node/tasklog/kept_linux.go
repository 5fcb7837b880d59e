package tasklog

import (
	"os"

	"golang.org/x/sys/unix"
)

// keptFrom is where that begins, from an offset on, which was not dropped.
func keptFrom(f *os.File, at int64) int64 {
	from, err := f.Seek(at, unix.SEEK_DATA) // reading is by offset: nobody minds where the file stands
	if err != nil {
		return at // its end, or a disk that cannot say: then nothing is dropped
	}
	return from
}
