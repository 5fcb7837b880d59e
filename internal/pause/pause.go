// Package pause waits as long as its caller has time.
package pause

import (
	"context"
	"time"
)

// For waits for d, or until ctx is done, and returns ctx's error then. Without a positive d it
// returns at once, with ctx's error if it is done already.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
