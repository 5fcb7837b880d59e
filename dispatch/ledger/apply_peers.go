package ledger

import (
	"maps"
	"slices"
)

// maxLabelBytes caps a label, name and value together.
const maxLabelBytes = 512

func (s *State) avail(c *Avail) Result {
	m := s.members[c.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case c.Grace < 0 || c.Availability != AvailActive && c.Availability != AvailPause && c.Availability != AvailDrain:
		return Result{Refused: CodeInvalid}
	}
	to := c.Availability
	if to == AvailActive {
		to = ""
	}
	if m.Availability == to && m.Grace == c.Grace && m.AvailReason == c.Reason {
		return Result{Existed: true}
	}
	m.Availability, m.Grace, m.AvailReason, m.AvailSince = to, c.Grace, c.Reason, s.stamp
	return Result{}
}

func (s *State) label(c *Label) Result {
	m := s.members[c.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case len(c.Set)+len(c.Unset) == 0:
		return Result{Refused: CodeInvalid}
	}
	set, removed := maps.Clone(m.Labels), slices.Clone(m.Removed) // what was handed out stays as it is
	if set == nil {
		set = map[string]string{}
	}
	for k, v := range c.Set {
		if k == "" || len(k)+len(v) > maxLabelBytes {
			return Result{Refused: CodeInvalid}
		}
		set[k] = v
		removed = slices.DeleteFunc(removed, func(x string) bool { return x == k })
	}
	for _, k := range c.Unset {
		if k == "" || len(k) > maxLabelBytes {
			return Result{Refused: CodeInvalid}
		}
		delete(set, k)
		removed = append(removed, k)
	}
	slices.Sort(removed)
	removed = slices.Compact(removed)
	switch {
	case len(set)+len(removed) > MaxLabels:
		return Result{Refused: CodeInvalid}
	case maps.Equal(set, m.Labels) && slices.Equal(removed, m.Removed):
		return Result{Existed: true}
	}
	m.Labels, m.Removed = set, removed
	if len(set) == 0 {
		m.Labels = nil
	}
	if len(removed) == 0 {
		m.Removed = nil
	}
	return Result{}
}
