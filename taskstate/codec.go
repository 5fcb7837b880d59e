package taskstate

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/coveyproject/covey/p2p/wire"
)

// Caps of a batch. A worker that has more to say says it in several.
const (
	MaxBatchStatuses = 1000
	MaxBatchBytes    = 256 << 10
)

// maxWord caps ids, incarnations and reasons in bytes.
const maxWord = 128

func itoa(n int) string { return strconv.Itoa(n) }

// mustEncode is the deterministic encoding; plain values of this package always encode.
func mustEncode(v any) []byte {
	b, err := wire.Marshal(v)
	if err != nil {
		panic("taskstate: value of a closed type does not encode: " + err.Error())
	}
	return b
}

// EncodeBatch is the deterministic encoding that is signed and travels. What DecodeBatch would
// refuse is an error here already.
func EncodeBatch(b Batch) ([]byte, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	p, err := wire.Marshal(b)
	if err == nil && len(p) > MaxBatchBytes {
		err = fmt.Errorf("status batch of %d bytes, the cap is %d: cut it with Fit", len(p), MaxBatchBytes)
	}
	return p, err
}

// DecodeBatch reads what EncodeBatch wrote, also that of version 0.1; anything else is an error.
func DecodeBatch(p []byte) (Batch, error) {
	if len(p) > MaxBatchBytes {
		return Batch{}, fmt.Errorf("status batch of %d bytes, the cap is %d", len(p), MaxBatchBytes)
	}
	b, err := decodeBatch(p)
	if err != nil {
		return Batch{}, fmt.Errorf("status batch: %w", err)
	}
	if err := b.Check(); err != nil {
		return Batch{}, err
	}
	return b, nil
}

// Check tells what is wrong with a batch: nobody may have written it so.
func (b Batch) Check() error {
	switch {
	case badWord(b.Author), badWord(string(b.Incarnation)):
		return errors.New("status batch: no author or incarnation, or an invalid one")
	case b.Number == 0:
		return errors.New("status batch: batches are numbered from 1")
	case len(b.Statuses) > MaxBatchStatuses:
		return fmt.Errorf("status batch: %d statuses, the cap is %d", len(b.Statuses), MaxBatchStatuses)
	}
	for i := range b.Statuses {
		if err := b.Statuses[i].Check(); err != nil {
			return fmt.Errorf("status batch: %w", err)
		}
	}
	return nil
}

// Check tells what is wrong with a status: no worker may have written it so.
func (s *Status) Check() error {
	switch {
	case badWord(string(s.Task.Job)) || s.Task.Slot < 1 || s.Task.Attempt < 1:
		return fmt.Errorf("status of %v: no such task can be", s.Task)
	case s.Seq == 0:
		return fmt.Errorf("status of %v: statuses are numbered from 1", s.Task)
	case s.State < Accepted || !s.State.Valid():
		return fmt.Errorf("status of %v: %v is not for a worker to say", s.Task, s.State)
	case s.Took < 0 || s.Waited < 0:
		return fmt.Errorf("status of %v: it took less than no time", s.Task)
	case len(s.Reason) > maxWord || len(s.Message) > MaxMessage:
		return fmt.Errorf("status of %v: reason or message too long (caps %d and %d bytes)", s.Task, maxWord, MaxMessage)
	case !utf8.ValidString(string(s.Reason)) || !utf8.ValidString(s.Message):
		return fmt.Errorf("status of %v: reason or message is not UTF-8", s.Task)
	case s.Saved == nil:
		return nil
	case !s.State.Final():
		return fmt.Errorf("status of %v: it says what is kept before the end", s.Task)
	}
	if err := s.Saved.Check(); err != nil {
		return fmt.Errorf("status of %v: %w", s.Task, err)
	}
	return nil
}

func badWord(s string) bool { return s == "" || len(s) > maxWord || !utf8.ValidString(s) }
