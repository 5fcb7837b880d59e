package supervise

import (
	"time"
)

// How often the size of running tasks' output is looked at: normally, and once one was over the
// cap.
const (
	lookEvery     = 100 * time.Millisecond
	lookEveryOver = 10 * time.Millisecond
)

// watch keeps the output of what runs within its cap. It sleeps while nothing runs.
func (e *Engine) watch() {
	clock := time.NewTimer(time.Hour)
	defer clock.Stop()
	every := time.Hour
	for {
		select {
		case <-e.quit:
			return
		case <-e.wake:
			if every > lookEvery {
				every = lookEvery
				clock.Reset(every)
			}
			continue
		case <-clock.C:
		}
		every = e.enforceCaps()
		clock.Reset(every)
	}
}

// cut cuts what is over the cap and says when to look again.
func (e *Engine) enforceCaps() time.Duration {
	procs := e.present()
	if len(procs) == 0 {
		return time.Hour
	}
	every, short := lookEvery, e.shortage()
	for _, x := range procs {
		x.mu.Lock()
		if x.out != nil && !x.ended {
			x.out.secure(short)
			if x.out.look() {
				every = lookEveryOver
			}
		}
		x.mu.Unlock()
	}
	return every
}
