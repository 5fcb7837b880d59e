package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxLine is how long a line may be, in bytes.
const maxLine = 64 << 10

// Findings is what reading a log showed.
type Findings struct {
	Records int    `json:"records"`
	First   uint64 `json:"first"`            // number of the oldest that is kept
	Last    uint64 `json:"last"`             // of the newest
	Hash    string `json:"hash"`             // of the newest line: noted elsewhere, it shows that nothing before it was changed
	Broken  string `json:"broken,omitempty"` // where the log is not whole; "": it is
}

// Read calls each with every record, oldest first, until it fails. A log that nobody has begun has
// none. What is not whole is in the verdict, and read all the same.
func Read(path string, each func(Record) error) (v Findings, err error) {
	for i := Keep; i >= 0; i-- {
		name := path
		if i > 0 {
			name = aside(path, i)
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return v, err
		}
		err = v.read(f, name, i == 0, each)
		_ = f.Close()
		if err != nil {
			return v, err
		}
	}
	if _, err := os.Stat(aside(path, Keep)); v.First > 1 && err != nil {
		v.broke("it begins with record %d, and none before it went for lack of room", v.First)
	}
	return v, nil
}

func (v *Findings) read(f io.Reader, name string, newest bool, each func(Record) error) error {
	in := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 && !newest {
				v.broke("line %d of %s is not whole", n, name)
			}
			return nil // the newest line may be about to be written
		} else if err != nil {
			return fmt.Errorf("line %d of %s: %w", n, name, err)
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			v.broke("line %d of %s is no record: %v", n, name, err)
			v.Hash = hashOf(line)
			continue
		}
		switch {
		case v.Records == 0 && v.Broken == "":
			v.First = r.Seq
			if r.Seq == 1 && r.Prev != "" {
				v.broke("record 1 follows another")
			}
		case r.Prev != v.Hash:
			v.broke("record %d, line %d of %s, does not follow the line before it: one of them was changed, or something between them is gone", r.Seq, n, name)
		case r.Seq != v.Last+1:
			v.broke("record %d, line %d of %s, comes after record %d", r.Seq, n, name, v.Last)
		}
		v.Records++
		v.Last, v.Hash = r.Seq, hashOf(line)
		if err := each(r); err != nil {
			return err
		}
	}
}

// broke notes the first place.
func (v *Findings) broke(format string, args ...any) {
	if v.Broken == "" {
		v.Broken = fmt.Sprintf(format, args...)
	}
}

// endOf is ends of a file that may not be there.
func endOf(path string) (seq uint64, last string, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, "", nil
	} else if err != nil {
		return 0, "", err
	}
	defer func() { _ = f.Close() }()
	seq, last, _, err = ends(f)
	return seq, last, err
}

// ends reads a file to its last whole line: the number and hash of it, and up to where it goes.
func ends(f io.Reader) (seq uint64, last string, size int64, err error) {
	in := bufio.NewReaderSize(f, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return seq, last, size, nil
		} else if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, "", 0, err
		}
		size += int64(len(line))
		var r struct{ Seq uint64 }
		line = bytes.TrimSuffix(line, []byte("\n"))
		if json.Unmarshal(line, &r) == nil {
			seq = r.Seq
		}
		last = hashOf(line)
	}
}
