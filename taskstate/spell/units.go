package spell

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// MaxDuration caps every duration a person may give: ten years.
const MaxDuration = 10 * 365 * 24 * time.Hour

// Caps on resources: above any machine, below any overflow when offers are added up.
const (
	MaxMilliCPU = 1_000_000_000
	MaxSize     = 1 << 60
)

// Duration reads "90s", "1h30m", "250ms", "2d" or "0", in whole milliseconds up to MaxDuration. The
// error says what is wanted.
func Duration(s string) (time.Duration, error) {
	if s == "0" {
		return 0, nil
	}
	days, rest, err := cutDays(s)
	var d time.Duration
	if err == nil && rest != "" {
		d, err = time.ParseDuration(rest)
	}
	switch total := days + d; {
	case s != "" && strings.Trim(s, "0123456789.") == "":
		return 0, fmt.Errorf("no unit: write %ss or %sm", Clip(s), Clip(s))
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("expected a duration of zero or more, got %q", Clip(s))
	case err != nil || s == "" || rest != "" && (rest[0] == '-' || rest[0] == '+'):
		return 0, fmt.Errorf("expected a duration in ms, s, m, h or d, as in 90s, 10m or 1h30m, got %q", Clip(s))
	case total > MaxDuration || total < 0:
		return 0, fmt.Errorf("the duration %s is longer than ten years", Clip(s))
	case total%time.Millisecond != 0:
		return 0, fmt.Errorf("the duration %s is not in whole milliseconds", Clip(s))
	default:
		return total, nil
	}
}

// Span writes milliseconds as Duration reads them: 1h30m, not 1h30m0s.
func Span(ms int64) string {
	s := (time.Duration(ms) * time.Millisecond).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Minute writes a moment, in milliseconds since 1970, as people read it: 2026-03-01 03:00 UTC.
func Minute(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04 MST") }

// cutDays takes "2d" off the front: the one unit time.ParseDuration does not know.
func cutDays(s string) (days time.Duration, rest string, err error) {
	number, rest, ok := strings.Cut(s, "d")
	if !ok {
		return 0, s, nil
	}
	n, err := strconv.ParseUint(number, 10, 16)
	return time.Duration(n) * 24 * time.Hour, rest, err
}

// sizeUnit gives the bytes of a unit. K, M and G alone are not units: half of the world means 1000
// and half 1024.
func sizeUnit(u string) (int64, bool) {
	switch strings.ToLower(u) {
	case "", "b":
		return 1, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	case "tb":
		return 1e12, true
	case "kib":
		return 1 << 10, true
	case "mib":
		return 1 << 20, true
	case "gib":
		return 1 << 30, true
	case "tib":
		return 1 << 40, true
	}
	return 0, false
}

// Size reads "256MiB", "1.5GB" or a plain number of bytes. The error says what is wanted.
func Size(s string) (int64, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(number):]
	number = strings.TrimRight(number, " ")
	v, ok := decimal(number)
	scale, known := sizeUnit(unit)
	switch {
	case ok && !known && len(unit) == 1 && strings.ContainsAny(unit, "kKmMgGtT"):
		u := strings.ToUpper(unit)
		return 0, fmt.Errorf("the unit of %s is unclear: say %s%sB (powers of 1000) or %s%siB (powers of 1024)", Clip(s), Clip(number), u, Clip(number), u)
	case !ok || !known:
		return 0, fmt.Errorf("expected a size in B, kB, MB, GB, TB or KiB, MiB, GiB, TiB, as in 256MiB or 1GB, got %q", Clip(s))
	case v*float64(scale) > MaxSize:
		return 0, fmt.Errorf("the size %s is too large", Clip(s))
	}
	n, err := strconv.ParseInt(number, 10, 64) // whole numbers exactly
	if err != nil {
		n, scale = int64(math.Round(v*float64(scale))), 1
	}
	if n*scale > MaxSize { // by so little that v does not show it
		return 0, fmt.Errorf("the size %s is too large", Clip(s))
	}
	return n * scale, nil
}

// CPUs reads "0.5", "2" or "500m" and returns thousandths of a cpu. The error says what is wanted.
func CPUs(s string) (int64, error) {
	number, milli := strings.CutSuffix(s, "m")
	v, ok := decimal(number)
	if !milli {
		v *= 1000
	}
	n := math.Round(v)
	switch {
	case !ok:
		return 0, fmt.Errorf("expected a number of cpus, as in 2, 0.5 or 500m, got %q", Clip(s))
	case n > MaxMilliCPU:
		return 0, fmt.Errorf("%s cpus are too many", Clip(s))
	case math.Abs(v-n) > 1e-6:
		return 0, fmt.Errorf("cpus are counted in thousandths; %s is finer than 0.001", Clip(s))
	}
	return int64(n), nil
}

// decimal reads digits with at most one point; no sign, no exponent, no infinity.
func decimal(s string) (float64, bool) {
	if strings.Trim(s, "0123456789.") != "" || !strings.ContainsAny(s, "0123456789") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

// Bytes is a number of bytes for people.
func Bytes(n int64) string {
	for _, u := range []struct {
		of   int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.of {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.of), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
