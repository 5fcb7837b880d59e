package mark

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/coveyproject/covey/internal/atomicfile"
)

// File is the own mark on disk: two slots that are written in turn, each with a checksum, so that a
// torn write leaves the mark before. A write changes a few hundred bytes in place and the file's
// size never, so that it costs one flush of the disk. Not safe for concurrent use.
type File struct {
	path string
	f    *os.File // nil until there is something to write
	seq  uint64
	mark Mark
}

const (
	slotBytes = 512
	slotEvery = 4096 // the slots do not share a page
	fileBytes = 2 * slotEvery
	maxServer = 256
	magic     = 0x636d_726b // "cmrk"
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Open reads the mark in a file; there may be none, and what cannot be read is none: Mark.Server is
// "" then.
func Open(path string) (*File, Mark, error) {
	x := &File{path: path}
	b, err := readSome(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, Mark{}, fmt.Errorf("read the ledger's mark: %w", err)
	}
	for _, at := range []int{0, slotEvery} {
		if len(b) < at+slotBytes {
			break
		}
		if m, seq, ok := decode(b[at : at+slotBytes]); ok && seq > x.seq {
			x.mark, x.seq = m, seq
		}
	}
	return x, x.mark, nil
}

// readSome reads no more than a mark's file holds.
func readSome(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, fileBytes))
}

// Mark is what was written last.
func (x *File) Mark() Mark { return x.mark }

// Put writes a mark, on disk when it returns. After an error the mark before is in force.
func (x *File) Put(m Mark) error {
	if len(m.Server) > maxServer {
		return fmt.Errorf("write the ledger's mark: a server's name of %d bytes", len(m.Server))
	}
	if err := x.make(); err != nil {
		return fmt.Errorf("write the ledger's mark: %w", err)
	}
	seq := x.seq + 1
	_, err := x.f.WriteAt(encode(m, seq), int64(seq%2)*slotEvery)
	if err == nil {
		err = atomicfile.FlushData(x.f)
	}
	if err != nil {
		return fmt.Errorf("write the ledger's mark: %w", err)
	}
	x.seq, x.mark = seq, m
	return nil
}

// make opens the file, or makes one of full size.
func (x *File) make() error {
	if x.f != nil {
		return nil
	}
	f, err := os.OpenFile(x.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != fileBytes {
		whole := make([]byte, fileBytes)
		if x.mark.Server != "" {
			copy(whole[int(x.seq%2)*slotEvery:], encode(x.mark, x.seq))
		}
		if _, err = f.WriteAt(whole, 0); err == nil {
			err = errors.Join(f.Truncate(fileBytes), f.Sync(), atomicfile.FlushDir(filepath.Dir(x.path)))
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	x.f = f
	return nil
}

// Close closes the file.
func (x *File) Close() error {
	if x.f == nil {
		return nil
	}
	err := x.f.Close()
	x.f = nil
	return err
}

// encode writes a slot: magic, sequence number, the numbers of the mark, its server; padded, with a
// checksum over all of it at the end.
func encode(m Mark, seq uint64) []byte {
	b := make([]byte, 0, slotBytes)
	b = binary.LittleEndian.AppendUint32(b, magic)
	for _, v := range []uint64{seq, m.Generation, m.Term, m.Index, m.Voted, m.Decided} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Server)))
	b = append(b, m.Server...)
	b = b[:slotBytes-4]
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, table))
}

func decode(b []byte) (m Mark, seq uint64, ok bool) {
	if binary.LittleEndian.Uint32(b) != magic || crc32.Checksum(b[:slotBytes-4], table) != binary.LittleEndian.Uint32(b[slotBytes-4:]) {
		return m, 0, false
	}
	nums := [6]uint64{}
	for i := range nums {
		nums[i] = binary.LittleEndian.Uint64(b[4+8*i:])
	}
	n := int(binary.LittleEndian.Uint16(b[52:]))
	if n > maxServer {
		return m, 0, false
	}
	return Mark{Server: string(b[54 : 54+n]), Generation: nums[1], Term: nums[2], Index: nums[3], Voted: nums[4], Decided: nums[5]}, nums[0], true
}
