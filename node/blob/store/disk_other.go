//go:build !linux

package store

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

const nonBlock = 0

// reserve keeps no room here: what is written takes it.
func reserve(*os.File, int64) error { return nil }

func (onDisk) clone(*os.File) error { return errors.ErrUnsupported }

func (*folder) link(*os.File, string) error { return errors.ErrUnsupported }

func (*folder) syncAll() error { return errors.ErrUnsupported }

// usedAt is when a file was written: how long ago it was read is not known here.
func usedAt(i fs.FileInfo) time.Time { return i.ModTime() }

func takenAt(i fs.FileInfo) int64 { return i.Size() }

func (f onDisk) zero(off, n int64) error { return f.writeZeros(off, n) }

func onlyName(fs.FileInfo) bool { return false }
