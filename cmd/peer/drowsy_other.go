//go:build !linux

package main

import "context"

// drowse does something on Linux only.
func drowse(context.Context) {}
