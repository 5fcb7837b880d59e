package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"

	"github.com/hashicorp/raft"
)

// Every entry of the log carries a checksum of all it says, which is checked whenever it is read:
// raft-wal checks what the last write left behind, and nothing after that. The checksum is in the
// entry's extensions, which raft leaves to its store. (raft-wal 0.4.1 takes a codec too, but writes
// its own codec's number into every segment, and then refuses to open them with another.)

// damaged says that an entry is not what was written.
type damaged struct {
	index uint64
	why   error
}

func (r *damaged) Error() string {
	return fmt.Sprintf("entry %d of the ledger's log is not what was written (%v): the disk is bad", r.index, r.why)
}

func (r *damaged) Unwrap() error { return r.why }

const (
	keySummed = "SummedFrom" // the name under which a log keeps where its checksums begin
	sumLen    = 1 + crc32.Size
	sumCRC32C = 1 // what begins an entry's extensions: the kind of checksum that follows
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is what an entry carries.
func sum(l *raft.Log) [sumLen]byte {
	var head [29]byte
	binary.BigEndian.PutUint64(head[:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	binary.BigEndian.PutUint64(head[16:], uint64(l.AppendedAt.Unix()))
	binary.BigEndian.PutUint32(head[24:], uint32(l.AppendedAt.Nanosecond()))
	head[28] = byte(l.Type)
	c := crc32.Update(crc32.Update(0, castagnoli, head[:]), castagnoli, l.Data)
	out := [sumLen]byte{sumCRC32C}
	binary.BigEndian.PutUint32(out[1:], c)
	return out
}

// summed is entries with their checksums. They are raft's, and stay as they are.
func summed(logs []*raft.Log) []*raft.Log {
	out, with, sums := make([]*raft.Log, len(logs)), make([]raft.Log, len(logs)), make([][sumLen]byte, len(logs))
	for i, l := range logs {
		with[i], sums[i] = *l, sum(l)
		with[i].Extensions = sums[i][:]
		out[i] = &with[i]
	}
	return out
}

// summedFrom is the index from which on every entry of a log has a checksum: all of a new one.
// Entries of version 0.1 have none.
func summedFrom(stable raft.StableStore, last uint64) (uint64, error) {
	from, err := stable.GetUint64([]byte(keySummed))
	if err == nil && from > 0 {
		return from, nil
	}
	return last + 1, stable.SetUint64([]byte(keySummed), last+1)
}

// readLog reads an entry and proves that it is what was written. What the log knows not to be
// there, and what says nothing about what is on the disk, is an error of another kind than damaged.
func (s *Log) readLog(index uint64, l *raft.Log) (err error) {
	defer func() {
		if r := recover(); r != nil { // raft-wal's decoder, on nonsense
			err = &damaged{index, fmt.Errorf("%v", r)}
		}
	}()
	s.open.RLock()
	defer s.open.RUnlock()
	switch err := s.wal.GetLog(index, l); {
	case errors.Is(err, raft.ErrLogNotFound), passing(err):
		return err
	case err != nil:
		return &damaged{index, err}
	}
	if err := s.proved(index, l); err != nil {
		return &damaged{index, err}
	}
	l.Extensions = nil
	return nil
}

// proved checks what was read.
func (s *Log) proved(index uint64, l *raft.Log) error {
	switch {
	case l.Index != index:
		return fmt.Errorf("it is entry %d", l.Index)
	case len(l.Extensions) > 0:
		if want := sum(l); string(l.Extensions) != string(want[:]) {
			return errors.New("its checksum is wrong")
		}
		return nil
	case index >= s.summed:
		return errors.New("it has no checksum")
	}
	return s.plausible(l)
}

// plausible is all that can be said of an entry without a checksum: that it makes sense.
func (s *Log) plausible(l *raft.Log) error {
	switch l.Type {
	case raft.LogCommand:
		return s.cfg.Entry(l.Data)
	case raft.LogConfiguration:
		raft.DecodeConfiguration(l.Data) // panics
		return nil
	case raft.LogNoop, raft.LogBarrier:
		return nil
	}
	return fmt.Errorf("there is no type %d of entries", l.Type)
}

// prove reads the whole log.
func (s *Log) prove() error {
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := s.readLog(i, &l); err != nil {
			if errors.Is(err, raft.ErrLogNotFound) {
				err = &damaged{i, err}
			}
			return err
		}
	}
	return nil
}

// Unsummed tells whether there are entries without a checksum.
func (s *Log) Unsummed() bool {
	first, err := s.FirstIndex()
	return err == nil && first > 0 && first < s.summed
}

// Guarded is the log as raft reads it. Raft ends the whole program if it cannot read an entry that
// it is about to apply. Here the goroutine of raft's that meets a rotten one ends instead, with all
// that it has deferred: a leader steps down, a question that is being answered gets a no. The seat
// is given up then, and raft with it.
type Guarded struct {
	*Log
	bad func(error)
}

// Guarded is this log for raft; bad hears of what is rotten in it.
func (s *Log) Guarded(bad func(error)) Guarded { return Guarded{s, bad} }

// GetLog implements raft.LogStore.
func (l Guarded) GetLog(index uint64, out *raft.Log) error {
	err := l.readLog(index, out)
	if r := new(damaged); errors.As(err, &r) {
		l.bad(err)
		runtime.Goexit()
	}
	return err
}

// Sound looks at all that is in the folder before raft believes it. Snapshots that cannot be read
// are put away: the log may go on from an older one.
func (s *Log) Sound(snaps *Snapshots) error {
	if err := snaps.keepSound(); err != nil {
		return err
	}
	if err := s.prove(); err != nil {
		if passing(err) {
			return err
		}
		return &Unsound{Why: err}
	}
	return nil
}
