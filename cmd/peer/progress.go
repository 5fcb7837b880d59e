package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/coveyproject/covey/node/api"
)

// progress draws one line that is drawn over, on a terminal only.
type progress struct {
	w     io.Writer
	on    bool
	width func() int // columns of the terminal
	now   func() time.Time
	drawn bool
	last  time.Time
	pace  pace
	run   running
	extra func() string // more to say; may be nil

	stopped int // tasks that were stopped while they ran
}

const (
	defaultWidth = 80 // of a terminal that does not say
	leastBar     = 10 // a bar that is shorter says nothing
	largestBar   = 40
	// redrawEvery is the least time between two drawings.
	redrawEvery = 80 * time.Millisecond
)

func newProgress(w io.Writer) *progress {
	return &progress{w: w, on: isTerminal(w), width: func() int { return widthOf(w) }, now: time.Now}
}

func widthOf(w io.Writer) int {
	if f, ok := fileOf(w); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return defaultWidth
}

// show draws how far a job is. tasks are those that changed, if they are followed.
func (p *progress) show(j api.Job, tasks ...api.Task) {
	p.run.heard(tasks)
	p.pace.heard(ended(j), p.now())
	if !p.on || j.Count < 2 || (p.now().Sub(p.last) < redrawEvery && !j.Over()) {
		return
	}
	p.last = p.now()
	p.text(p.line(j))
}

// ended counts the tasks of a job that are over.
func ended(j api.Job) int { return j.Tasks["complete"] + failures(j) + j.Tasks["shutdown"] }

// line is what fits: how many are done, what failed, how fast and how long still, then where tasks
// run, then a bar in what room is left.
func (p *progress) line(j api.Job) string {
	room := p.width() - 1 // the last column makes some terminals go to the next line
	done := ended(j)
	line := progressCounts(j)
	add := func(part string) {
		if part != "" && utf8.RuneCountInString(line)+2+utf8.RuneCountInString(part) <= room {
			line += "  " + part
		}
	}
	if rate := p.pace.at(p.now()); rate > 0 {
		add(number(rate) + "/s")
		if n := j.Count - done; n > 0 {
			add(timeLeft(float64(n) / rate))
		}
	} else if n := j.Tasks["running"]; n > 0 {
		add(fmt.Sprintf("%d running", n))
	}
	if n := j.Tasks["saving"]; n > 0 {
		add(fmt.Sprintf("%d saving", n))
	}
	if p.extra != nil {
		add(p.extra())
	}
	switch {
	case j.Waiting != "" && reached(j) == 0:
		line += "  " + j.Waiting
	default:
		add(p.run.text())
		add(j.Waiting)
	}
	if free := room - utf8.RuneCountInString(line) - 2; free >= leastBar {
		line = barOf(min(free, largestBar), done, j.Count) + "  " + line
	}
	return clip(line, room)
}

// progressCounts says how many tasks of a job are over, and how many of them failed.
func progressCounts(j api.Job) string {
	line := fmt.Sprintf("%d/%d", ended(j), j.Count)
	if n := failures(j); n > 0 {
		line += fmt.Sprintf("  ✗%d", n)
	}
	return line
}

func timeLeft(s float64) string {
	return short(max(seconds(s).Round(time.Second), time.Second)) + " left"
}

// barOf is a bar of a width, filled as far as done is of all. Of a service that shrank more may
// have ended than are wanted.
func barOf(width, done, all int) string {
	fill := min(width*done/max(all, 1), width)
	return strings.Repeat("━", fill) + strings.Repeat("─", width-fill)
}

func clip(s string, width int) string {
	s = printable(s)
	if utf8.RuneCountInString(s) <= width || width < 1 {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// text draws any line, as much of it as fits.
func (p *progress) text(line string) {
	if !p.on {
		return
	}
	p.clear()
	fmt.Fprint(p.w, clip(line, p.width()-1))
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

// summary replaces the line of a job that is over by what became of it, on a terminal, and tells
// whether it did.
func (p *progress) summary(j api.Job) bool {
	p.clear()
	if !p.on || j.Count < 2 || !j.Over() {
		return false
	}
	text := fmt.Sprintf("%d of %d done", j.Tasks["complete"], j.Count)
	if n := failures(j); n > 0 {
		text += fmt.Sprintf(", %d failed", n)
	}
	if n := j.Tasks["shutdown"]; n > 0 {
		text += fmt.Sprintf(", %d stopped", n)
		if p.stopped > 0 && n > 1 {
			text += fmt.Sprintf(" (%d of them running)", p.stopped)
		}
	}
	text += " in " + took(j)
	if n := len(p.run.ran); n > 0 {
		text += " on " + countOf(n, "peer")
	}
	if t := p.run.slowest; t.Took > 0 {
		text += fmt.Sprintf("; the longest, %s, %s", t.Called(), short(seconds(t.Took)))
	}
	if failures(j) > 0 {
		text += "; see `peer tasks " + j.ID + " --failed`"
	}
	fmt.Fprintln(p.w, printable(text))
	return true
}

// countOf writes a number of things: 1 peer, 2 peers.
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pace is how many tasks end in a second, over the last half minute.
type pace struct{ samples []sample }

type sample struct {
	at    time.Time
	ended int
}

const (
	paceSpan  = 30 * time.Second
	paceGrain = 250 * time.Millisecond // samples are at least so far apart
	paceLeast = time.Second            // before that nothing is said
)

func (p *pace) heard(ended int, now time.Time) {
	n := len(p.samples)
	if n >= 2 && now.Sub(p.samples[n-2].at) < paceGrain {
		p.samples = p.samples[:n-1]
	}
	p.samples = append(p.samples, sample{now, ended})
	old := 0
	for old < len(p.samples)-1 && now.Sub(p.samples[old+1].at) > paceSpan {
		old++
	}
	p.samples = slices.Delete(p.samples, 0, old)
}

// at is the rate at a moment, 0 while nothing can be said: nothing has ended, or it was looked at
// for too short a time.
func (p *pace) at(now time.Time) float64 {
	if len(p.samples) == 0 {
		return 0
	}
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	span := now.Sub(first.at)
	if span < paceLeast || last.ended <= first.ended {
		return 0
	}
	return float64(last.ended-first.ended) / span.Seconds()
}

// running is where a job's tasks run, as far as they are followed. The zero value is ready for use.
type running struct {
	on  map[string]string   // the peer a task runs on
	ran map[string]struct{} // peers that ran any

	slowest api.Task
}

// shownPeers is how many peers are named on the line.
const shownPeers = 3

func (r *running) heard(tasks []api.Task) {
	for _, t := range tasks {
		if t.Peer == "" {
			continue
		}
		name := cmp.Or(t.PeerName, shortID(t.Peer))
		if r.on == nil {
			r.on, r.ran = map[string]string{}, map[string]struct{}{}
		}
		switch {
		case t.State == "saving":
			delete(r.on, t.ID)
		case over(t.State):
			delete(r.on, t.ID)
			if t.Took > r.slowest.Took {
				r.slowest = t
			}
		case t.State == "running":
			r.on[t.ID] = name
		}
		if t.State == "running" || t.State == "saving" || over(t.State) && t.State != "rejected" {
			r.ran[name] = struct{}{}
		}
	}
}

// text names the peers with most tasks.
func (r *running) text() string {
	n := map[string]int{}
	for _, peer := range r.on {
		n[peer]++
	}
	return peersText(n)
}

// peersText names the peers with most tasks, and how many.
func peersText(n map[string]int) string {
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], strings.Compare(a, b)) })
	var words []string
	for i, name := range names {
		if i == shownPeers {
			words = append(words, fmt.Sprintf("+%d", len(names)-i))
			break
		}
		words = append(words, fmt.Sprintf("%s %d", name, n[name]))
	}
	return strings.Join(words, " ")
}
