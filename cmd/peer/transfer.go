package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// transfer shows how far bytes have come, on a terminal only.
type transfer struct {
	*progress
	begun time.Time
	all   int64 // 0: not known
	come  int64
	shown int64 // the most that was drawn
	from  []api.Source
}

func newTransfer(w io.Writer, all int64) *transfer {
	p := newProgress(w)
	t := &transfer{progress: p, begun: p.now(), all: all}
	t.pace.heard(0, t.begun)
	return t
}

// add counts bytes that have come.
func (t *transfer) add(n int64) { t.at(t.come + n) }

// at says how many have.
func (t *transfer) at(n int64) {
	t.come = n
	t.draw(n)
}

// ahead says that more have come than are where they belong.
func (t *transfer) ahead(n int64) { t.draw(n) }

func (t *transfer) draw(n int64) {
	n = max(n, t.shown)
	t.shown = n
	now := t.now()
	t.pace.heard(int(n), now)
	if t.on && now.Sub(t.last) >= redrawEvery {
		t.last = now
		t.text(t.line(t.width() - 1))
	}
}

// line is what fits: how much, how fast and how long still, from whom, and a bar in what room is
// left.
func (t *transfer) line(room int) string {
	line := bytesText(t.shown)
	if t.all > 0 {
		line += " of " + bytesText(t.all)
	}
	add := func(part string) {
		if part != "" && len([]rune(line))+2+len([]rune(part)) <= room {
			line += "  " + part
		}
	}
	if rate := t.pace.at(t.now()); rate > 0 {
		add(bytesText(int64(rate)) + "/s")
		if left := t.all - t.shown; left > 0 {
			add(timeLeft(float64(left) / rate))
		}
	}
	add(sourcesText(t.from))
	if free := room - len([]rune(line)) - 2; t.all > 0 && free >= leastBar {
		const parts = 1000 // int may be short for bytes
		line = barOf(min(free, largestBar), int(parts*(float64(t.shown)/float64(t.all))), parts) + "  " + line
	}
	return clip(line, room)
}

// sourcesText says what came from whom.
func sourcesText(from []api.Source) string {
	var words []string
	for i, s := range from {
		if i == shownPeers {
			words = append(words, fmt.Sprintf("+%d", len(from)-i))
			break
		}
		words = append(words, fmt.Sprintf("%s from %s", bytesText(s.Bytes), cmp.Or(s.Name, shortID(s.Peer))))
	}
	return strings.Join(words, ", ")
}

// took says how long it has been, and how fast that was.
func (t *transfer) took(bytes int64) string {
	d := t.now().Sub(t.begun)
	text := "in " + short(d)
	if bytes >= 1<<20 && d > 0 {
		text += fmt.Sprintf(" (%s/s)", bytesText(int64(float64(bytes)/d.Seconds())))
	}
	return text
}
