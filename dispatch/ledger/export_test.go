package ledger

import (
	"iter"
	"slices"
)

// PendingSlots yields what nobody has, in runs of one attempt, ascending.
func (j *JobRecord) PendingSlots() iter.Seq[Slots] { return slices.Values(j.slots.pending) }

// Kept is what the finished jobs are taken to weigh.
func (s *State) Kept() int { return s.book.finished.bytes }

// EndKinds is how many different ends a job keeps.
func (j *JobRecord) EndKinds() int { return len(j.slots.kinds.list) }

// Conflicts counts ends that came after another end had been decided for the same task.
func (j *JobRecord) Conflicts() int { return j.past.conflicts }

// NotBefore is the ledger stamp before which a slot that waits does not start; 0 = at once.
func (j *JobRecord) NotBefore(slot int) int64 { return j.slots.extrasOf(slot).NotBefore }

// Chain tells with which entry the rolling checksum over what was applied begins – 0: it has not
// begun – and what it is now.
func (s *State) Chain() (from uint64, sum []byte) { return s.chain.from, s.chain.sum[:] }

// Unchained is the state without its rolling checksum, which every entry changes, whatever it comes
// to.
func (s *State) Unchained() *State {
	s.chain = chain{}
	return s
}

// Forge changes a member behind the ledger's back.
func (s *State) Forge(peer string, change func(*Member)) { change(s.roster.members[peer]) }

// ChainOver is the checksum after an entry that came to these results.
func ChainOver(results ...Result) [32]byte {
	c := chain{from: 1}
	c.extend(&Entry{Index: 2}, nil, results)
	return c.sum
}
