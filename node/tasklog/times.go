package tasklog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/coveyproject/covey/node/runner/supervise"
)

type marks struct {
	known supervise.Times
	size  int64 // of the file they were read from
	now   int64 // of what was read last, Unix milliseconds; 0: not known
}

// date looks up when the next bytes of a part were written, and says how many of up to n came then.
func (c *cursor) date(p *part, n int64) int64 {
	at, end := p.times.known.When(p.at)
	if at == 0 {
		c.learnTimes(p)
		at, end = p.times.known.When(p.at)
	}
	p.times.now = at
	if at == 0 {
		return n // after the last mark: the file itself says when
	}
	return min(n, end-p.at)
}

// learnTimes reads the marks of a part if there are others than last time. None are no error: they
// are for people.
func (c *cursor) learnTimes(p *part) {
	f, err := openBeneath(c.dir, filepath.Join(c.rel, supervise.TimesFile(p.stream)))
	if err != nil {
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() || st.Size() == p.times.size {
		return
	}
	p.times.known, p.times.size = supervise.ReadTimes(f), st.Size()
}

func written(f *os.File) int64 {
	st, err := f.Stat()
	if err != nil {
		return 0
	}
	return st.ModTime().UnixMilli()
}

// sinceOffset is where the first line begins that came at the moment asked for or later.
func (c *cursor) sinceOffset(p *part, f *os.File) (int64, error) {
	c.learnTimes(p)
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size := min(st.Size(), c.end())
	return lineFrom(f, p.times.known.Since(c.req.Since, size, st.ModTime().UnixMilli()), size)
}

// lineFrom is where the first line begins at an offset or after it; the end if none does.
func lineFrom(f *os.File, at, end int64) (int64, error) {
	if at == 0 || at >= end {
		return min(at, end), nil
	}
	buf := make([]byte, MaxChunk)
	for at--; at < end; at += int64(len(buf)) { // the byte before may end a line
		n, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	return end, nil
}
