package store

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate/spell"
)

var (
	// ErrAbsent is returned for what is not here.
	ErrAbsent = errors.New("not in the store")
	// ErrPiece is returned for bytes that are not what they are said to be.
	ErrPiece = errors.New("these bytes do not belong to the blob")
	// ErrSize is returned for a claim about a blob of which this store knows better.
	ErrSize = errors.New("the blob has another size")
	// ErrNoRoom is what every NoRoom is.
	ErrNoRoom = errors.New("no room in the store")
)

// NoRoom says how much was needed, and how much there is, in bytes.
type NoRoom struct {
	Needed, Free int64
	Disk         bool // the disk is short of it, not the quota
}

func (e *NoRoom) Error() string {
	if e.Disk {
		return fmt.Sprintf("no room on the disk: %s needed, %s free", spell.Bytes(e.Needed), spell.Bytes(e.Free))
	}
	return fmt.Sprintf("no room in the store: %s needed, %s free of its quota", spell.Bytes(e.Needed), spell.Bytes(e.Free))
}

// Is makes every NoRoom an ErrNoRoom.
func (*NoRoom) Is(err error) bool { return err == ErrNoRoom }

// Rot says which piece is not what it was when it was stored; -1 if that cannot be told.
type Rot struct {
	Root  piece.Root
	Piece int
}

func (e *Rot) Error() string {
	if e.Piece < 0 {
		return fmt.Sprintf("the stored copy of %s is damaged and was dropped", e.Root)
	}
	return fmt.Sprintf("the stored copy of %s is damaged in the MiB %d, which was dropped", e.Root, e.Piece)
}

// full makes an error of a disk that has no room a NoRoom.
func (s *Store) full(err error, needed int64) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		free, _, _ := s.disk.room()
		return fmt.Errorf("%w (%w)", &NoRoom{Needed: needed, Free: max(0, free), Disk: true}, err)
	}
	return err
}
