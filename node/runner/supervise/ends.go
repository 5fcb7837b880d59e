package supervise

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

const endsName = ".ends"

// endsFile keeps ends that nobody was there to hear of: LENGTH CRC EVENT, one after the other. A torn last one is cut off.
type endsFile struct {
	f     *os.File
	have  map[string]bool // what is in it
	dirty bool
	err   error
}

func openEnds(dir string) (*endsFile, []Event, error) {
	f, err := os.OpenFile(filepath.Join(dir, endsName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, err
	}
	all, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	e := &endsFile{f: f, have: map[string]bool{}}
	left, good := parseEnds(all)
	for _, ev := range left {
		e.have[ev.Task] = true
	}
	if good < len(all) {
		err = f.Truncate(int64(good))
	}
	if _, serr := f.Seek(int64(good), io.SeekStart); serr != nil {
		err = errors.Join(err, serr)
	}
	return e, left, err
}

// parseEnds reads records up to the first that is damaged, and says how many bytes were good.
func parseEnds(b []byte) (left []Event, good int) {
	for {
		rest := b[good:]
		if len(rest) < 8 {
			return left, good
		}
		n := int(binary.BigEndian.Uint32(rest))
		if n > maxFrame || n > len(rest)-8 {
			return left, good
		}
		body := rest[8 : 8+n]
		if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(rest[4:]) {
			return left, good
		}
		ev, err := decodeEvent(body)
		if err != nil || !ev.Final() {
			return left, good
		}
		left = append(left, ev)
		good += 8 + n
	}
}

// add writes an end; sync makes sure that it stays.
func (e *endsFile) add(ev Event) {
	if e.have[ev.Task] {
		return
	}
	body := appendEvent(nil, ev)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	if _, err := e.f.Write(append(b, body...)); err != nil {
		e.err = err
		return
	}
	e.have[ev.Task], e.dirty = true, true
}

func (e *endsFile) sync() error {
	err := e.err
	e.err = nil
	if e.dirty {
		e.dirty = false
		err = errors.Join(err, e.f.Sync())
	}
	return err
}

// clear empties the file: all were taken.
func (e *endsFile) clear() {
	if len(e.have) == 0 {
		return
	}
	clear(e.have)
	if e.f.Truncate(0) == nil {
		_, _ = e.f.Seek(0, io.SeekStart)
	}
}

func (e *endsFile) close() { _ = e.f.Close() }
