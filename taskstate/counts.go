package taskstate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Counts is how many there are of things that are counted by name: "gpus=2,license=1". It is kept
// as text in one canonical form – names ascending, no zeroes – so that it can be compared and used
// as a key like any other part of Resources. "" is none of anything. Numbers may be negative where
// more is promised than offered.
type Counts string

// Bounds of Counts from outside.
const (
	MaxCounts    = 16      // names
	MaxCountOf   = 1 << 20 // of one thing
	maxCountName = 63      // bytes
)

// GPUs is the name under which resources.gpus is counted.
const GPUs = "gpus"

// CountsOf makes Counts of a map; zeroes are left out. Names are those that CheckCountName accepts.
func CountsOf(m map[string]int64) Counts {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if m[name] == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name)
		b.WriteByte('=')
		b.WriteString(strconv.FormatInt(m[name], 10))
	}
	return Counts(b.String())
}

// Map is the counts by name; nil for none.
func (c Counts) Map() map[string]int64 {
	if c == "" {
		return nil
	}
	m := map[string]int64{}
	for part := range strings.SplitSeq(string(c), ",") {
		name, n, _ := strings.Cut(part, "=")
		m[name], _ = strconv.ParseInt(n, 10, 64)
	}
	return m
}

// Of is the number of one thing. Placement asks it for every peer: nothing is allocated.
func (c Counts) Of(name string) int64 {
	for rest := string(c); rest != ""; {
		var part string
		part, rest, _ = strings.Cut(rest, ",")
		if key, n, _ := strings.Cut(part, "="); key == name {
			of, _ := strconv.ParseInt(n, 10, 64)
			return of
		}
	}
	return 0
}

// Check tells what is wrong with counts from outside: their form, a name, or a number below one or
// too large.
func (c Counts) Check() error {
	m := c.Map()
	if len(m) > MaxCounts {
		return fmt.Errorf("%d named counts, at most %d are allowed", len(m), MaxCounts)
	}
	for name, n := range m {
		if err := CheckCountName(name); err != nil {
			return err
		}
		if n < 1 || n > MaxCountOf {
			return fmt.Errorf("%s: expected 1 to %d, got %d", name, MaxCountOf, n)
		}
	}
	if CountsOf(m) != c {
		return fmt.Errorf("%q is not in canonical form", string(c))
	}
	return nil
}

// CheckCountName tells what is wrong with the name of something counted. Code that makes Counts of
// names from outside asks it first: a name with a comma or an equals sign in it would read as
// several.
func CheckCountName(name string) error {
	switch name {
	case "cpus", "memory", "disk":
		return fmt.Errorf("%s is no count: it is said by itself, as in --%s", name, name)
	}
	if !validCountName(name) {
		return fmt.Errorf("%.80q is no name of a count: expected 1 to %d characters a-z, 0-9, _ and -, beginning with a letter", name, maxCountName)
	}
	return nil
}

func validCountName(s string) bool {
	return s != "" && len(s) <= maxCountName && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// Add returns the sum.
func (c Counts) Add(o Counts) Counts {
	if o == "" {
		return c
	}
	if c == "" {
		return o
	}
	m := c.Map()
	for name, n := range o.Map() {
		m[name] += n
	}
	return CountsOf(m)
}

// Times returns n times c.
func (c Counts) Times(n int64) Counts {
	if c == "" || n == 1 {
		return c
	}
	m := c.Map()
	for name := range m {
		m[name] *= n
	}
	return CountsOf(m)
}

// Fits tells whether a need fits into what is free. What is not asked for never stands in the way.
func (c Counts) Fits(free Counts) bool {
	if c == "" {
		return true
	}
	have := free.Map()
	for name, n := range c.Map() {
		if n > have[name] {
			return false
		}
	}
	return true
}

// MarshalJSON writes an object: {"gpus": 2}.
func (c Counts) MarshalJSON() ([]byte, error) { return json.Marshal(c.Map()) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Counts) UnmarshalJSON(b []byte) error {
	var m map[string]int64
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	for name := range m {
		if err := CheckCountName(name); err != nil {
			return err
		}
	}
	*c = CountsOf(m)
	return c.Check()
}
