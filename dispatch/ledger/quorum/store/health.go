package store

import (
	"fmt"
	"time"
)

// Look is how often a goroutine that waits for the disk looks whether it is stuck.
const Look = 500 * time.Millisecond

// stuckAfter is how long a write may take before its disk counts as stuck. Disks of busy machines
// take a second at times.
const stuckAfter = 5 * time.Second

// Stuck tells for how long a write has been under way, if that is longer than it should be.
func (s *Log) Stuck() (time.Duration, bool) {
	at := s.since.Load()
	if at == nil {
		return 0, false
	}
	d := time.Since(*at)
	return d, d >= stuckAfter
}

// Await waits until done is closed, but not for a disk that is stuck: what waits for that is left
// behind, and ends when the disk answers.
func (s *Log) Await(done <-chan struct{}) {
	t := time.NewTicker(Look)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			if _, yes := s.Stuck(); yes {
				return
			}
		}
	}
}

// Health is nil, or why the log is not written at the moment.
func (s *Log) Health() error {
	if d, yes := s.Stuck(); yes {
		return fmt.Errorf("a write to the ledger's log in %s has not come back for %s: the disk is stuck", s.cfg.Dir, d.Round(time.Second))
	}
	if err := s.trouble.Load(); err != nil {
		return fmt.Errorf("the ledger's log in %s cannot be written: %w", s.cfg.Dir, *err)
	}
	return nil
}

// Busy tells whether a write is under way, or the last one failed, so that there is something to
// see soon.
func (s *Log) Busy() bool { return s.since.Load() != nil || s.trouble.Load() != nil }
