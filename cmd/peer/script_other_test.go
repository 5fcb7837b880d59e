//go:build unix && !linux

package main

import (
	"errors"
	"syscall"
)

// programs are what this test binary is under other names.
func programs() map[string]func() { return map[string]func(){"peer": main} }

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func killBelow(string) {}

func mountTmpfs(string, string) error { return errors.ErrUnsupported }

func bindReadOnly(string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

func canMountTmpfs() bool { return false }

// disk is what only Linux has.
type disk struct{}

func makeDisk(string, int64) (*disk, error) { return nil, errors.ErrUnsupported }

func (*disk) breakDown() error { return errors.ErrUnsupported }
func (*disk) freeze() error    { return errors.ErrUnsupported }
func (*disk) thaw() error      { return errors.ErrUnsupported }
func (*disk) remove()          {}

func canMakeDisks() bool { return false }

func movedBytes(int) (read, written int64, err error) { return 0, 0, errors.ErrUnsupported }

func limitFiles(int, uint64, bool) error { return errors.ErrUnsupported }
