package stdin

import (
	"context"
	"time"

	"covey/internal/pause"
)

// pauseFor lets virtual time pass.
func pauseFor(d time.Duration) { _ = pause.For(context.Background(), d) }
