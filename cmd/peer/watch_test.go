package main

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAWatchAsksAgainWithinASecondWhateverItsPeerDidBefore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wait := watchRetryFirst / 2
		for _, answered := range rapid.SliceOf(rapid.Bool()).Draw(t, "answered") {
			was := wait
			if wait = nextRetry(wait, answered); wait > time.Second || wait < 100*time.Millisecond || answered && wait > was && was > watchRetryFirst {
				t.Fatalf("after %s, answered %t: %s", was, answered, wait)
			}
		}
	})
}
