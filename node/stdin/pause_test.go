package stdin

import (
	"context"
	"time"

	"github.com/coveyproject/covey/internal/pause"
)

// pauseFor lets virtual time pass.
func pauseFor(d time.Duration) { _ = pause.For(context.Background(), d) }
