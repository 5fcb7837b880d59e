//go:build !linux

package supervise

// Elsewhere there is no cheap and safe way to tell a process from a later one of the same number,
// so nothing is recorded, adopted or killed.

// BootID is "": not known here.
func BootID() string { return "" }

// KillByEnvironment kills nothing here.
func KillByEnvironment(func(task string) bool) int { return 0 }

// KillTasks kills nothing here.
func KillTasks(map[string]bool) int { return 0 }

func killTagged(map[string]bool) int { return 0 }

func termTagged(map[string]int) {}

func sinceBoot() int64 { return 0 }

func findOrphan(record) (process, bool) { return nil, false }
