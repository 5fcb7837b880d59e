package supervise

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
)

// Output is bytes in a file, without times: the task writes it itself. When it came is noted beside
// it, whenever the output is looked at and has grown: so much was there when it was last written
// to. Output of tasks that end before the first look, and what came after the last one, is dated by
// the file itself. So a line's time is right to lookEvery.
//
// The notes are for people who read logs. Whatever goes wrong with them ends them, and nothing
// else.
const (
	timesSuffix = ".times"
	timeRecord  = 16      // bytes: offset and Unix milliseconds, each 8, big-endian
	maxTimes    = 1 << 16 // records of a file; when it is full, every second one of its older half goes
)

// TimesFile is the name of the file that says when a stream was written.
func TimesFile(stream string) string { return stream + timesSuffix }

// TimeMark says that the output up to End was there at At.
type TimeMark struct {
	End int64 // bytes
	At  int64 // Unix milliseconds
}

// Times are the marks of one stream, End rising.
type Times []TimeMark

// ReadTimes reads marks as they are on disk, as far as they make sense: the task could have written
// to that file.
func ReadTimes(r io.Reader) Times {
	b, _ := io.ReadAll(io.LimitReader(r, maxTimes*timeRecord)) // what was read counts
	var t Times
	for ; len(b) >= timeRecord; b = b[timeRecord:] {
		m := TimeMark{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
		last := int64(0)
		if len(t) > 0 {
			last = t[len(t)-1].End
		}
		if m.End < last || m.At <= 0 {
			break
		}
		if m.End > last {
			t = append(t, m)
		}
	}
	return t
}

// When is when the byte at an offset was there, and up to where that holds; at 0: no mark tells.
func (t Times) When(offset int64) (at, end int64) {
	i, _ := slices.BinarySearchFunc(t, offset, func(m TimeMark, offset int64) int {
		if m.End <= offset {
			return -1
		}
		return 1
	})
	if i == len(t) {
		return 0, 0
	}
	return t[i].At, t[i].End
}

// Since is where what came at a moment or later begins; size and written say how much there is now,
// and since when.
func (t Times) Since(at, size, written int64) int64 {
	begin := int64(0)
	for _, m := range t {
		if m.At >= at {
			return begin
		}
		begin = m.End
	}
	if written >= at {
		return min(begin, size)
	}
	return size
}

// times keeps the marks of one file.
type times struct {
	path  string
	end   int64 // of the newest mark
	count int   // on disk; -1: not known yet
	ended bool  // they cannot be written
}

// note takes down that there are size bytes, the last of them written at a moment in Unix
// milliseconds.
func (t *times) note(size, written int64) {
	if size <= t.end || t.path == "" || t.ended {
		return
	}
	t.end = size
	t.ended = t.append(TimeMark{size, written}) != nil
}

func (t *times) append(m TimeMark) error {
	f, err := openNotes(t.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	if t.count < 0 {
		if t.count, err = countTimes(f); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	_, err = f.Write(appendMark(nil, m))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if t.count++; t.count >= maxTimes {
		return t.thin()
	}
	return nil
}

func countTimes(f *os.File) (int, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	n := st.Size() / timeRecord
	if n*timeRecord < st.Size() { // half a record, of a supervisor that was killed
		err = f.Truncate(n * timeRecord)
	}
	return int(n), err
}

func appendMark(b []byte, m TimeMark) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(m.End)), uint64(m.At))
}

// thin lets every second mark of the older half go, so that what is old is known less exactly and
// what is new as exactly as ever.
func (t *times) thin() error {
	f, err := openNotes(t.path, os.O_RDONLY)
	if err != nil {
		return err
	}
	all := ReadTimes(f)
	if err := f.Close(); err != nil {
		return err
	}
	var b []byte
	t.count = 0
	for i, m := range all {
		if i >= len(all)/2 || i%2 == 1 {
			b = appendMark(b, m)
			t.count++
		}
	}
	tmp := t.path + ".new"
	if f, err = openNotes(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, t.path)
}

// openNotes opens a regular file in a task's folder, whatever the task made of the name.
func openNotes(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|notesFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, f.Close(), errors.New(path+" is no file"))
	}
	return f, nil
}
