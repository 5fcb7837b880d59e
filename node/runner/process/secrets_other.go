//go:build !linux

package process

import "os"

// memoryFolders are none: there is no file system in memory that is always there.
func memoryFolders() []string { return nil }

func ours(os.FileInfo) bool { return true }

// Where there is no file system in memory, secrets are in the data folder and go with it.
func (*vault) noted(string)       {}
func (vault) released()           {}
func (vault) sweepNobodys() error { return nil }
