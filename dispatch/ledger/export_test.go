package ledger

// Kept is what the finished jobs are taken to weigh.
func (s *State) Kept() int { return s.kept }

// Forms is how many different ends a job keeps.
func (j *JobRecord) Forms() int { return len(j.kinds.list) }

// Unchained is the state without its rolling checksum, which every entry changes, whatever it comes
// to.
func (s *State) Unchained() *State {
	s.chain = chain{}
	return s
}
