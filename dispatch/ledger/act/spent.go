package act

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// mostSpent is how many numbers of one signer are remembered.
const mostSpent = 1024

// Spent is which numbers have counted. The zero value is empty.
type Spent struct{ by map[string]*signer }

type signer struct {
	floor int64 // acts that end by then were forgotten, and do not count any more
	marks []SpentNumber
}

// SpentNumber is a number that counted.
type SpentNumber struct {
	_     struct{} `cbor:",toarray"`
	Until int64
	N     uint64
}

// Signer is what is remembered of one signer, for a snapshot.
type Signer struct {
	By    string        `cbor:"1,keyasint"`
	Floor int64         `cbor:"2,keyasint,omitempty"`
	Marks []SpentNumber `cbor:"3,keyasint"` // in the order they counted
}

// Has tells whether the act's number counted before.
func (s *Spent) Has(a *Act) bool {
	x := s.by[a.By]
	return x != nil && slices.ContainsFunc(x.marks, func(m SpentNumber) bool { return m.N == a.N })
}

// Late tells whether the act ends so early that nobody remembers any more whether it counted.
func (s *Spent) Late(a *Act) bool {
	x := s.by[a.By]
	return x != nil && a.Until <= x.floor
}

// Add has the act's number count, at now.
func (s *Spent) Add(a *Act, now int64) {
	x := s.by[a.By]
	if x == nil {
		if s.by == nil {
			s.by = map[string]*signer{}
		}
		x = &signer{}
		s.by[a.By] = x
	}
	x.marks = slices.DeleteFunc(x.marks, func(m SpentNumber) bool { return m.Until < now })
	if len(x.marks) >= mostSpent {
		least := slices.MinFunc(x.marks, func(a, b SpentNumber) int { return int(min(1, max(-1, a.Until-b.Until))) }).Until
		x.floor = max(x.floor, least)
		x.marks = slices.DeleteFunc(x.marks, func(m SpentNumber) bool { return m.Until <= least })
	}
	x.marks = append(x.marks, SpentNumber{Until: a.Until, N: a.N})
}

// Pack is all that is remembered, by signer.
func (s *Spent) Pack() (out []Signer) {
	for _, by := range slices.Sorted(maps.Keys(s.by)) {
		out = append(out, Signer{By: by, Floor: s.by[by].floor, Marks: slices.Clone(s.by[by].marks)})
	}
	return out
}

// Restore remembers what Pack told.
func (s *Spent) Restore(in []Signer) error {
	s.by = nil
	for _, x := range in {
		if x.By == "" || len(x.Marks) > mostSpent || len(x.Marks) == 0 {
			return errors.New("numbers of acts that nobody signed")
		}
		if s.by[x.By] != nil {
			return fmt.Errorf("the numbers of %.20s are listed twice", x.By)
		}
		if s.by == nil {
			s.by = make(map[string]*signer, len(in))
		}
		s.by[x.By] = &signer{floor: x.Floor, marks: slices.Clone(x.Marks)}
	}
	return nil
}
