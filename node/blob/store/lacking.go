package store

import "github.com/coveyproject/covey/node/blob/piece"

// Damaged is set when some of what was here turned out not to be: what pins name may be lacking.
func (s *Store) Damaged() <-chan struct{} { return s.damaged }

// Repinned is set when pins were added or removed.
func (s *Store) Repinned() <-chan struct{} { return s.repinned }

// Lacking names the pins of which not all blobs are here whole.
func (s *Store) Lacking() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.pins {
		for _, root := range p.Roots {
			if b := s.shelf.blobs[root]; b == nil || !b.whole {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// Taken is how many bytes of the disk are taken by what may not go, and how many are for what is
// kept for others.
func (s *Store) Taken() (taken, quota int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shelf.bytes - s.shelf.loose, s.shelf.quota
}

// Cost is how many bytes of the disk are taken by what is here of some blobs.
func (s *Store) Cost(roots []piece.Root) (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counted := map[piece.Root]bool{}
	for _, root := range roots {
		if b := s.shelf.blobs[root]; b != nil && !counted[root] {
			counted[root] = true
			n += b.cost
		}
	}
	return n
}

// Tight tells whether nine tenths of the quota are taken by what may not go.
func (s *Store) Tight() bool {
	taken, quota := s.Taken()
	return quota > 0 && taken >= quota/10*9
}
