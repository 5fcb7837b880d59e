package supervise

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

const endsName = ".ends"

// endsFile keeps ends that nobody was there to hear of: LENGTH CRC EVENT, one after the other. A
// torn last one is cut off.
type endsFile struct {
	f     *os.File
	have  map[string]bool // what is in it and not acknowledged
	fresh []string        // of these, what may not be on disk yet
	size  int64           // bytes that are good
	safe  int64           // of these, bytes that are on disk
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
	left, good := parseEnds(all)
	e := &endsFile{f: f, have: map[string]bool{}, size: int64(good), safe: int64(good)}
	for _, ev := range left {
		e.have[ev.Task] = true
	}
	return e, left, nil // what is torn will be written over
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

// add writes an end, unless it is there; sync makes sure that it stays. After an error it is as if
// it had not been called.
func (e *endsFile) add(ev Event) error {
	if e.have[ev.Task] {
		return nil
	}
	body := appendEvent(nil, ev)
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	if _, err := e.f.WriteAt(append(b, body...), e.size); err != nil {
		return err
	}
	e.size += int64(8 + len(body))
	e.have[ev.Task], e.fresh = true, append(e.fresh, ev.Task)
	return nil
}

// sync brings to disk what was added. If that fails, all of it must be added again: what a disk
// failed to write once it may never try to write again.
func (e *endsFile) sync() error {
	if len(e.fresh) == 0 {
		return nil
	}
	err := e.f.Truncate(e.size) // what was torn, here or in an earlier life, is not to be found behind it
	if err == nil {
		err = e.f.Sync()
	}
	if err != nil {
		for _, task := range e.fresh {
			delete(e.have, task)
		}
		e.size = e.safe
	}
	e.safe, e.fresh = e.size, nil
	return err
}

// gone: the end of this task was taken. The file is emptied when all of it was.
func (e *endsFile) gone(task string) {
	if !e.have[task] {
		return
	}
	delete(e.have, task)
	if len(e.have) == 0 && e.f.Truncate(0) == nil {
		e.size, e.safe, e.fresh = 0, 0, nil
	}
}

func (e *endsFile) close() { _ = e.f.Close() }
