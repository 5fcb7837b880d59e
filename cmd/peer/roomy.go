package main

import (
	"os"
	"runtime/debug"
	"time"
)

// A peer that starts meets everybody at once, which is much garbage on a small heap: the collector ran every few megabytes and took a third of
// what fifty peers cost until they knew each other. For its first moments a peer lets five times of what is in use gather instead of
// twice, which is some 30 MB more; after that, memory matters more.
const (
	roomyPercent = 400
	roomyTime    = 2 * time.Minute
)

// roomy begins those moments, and returns what ends them. Whoever sets GOGC has decided already.
func roomy() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was := debug.SetGCPercent(roomyPercent)
	t := time.AfterFunc(roomyTime, func() {
		debug.SetGCPercent(was)
		debug.FreeOSMemory()
	})
	return func() { t.Stop() }
}
