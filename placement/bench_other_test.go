//go:build !unix

package placement_test

import "time"

// processorTime is not asked for here.
func processorTime() time.Duration { return 0 }
