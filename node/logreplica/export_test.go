package logreplica

// Taken is how much copies take, as it is counted.
func (s *Store) Taken() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}
