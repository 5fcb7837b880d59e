package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// maxHeldLine is how much of an unfinished line is kept back, in bytes: a longer one is written in pieces.
const maxHeldLine = 64 << 10

// prefixer writes the output of several tasks that run at once, line by line, each line with the task it is from. It may be used
// by several goroutines.
type prefixer struct {
	label func(task string) string // what a task's lines begin with

	mu    sync.Mutex
	lines map[lineKey]*bytes.Buffer // what has no end yet
}

// lineKey is one stream of one task.
type lineKey struct {
	task string
	to   io.Writer
}

func newPrefixer() *prefixer {
	return &prefixer{lines: map[lineKey]*bytes.Buffer{}, label: func(task string) string { return printable(slotOf(task)) + " | " }}
}

// write takes a piece of a task's output.
func (p *prefixer) write(task string, to io.Writer, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := lineKey{task, to}
	held := p.lines[key]
	if held == nil {
		held = &bytes.Buffer{}
		p.lines[key] = held
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
		if err := p.line(task, to, held.Next(end+1)); err != nil {
			return err
		}
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
			err = p.line(task, key.to, held.Bytes())
		}
		delete(p.lines, key)
	}
	return err
}

func (p *prefixer) line(task string, to io.Writer, text []byte) error {
	line := append([]byte(p.label(task)), text...)
	if line[len(line)-1] != '\n' {
		line = append(line, '\n')
	}
	_, err := to.Write(line)
	return err
}

// slotOf is a task without its attempt: JOB.SLOT.
func slotOf(task string) string {
	if i := strings.LastIndexByte(task, '.'); i > 0 && strings.Count(task, ".") > 1 {
		return task[:i]
	}
	return task
}
