//go:build unix && !linux

package main

import (
	"errors"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

func killBelow(string) {}

func mountTmpfs(string, string) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

func canMountTmpfs() bool { return false }
