package jobfile

import (
	"time"

	"covey/taskstate/spell"
)

// MaxDuration caps every duration a person may give: ten years.
const MaxDuration = spell.MaxDuration

// Caps on resources: above any machine, below any overflow when offers are added up.
const (
	maxMilliCPU = spell.MaxMilliCPU
	maxSize     = spell.MaxSize
)

// ParseDuration reads "90s", "1h30m", "250ms", "2d" or "0", in whole milliseconds up to MaxDuration. The error says what is wanted.
func ParseDuration(s string) (time.Duration, error) { return spell.Duration(s) }

// ParseSize reads "256MiB", "1.5GB" or a plain number of bytes. The error says what is wanted.
func ParseSize(s string) (int64, error) { return spell.Size(s) }

// ParseCPUs reads "0.5", "2" or "500m" and returns thousandths of a cpu. The error says what is wanted.
func ParseCPUs(s string) (int64, error) { return spell.CPUs(s) }

func clip(s string) string { return spell.Clip(s) }
