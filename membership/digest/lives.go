package digest

// Current says which incarnation of an author counts: the one whose tasks others wait for. Its
// stream gives way to none of an incarnation that is over. Until something is said of an author,
// all its incarnations are alike. A peer that follows the ledger calls it, and for itself the maker
// of the Store.
func (s *Store) Current(author, incarnation string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := (Stream{Author: author, Incarnation: incarnation}); k.sane() {
		s.current[author] = incarnation
	}
}

// counts tells whether a stream is of an incarnation that counts.
func (s *Store) counts(k Stream) bool {
	inc, known := s.current[k.Author]
	return known && inc == k.Incarnation
}

// Newest is the mark of each author's incarnation that counts.
func (s *Store) Newest() (out []Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, st := range s.streams {
		if s.counts(k) {
			out = append(out, st.mark(k))
		}
	}
	return out
}

// stream finds or makes a stream; a new one may push out one that was silent longest.
func (s *Store) stream(k Stream) *stream {
	if st := s.streams[k]; st != nil {
		return st
	}
	siblings, full := 0, len(s.streams) >= maxStreams
	var eldest, eldestSibling victim
	if len(s.streams) >= maxIncarnations {
		for o, st := range s.streams {
			sibling := o.Author == k.Author
			if sibling {
				siblings++
			}
			if !sibling && !full {
				continue
			}
			v := victim{name: o, stream: st, counts: s.counts(o)}
			if sibling && v.before(eldestSibling) {
				eldestSibling = v
			}
			if full && v.before(eldest) {
				eldest = v
			}
		}
	}
	switch {
	case siblings >= maxIncarnations:
		s.drop(eldestSibling.name)
	case full:
		s.drop(eldest.name)
	}
	st := &stream{}
	s.streams[k] = st
	return st
}

// victim is a stream that may be pushed out.
type victim struct {
	name   Stream
	stream *stream // nil: none yet
	counts bool
}

// before tells whether a stream is to be pushed out before another: those of incarnations that are
// over go first, and of equals the one that was silent longest. When something was added says
// nothing of whether its author lives: an exchange brings what is long over, too.
func (v victim) before(o victim) bool {
	if o.stream == nil || v.counts != o.counts {
		return o.stream == nil || o.counts
	}
	return v.stream.used < o.stream.used
}

// room is what a Store has left for streams that others tell of. It is good for one look at their
// marks.
type room struct {
	s        *Store
	siblings map[string]int
	all      int
}

func (s *Store) room() *room { return &room{s: s} }

// takes tells whether a stream that is not here is worth having: for one that counts others make
// room, and any other must find some. Else peers that hold different ones of an author with many
// incarnations would go on exchanging them for ever.
func (r *room) takes(k Stream) bool {
	if r.s.counts(k) {
		return true
	}
	if r.siblings == nil {
		r.siblings, r.all = map[string]int{}, len(r.s.streams)
		for o := range r.s.streams {
			r.siblings[o.Author]++
		}
	}
	if r.siblings[k.Author] >= maxIncarnations || r.all >= maxStreams {
		return false
	}
	r.siblings[k.Author]++
	r.all++
	return true
}
