package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// ShapeBackend shows jobs of any size in a few kilobytes.
type ShapeBackend interface {
	// Grid shows where each slot is, in at most so many cells.
	Grid(ctx context.Context, id string, cells int) (Grid, error)
	// Timeline shows where and when tasks ran; px is how wide it is to be shown.
	Timeline(ctx context.Context, id string, px int) (Timeline, error)
	// Failures groups the tasks that failed.
	Failures(ctx context.Context, id string) (Failures, error)
	// SomeTasks lists a page of tasks.
	SomeTasks(ctx context.Context, id string, q TaskQuery) (Tasks, error)
}

// Grid answers GET /v1/jobs/{id}/grid?cells=N: the newest attempt of each slot, by slot.
type Grid struct {
	Slots  int               `json:"slots"`
	Each   int               `json:"each"`   // slots in a cell; the last may have fewer
	Cells  string            `json:"cells"`  // a letter for each: the worst state in it
	Legend map[string]string `json:"legend"` // what the letters mean
	Counts map[string]int    `json:"counts"` // slots by the words of the legend
	AsOf   time.Time         `json:"as_of"`
}

// Timeline answers GET /v1/jobs/{id}/timeline?px=N. All its times are by one clock, that of the
// ledger. Up to 5,000 tasks are bars; of more than that it is told how many ran at a time.
type Timeline struct {
	From  time.Time `json:"from"` // of the first start; equal to To if nothing has run
	To    time.Time `json:"to"`
	Step  float64   `json:"step,omitempty"` // seconds that a number in busy and bad stands for
	Lanes []Lane    `json:"lanes"`          // by name of peer
	AsOf  time.Time `json:"as_of"`
}

// Lane is what ran on one peer: Bars, or Busy and Bad.
type Lane struct {
	Peer     string    `json:"peer"`
	PeerName string    `json:"peer_name"`
	Tasks    int       `json:"tasks"`
	Bars     []Bar     `json:"bars,omitempty"`
	Busy     []float64 `json:"busy,omitempty"` // tasks that ran in a step, on average
	Bad      []int     `json:"bad,omitempty"`  // tasks that ended badly in it
}

// Bar is one task in a lane. Start and End are seconds after Timeline.From.
type Bar struct {
	Slot    int     `json:"slot"`
	Attempt int     `json:"attempt"`
	State   string  `json:"state"`
	Start   float64 `json:"start"`
	End     float64 `json:"end"`
	Open    bool    `json:"open,omitempty"`    // it goes on: End is as_of
	Earlier bool    `json:"earlier,omitempty"` // its slot has left it behind; shutdown: it was given up
}

// Failures answers GET /v1/jobs/{id}/failures.
type Failures struct {
	Groups []Failure `json:"groups"` // the largest first, at most 200
	Count  int       `json:"count"`  // of tasks in the groups
	Rest   int       `json:"rest"`   // failures in no group: there are too many kinds
	AsOf   time.Time `json:"as_of"`
}

// Failure is a group of tasks that failed alike.
type Failure struct {
	State    string      `json:"state"`
	ExitCode *int        `json:"exit_code"`
	Signal   int         `json:"signal,omitempty"`
	Reason   string      `json:"reason"`
	Message  string      `json:"message"`
	Count    int         `json:"count"`             // slots whose newest attempt ended so
	Earlier  int         `json:"earlier,omitempty"` // attempts that slots have left behind
	Last     string      `json:"last,omitempty"`    // of the first example that says something
	Examples []Example   `json:"examples"`          // at most 5: the first, and a later one
	Peers    []PeerCount `json:"peers"`             // where they were, most first
}

// Example is one task of a group. Last is the line it printed last, in the first 12 groups and if
// it could be had in time: at most 100 characters, control characters spelled out.
type Example struct {
	Task     string `json:"task"`
	Named    string `json:"named,omitempty"` // as Task.Named
	Peer     string `json:"peer"`
	PeerName string `json:"peer_name"`
	Last     string `json:"last,omitempty"`
}

// Said are the examples that printed something last, without those that differ from one before only
// in numbers.
func (f Failure) Said() (out []Example) {
	known := map[string]bool{}
	for _, e := range f.Examples {
		words := strings.Join(strings.FieldsFunc(e.Last, unicode.IsDigit), "0")
		if e.Last != "" && !known[words] {
			known[words] = true
			out = append(out, e)
		}
	}
	return out
}

// PeerCount is how many tasks of something were on a peer.
type PeerCount struct {
	Peer     string `json:"peer"`
	PeerName string `json:"peer_name"`
	Tasks    int    `json:"tasks"`
}

// TaskQuery is which tasks of a job are asked for.
type TaskQuery struct {
	States []string // words of Task.State; none: all
	Peer   string   // as a person types it; "": all
	Sort   string   // slot, took, started or ended; -took and its like: the largest first
	After  string   // Tasks.Next of the page before
	Limit  int      // at most MaxPage; 0 is that
}

// MaxPage is how many tasks a page has at most.
const MaxPage = 1000

// What is asked for if nothing is said, and at most.
const (
	usualCells, maxCells = 4000, 20_000
	usualPx, maxPx       = 1200, 8000
)

// sized serves what has a size in its query.
func sized[T any](name string, usual, most int, f func(Backend, context.Context, string, int) (T, error)) Call {
	return custom[T](func(b Backend, w http.ResponseWriter, r *http.Request) {
		n, err := number(r.URL.Query(), name, usual, most)
		if err != nil {
			fail(w, err)
			return
		}
		v, err := f(b, r.Context(), r.PathValue("id"), n)
		answer(w, v, err)
	}, f)
}

// number reads a whole number from 1 to most out of a query; usual if it is not there.
func number(v url.Values, name string, usual, most int) (int, error) {
	text := v.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, Errorf(Usage, "%s %q: expected a whole number from 1 to %d", name, text, most)
	}
	return n, nil
}

// taskQuery reads a TaskQuery; ok tells whether there is one.
func taskQuery(v url.Values) (q TaskQuery, ok bool, err error) {
	for _, name := range []string{"state", "peer", "sort", "after", "limit"} {
		ok = ok || v.Has(name)
	}
	for _, s := range v["state"] {
		for word := range strings.SplitSeq(s, ",") {
			if word != "" {
				q.States = append(q.States, word)
			}
		}
	}
	q.Peer, q.Sort, q.After = v.Get("peer"), v.Get("sort"), v.Get("after")
	q.Limit, err = number(v, "limit", MaxPage, MaxPage)
	return q, ok, err
}

// Slow says which peers are clearly slower than the others, a sentence for each; span writes how
// long something takes. It may be called of none.
func (p *Pace) Slow(span func(time.Duration) string) (out []string) {
	if p == nil {
		return nil
	}
	long := func(seconds float64) string { return span(time.Duration(seconds * float64(time.Second))) }
	for _, x := range p.Peers {
		name, takes := cmp.Or(x.PeerName, x.Peer), x.Slower*x.Others
		switch {
		case x.Slower == 0:
		case takes > x.Took: // of those that run there
			out = append(out, fmt.Sprintf("%s has run a task for %s that takes %s elsewhere", name, long(takes), long(x.Others)))
		default:
			out = append(out, fmt.Sprintf("%s takes %s× as long as the others: %s instead of %s", name, times(x.Slower), long(x.Took), long(x.Others)))
		}
	}
	return out
}

// times writes how many times as large something is: 2.5, 5.
func times(n float64) string {
	if n < 3 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return strconv.Itoa(int(n + 0.5))
}
