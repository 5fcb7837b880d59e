package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"covey/node/api"
)

// progress draws one line that is drawn over, on a terminal only.
type progress struct {
	w     io.Writer
	on    bool
	drawn bool
	last  time.Time
}

// progressWidth is the bar's width in characters, redrawEvery the least time between two drawings.
const (
	progressWidth = 30
	redrawEvery   = 80 * time.Millisecond
)

func newProgress(w io.Writer) *progress { return &progress{w: w, on: isTerminal(w)} }

func (p *progress) show(j api.Job) {
	if !p.on || j.Count < 2 || (time.Since(p.last) < redrawEvery && !j.Over()) {
		return
	}
	p.last = time.Now()
	ended := j.Tasks["complete"] + failures(j) + j.Tasks["shutdown"]
	fill := min(progressWidth*ended/max(j.Count, 1), progressWidth) // of a service that shrank more may have ended than are wanted
	line := fmt.Sprintf("[%s%s] %d/%d done, %d running", strings.Repeat("█", fill), strings.Repeat("·", progressWidth-fill), ended, j.Count, j.Tasks["running"])
	if n := failures(j); n > 0 {
		line += fmt.Sprintf(", %d failed", n)
	}
	if j.Waiting != "" {
		line += " – " + j.Waiting
	}
	p.text(line)
}

// text draws any line.
func (p *progress) text(line string) {
	if !p.on {
		return
	}
	p.clear()
	fmt.Fprint(p.w, printable(line))
	p.drawn = true
}

// clear makes room for other text.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) done() { p.clear() }
