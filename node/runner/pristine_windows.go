package runner

import (
	"errors"
	"io"
	"os"
)

// pristine tells whether a folder is empty.
func pristine(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

func rename(from, to string) error { return os.Rename(from, to) }
