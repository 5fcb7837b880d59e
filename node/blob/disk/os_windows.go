package disk

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

const (
	noWaiting = 0
	hasExec   = false
	// An open file cannot be renamed.
	closeFirst = true
)

// fits tells whether a path means here what it means in a tree.
func fits(path string) bool { return !strings.ContainsAny(path, `\:`) }

func slashed(target string) string   { return filepath.ToSlash(target) }
func unslashed(target string) string { return filepath.FromSlash(target) }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// freeBytes is not asked for here: a full disk shows when it is.
func freeBytes(*os.Root) int64 { return math.MaxInt64 }

// createPart makes a file; one that was left behind goes, and one that is open cannot.
func createPart(dir *os.Root, name string, mode fs.FileMode) (*os.File, error) {
	if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// LinkInto is not to be had here.
func LinkInto(*os.File, string, *os.Root, string) error { return errors.ErrUnsupported }
