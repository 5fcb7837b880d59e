package spell_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/taskstate/spell"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "17": 17, "17B": 17, "1kB": 1000, "1KB": 1000, "256MiB": 256 << 20, "256mib": 256 << 20, "1GB": 1e9, "1.5GiB": 3 << 29, "2 GB": 2e9,
		"1TiB": 1 << 40, "0.5KiB": 512, "1152921504606846975": 1<<60 - 1, "1152921504606846976": 1 << 60, "1048576TiB": 1 << 60,
	} {
		if got, err := spell.Size(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for in, says := range map[string]string{
		"": "expected a size", "MiB": "expected a size", "-1GB": "expected a size", "1e9": "expected a size", "1 2GB": "expected a size", "1PB": "expected a size", "1..5GB": "expected a size",
		"256M": "256MB (powers of 1000) or 256MiB", "1g": "1GB", "9999999TiB": "too large", "99999999999999999999": "too large", "1152921504606846977": "too large", "1125899906842625KiB": "too large", "NaN": "expected a size", ".": "expected a size",
		strings.Repeat("x", 100): "…",
	} {
		if _, err := spell.Size(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", in, err, says)
		}
	}
}

func TestDurations(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "90s": 90 * time.Second, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
		"2d": 48 * time.Hour, "1d12h": 36 * time.Hour, "3650d": spell.MaxDuration,
	} {
		if got, err := spell.Duration(in); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
	for in, says := range map[string]string{
		"": "expected a duration", "10": "10s or 10m", "1.5": "no unit", "ten": "expected a duration", "-1s": "zero or more", "1d-1h": "expected a duration", "1d+1h": "expected a duration",
		"1us": "whole milliseconds", "3651d": "ten years", "99999d": "expected a duration", "999999999h": "expected a duration", "1.5d": "expected a duration", "d": "expected a duration",
		"10 s": "expected a duration", "1h 5m": "expected a duration", "+5s": "expected a duration", strings.Repeat("1", 100): "…s or",
	} {
		if _, err := spell.Duration(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", in, err, says)
		}
	}
}

func TestCPUs(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1": 1000, "0.5": 500, ".25": 250, "500m": 500, "1.001": 1001, "0.001": 1, "1500m": 1500, "1000000": 1e9} {
		if got, err := spell.CPUs(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for in, says := range map[string]string{
		"": "expected a number", "-1": "expected a number", "1e3": "expected a number", "two": "expected a number", "inf": "expected a number", "m": "expected a number",
		"0.0005": "finer than 0.001", "0.5m": "finer", "1000001": "too many",
	} {
		if _, err := spell.CPUs(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", in, err, says)
		}
	}
}

func TestUnitsAgreeWithTheirSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<50).Draw(t, "bytes")
		if got, err := spell.Size(fmt.Sprint(n)); err != nil || got != n {
			t.Fatalf("%d bytes: %d, %v", n, got, err)
		}
		m := rapid.Int64Range(0, 1e9).Draw(t, "milli")
		if got, err := spell.CPUs(fmt.Sprintf("%d.%03d", m/1000, m%1000)); err != nil || got != m {
			t.Fatalf("%d thousandths: %d, %v", m, got, err)
		}
		d := time.Duration(rapid.Int64Range(0, spell.MaxDuration.Milliseconds()).Draw(t, "ms")) * time.Millisecond
		if got, err := spell.Duration(d.String()); err != nil || got != d {
			t.Fatalf("%v: %v, %v", d, got, err)
		}
	})
}

func FuzzUnits(f *testing.F) {
	for _, s := range []string{"1.5GiB", "1h30m", "500m", "2d", "-", "1e9", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := spell.Size(s); err == nil && n < 0 {
			t.Errorf("size %q is %d", s, n)
		}
		if d, err := spell.Duration(s); err == nil && (d < 0 || d > spell.MaxDuration || d%time.Millisecond != 0) {
			t.Errorf("duration %q is %v", s, d)
		}
		if n, err := spell.CPUs(s); err == nil && n < 0 {
			t.Errorf("cpus %q are %d", s, n)
		}
	})
}

func TestTheNearestWordIsAFewSlipsAway(t *testing.T) {
	words := []string{"peer.os", "peer.arch", "peer.memory"}
	for in, want := range map[string]string{
		"peer.os": "peer.os", "peer.so": "peer.os", "PEER.OSS": "peer.os", "peer.memroy": "peer.memory", "machine.kind": "", "": "", "zzzz": "", strings.Repeat("p", 65): "",
	} {
		if got := spell.Nearest(in, words); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestWhatIsQuotedInAnErrorIsShort(t *testing.T) {
	for in, want := range map[string]string{"": "", "ä": "ä", strings.Repeat("ä", 40): strings.Repeat("ä", 40), strings.Repeat("ä", 41): strings.Repeat("ä", 39) + "…"} {
		if got := spell.Clip(in); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestNamesAreEnumeratedAsInASentence(t *testing.T) {
	for want, names := range map[string][]string{"": nil, "a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}} {
		if got := spell.Enumerate(names); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
