package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"time"
)

// maxHeldLine is how much of an unfinished line is kept back, in bytes: a longer one is written in
// pieces.
const maxHeldLine = 64 << 10

// prefixer writes the output of several tasks that run at once, line by line, each line with the
// task it is from, or when it came. It may be used by several goroutines.
type prefixer struct {
	label func(task string) string // what a task's lines begin with
	times bool                     // and before that, when the line began

	mu    sync.Mutex
	lines map[lineKey]*heldLine // what has no end yet
}

// heldLine is the beginning of a line.
type heldLine struct {
	bytes.Buffer
	at time.Time // of its first byte
}

type lineKey struct {
	task string
	to   io.Writer
}

func newPrefixer() *prefixer {
	return &prefixer{lines: map[lineKey]*heldLine{}, label: func(task string) string { return printable(slotOf(task)) + " | " }}
}

// writeAt takes a piece of a task's output that came at a moment; zero: not known.
func (p *prefixer) writeAt(task string, to io.Writer, data []byte, at time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := lineKey{task, to}
	held := p.lines[key]
	if held == nil {
		held = &heldLine{}
		p.lines[key] = held
	}
	if held.Len() == 0 {
		held.at = at
	}
	held.Write(data)
	for {
		end := bytes.IndexByte(held.Bytes(), '\n')
		if end < 0 && held.Len() < maxHeldLine {
			return nil
		}
		if end < 0 {
			end = held.Len() - 1
		}
		if err := p.line(task, to, held.at, held.Next(end+1)); err != nil {
			return err
		}
		held.at = at
	}
}

// end writes what a task left without an end of line.
func (p *prefixer) end(task string) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, held := range p.lines {
		if key.task != task {
			continue
		}
		if held.Len() > 0 && err == nil {
			err = p.line(task, key.to, held.at, held.Bytes())
		}
		delete(p.lines, key)
	}
	return err
}

func (p *prefixer) line(task string, to io.Writer, at time.Time, text []byte) error {
	line := append([]byte(lineTime(p.times, at)+p.label(task)), text...)
	if line[len(line)-1] != '\n' {
		line = append(line, '\n')
	}
	_, err := to.Write(line)
	return err
}

// lineTime is how a line says when it came: by the clock of the peer it came from, in the reader's
// zone, which it names.
func lineTime(wanted bool, at time.Time) string {
	switch {
	case !wanted:
		return ""
	case at.IsZero():
		return "- "
	}
	return at.Local().Format("2006-01-02T15:04:05.000Z07:00 ")
}

// slotOf is a task without its attempt: JOB.SLOT, in an array JOB.ITEM.
func slotOf(task string) string {
	task = strings.Replace(task, ".item=", ".", 1)
	if i := strings.LastIndexByte(task, '.'); i > 0 && strings.Count(task, ".") > 1 {
		return task[:i]
	}
	return task
}
