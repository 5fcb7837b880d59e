package digest

import "slices"

// Marks is how far this store is, sorted by stream.
func (s *Store) Marks() []Mark {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Mark, 0, len(s.streams))
	for k, st := range s.streams {
		out = append(out, st.mark(k))
	}
	slices.SortFunc(out, func(a, b Mark) int { return a.Stream.compare(b.Stream) })
	return out
}

// Mark is how far this store is with one stream.
func (s *Store) Mark(author, incarnation string) Mark {
	k := Stream{Author: author, Incarnation: incarnation}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[k]
	if st == nil {
		return Mark{Stream: k}
	}
	return st.mark(k)
}

func (st *stream) mark(k Stream) Mark {
	return Mark{Stream: k, Floor: st.floor, Contiguous: st.contiguous, Top: max(st.top, st.contiguous)}
}

// Believe takes over what another peer says is settled, as far as it may (see the package doc).
func (s *Store) Believe(from string, theirs []Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.room()
	for _, m := range theirs {
		st := s.streams[m.Stream]
		switch {
		case m.Floor == 0 || m.Floor > maxNumber || !m.Stream.sane(): // nothing may get in here that does not fit the next frame
		case m.Stream.Author == from && (st != nil || room.takes(m.Stream)):
			s.retire(s.stream(m.Stream), m.Floor)
		case st != nil:
			s.retire(st, min(m.Floor, st.top))
		}
	}
}

// Wants is what another peer, going by its marks, may have and this store has not, as far as there
// is room for its stream.
func (s *Store) Wants(theirs []Mark) []Range {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Range
	room := s.room()
	for _, m := range theirs {
		if !m.Stream.sane() || m.Top > maxNumber {
			continue
		}
		st := s.streams[m.Stream]
		if st == nil {
			st = &stream{}
		}
		holes := st.holes(m)
		if len(holes) > 0 && (s.streams[m.Stream] != nil || room.takes(m.Stream)) {
			out = append(out, holes...)
		}
	}
	return out
}

// Reached asks another peer, going by its marks, for the newest envelope of those streams of an
// author of which all is settled there, if this store has not seen it. An author asks so for its
// own: its signature shows that it has used that number, which its journal does not tell if an
// older copy of it was put back. What it says under a number that was settled before nobody takes
// in.
func (s *Store) Reached(author string, theirs []Mark) (out []Range) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range theirs {
		if m.Stream.Author != author || !m.Stream.sane() || m.Top > maxNumber || m.Floor < m.Top {
			continue
		}
		seen := uint64(0)
		if st := s.streams[m.Stream]; st != nil {
			seen = st.top
		}
		if seen < m.Top { // the other's newest may be below its mark
			out = append(out, Range{Stream: m.Stream, From: seen + 1, To: m.Top})
		}
	}
	return out
}

// holes lists what is missing here between the marks of both, lowest first.
func (st *stream) holes(m Mark) (out []Range) {
	next := max(st.contiguous, min(m.Floor, m.Top)) + 1
	i, _ := st.find(next)
	for _, e := range st.held[i:] {
		if e.Number > m.Top || len(out) == maxRanges {
			break
		}
		if e.Number > next {
			out = append(out, Range{Stream: m.Stream, From: next, To: e.Number - 1})
		}
		next = e.Number + 1
	}
	if next <= m.Top && len(out) < maxRanges {
		out = append(out, Range{Stream: m.Stream, From: next, To: m.Top})
	}
	return out
}

// Missing answers wants: what is held of them, in order, up to about budget bytes. more tells that
// the budget ended it.
func (s *Store) Missing(wants []Range, budget int) (out []Envelope, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range wants {
		st := s.streams[r.Stream]
		if st == nil || r.From == 0 {
			continue
		}
		i, _ := st.find(r.From)
		for ; i < len(st.held) && st.held[i].Number <= r.To; i++ {
			if budget -= st.held[i].size(); budget < 0 && len(out) > 0 {
				return out, true
			}
			out = append(out, st.held[i])
		}
	}
	return out, false
}
