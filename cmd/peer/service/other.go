//go:build !windows

package service

import "context"

// Inside tells whether Windows started this process as a service.
func Inside() bool { return false }

// Run calls run; in a service of Windows its context ends when Windows says stop.
func Run(ctx context.Context, run func(context.Context) error) error { return run(ctx) }

// Windows is the Manager of Windows: nil elsewhere.
func Windows() Manager { return nil }
