package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// told is what a detached peer says in its log while somebody waits for it.
type told struct {
	path string
	show io.Writer // gets what is new; nil: nobody yet
	all  int64     // bytes that were there at the last look
	seen int64     // of those, how many were shown
}

// more tells whether the peer said something since the last look, and shows it in whole lines.
func (l *told) more() bool {
	info, err := os.Stat(l.path)
	if err != nil {
		return false
	}
	news := info.Size() != l.all
	if info.Size() < l.all { // a new log was begun
		l.seen = 0
	}
	l.all = info.Size()
	if l.show == nil || l.all <= l.seen {
		return news
	}
	b := l.from(l.seen)
	if end := bytes.LastIndexByte(b, '\n') + 1; end > 0 {
		_, _ = l.show.Write(b[:end])
		l.seen += int64(end)
	}
	return news
}

// maxTold bounds what is read of a log at once.
const maxTold = 64 << 10

func (l *told) from(at int64) []byte {
	f, err := os.Open(l.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.NewSectionReader(f, at, maxTold))
	return b
}

// last is the last thing it said, as part of a sentence; "" if it said nothing.
func (l *told) last() string {
	lines := bytes.Split(bytes.TrimSpace(l.from(max(0, l.all-maxTold))), []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		return fmt.Sprintf("its last words: %s; ", last)
	}
	return ""
}
