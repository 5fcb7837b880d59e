//go:build !linux

package sandbox

// Groups are control groups: there are none here.
type Groups struct{}

// Group is one of them.
type Group struct{ N int }

// Take is nil: there is no group.
func (*Groups) Acquire() *Group { return nil }

// Adopt is nil: there is no group.
func (*Groups) Adopt(int) *Group { return nil }

// Sweep has nothing to end.
func (*Groups) Sweep(map[int]bool) {}

// Close has nothing to remove.
func (*Groups) Close() {}

// Over has nothing to end.
func (*Group) Kill() {}
