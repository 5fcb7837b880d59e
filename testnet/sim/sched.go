package sim

import "time"

// scheduler is virtual time: a heap of what is to happen. Of two things at the same moment the one
// planned first comes first.
type scheduler struct {
	now  time.Duration
	seq  uint64
	done uint64
	hash uint64
	heap []planned
}

type planned struct {
	at  time.Duration
	seq uint64
	f   func()
}

func (p planned) before(o planned) bool { return p.at < o.at || p.at == o.at && p.seq < o.seq }

func (s *scheduler) at(t time.Duration, f func()) {
	s.seq++
	s.heap = append(s.heap, planned{t, s.seq, f})
	i := len(s.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !s.heap[i].before(s.heap[up]) {
			break
		}
		s.heap[i], s.heap[up] = s.heap[up], s.heap[i]
		i = up
	}
}

// next lets the next thing happen; false if there is none.
func (s *scheduler) next() bool {
	if len(s.heap) == 0 {
		return false
	}
	p := s.pop()
	s.now = p.at
	s.done++
	s.mix(uint64(p.at))
	s.mix(p.seq)
	p.f()
	return true
}

func (s *scheduler) pop() planned {
	top, k := s.heap[0], len(s.heap)-1
	s.heap[0] = s.heap[k]
	s.heap[k] = planned{}
	s.heap = s.heap[:k]
	i := 0
	for {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < k && s.heap[c].before(s.heap[least]) {
				least = c
			}
		}
		if least == i {
			return top
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}

// mix takes a number into the hash of what happened (FNV-1a, a word at a time).
func (s *scheduler) mix(x uint64) { s.hash = (s.hash ^ x) * 1099511628211 }

func (s *scheduler) mixBytes(b []byte) {
	for _, c := range b {
		s.mix(uint64(c))
	}
}
