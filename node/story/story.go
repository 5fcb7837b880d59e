// Package story remembers what happened in a cluster, as one peer saw it, that is not about single
// tasks: elections, peers that came, died and returned, tasks given up, updates.
//
//	s := story.Open(path, now)   // what was remembered before
//	go s.Run(ctx)                // brings what is new to the disk, a second later at most
//	s.Add(entry, events…)        // never waits; of entries of the ledger that were told before: nothing
//	s.Since(time)                // the oldest first
//
// Of events that are alike and follow closely, one is kept that says how many they were; on the
// disk they are single lines until the file is written anew. At most 4,096 events are kept, none
// older than 30 days, in one file of JSON lines that never has more than 1 MiB. It is written
// without fsync: a crash of the machine may cost the newest events. Lines that cannot be read are
// skipped. A disk that takes nothing costs what is not written there, and nothing waits for it.
package story

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
)

// FileName is the file's name in a data folder.
const FileName = "story.jsonl"

const (
	most    = 4096
	keep    = 30 * 24 * time.Hour
	maxFile = 1 << 20
	maxText = 400 // bytes of one event's text
	pace    = time.Second
)

// Event is one thing that happened.
type Event struct {
	At    int64  `json:"at"`             // milliseconds since 1970
	Entry Entry  `json:"entry,omitzero"` // of the ledger that it is of; none: it was observed
	Kind  string `json:"kind"`           // coordinator peer job tasks
	State string `json:"state"`
	Peer  string `json:"peer,omitempty"`
	Job   string `json:"job,omitempty"`
	Text  string `json:"text"` // the whole line for a person

	// Of several in a row that are alike – they agree in Kind, State, Job, Of and Like – one is
	// kept, with how many there were of what, as "1 task" in Text of the first.
	Count int    `json:"count,omitempty"` // 0: it stands alone
	Of    string `json:"of,omitempty"`
	Like  string `json:"like,omitempty"`
	From  int64  `json:"from,omitempty"` // the first of them; At is the newest
}

const (
	mergeFor   = time.Hour // that one event stands for at most
	mergeAmong = 8         // of the newest events
)

// alike tells whether e happened once more.
func (e *Event) alike(n *Event) bool {
	return e.Count > 0 && n.Count > 0 && e.Kind == n.Kind && e.State == n.State && e.Job == n.Job && e.Of == n.Of && e.Like == n.Like &&
		n.At-cmp.Or(e.From, e.At) < mergeFor.Milliseconds()
}

// merged is n with what happened before.
func (e *Event) merged(n Event) Event {
	text := countOf(n.Count, n.Of)
	n.From = cmp.Or(e.From, e.At)
	n.Count += e.Count
	n.Text = strings.Replace(n.Text, text, countOf(n.Count, n.Of), 1)
	return n
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Entry is an entry of the ledger: which of its generations, and where in it.
type Entry struct {
	Generation uint64 `json:"generation"`
	Index      uint64 `json:"index"`
}

func (e Entry) compare(o Entry) int {
	return cmp.Or(cmp.Compare(e.Generation, o.Generation), cmp.Compare(e.Index, o.Index))
}

// Story is the ring of events. It is safe for concurrent use.
type Story struct {
	path string
	now  func() time.Time
	news wake.Signal

	mu     sync.Mutex
	events []Event
	newest Entry   // of the ledger that was told
	fresh  []Event // that are not on the disk, each as it was told
}

// Open reads what is on the disk.
func Open(path string, now func() time.Time) *Story {
	s := &Story{path: path, now: now, news: wake.New()}
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 2*maxFile {
		return s
	}
	for line := range bytes.Lines(b) {
		var e Event
		if json.Unmarshal(line, &e) == nil && e.Kind != "" && utf8.ValidString(e.Text) {
			s.take(e)
			if e.Entry.compare(s.newest) > 0 {
				s.newest = e.Entry
			}
		}
	}
	s.trim()
	return s
}

// Add takes in what happened: of an entry of the ledger, or of none. An entry that was told before,
// or one before that, is not told again: a peer that starts applies some anew.
func (s *Story) Add(of Entry, events ...Event) {
	if len(events) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if of != (Entry{}) {
		if of.compare(s.newest) <= 0 {
			return
		}
		s.newest = of
	}
	for _, e := range events {
		e.Entry, e.Text = of, clipText(e.Text)
		s.take(e)
		s.fresh = append(s.fresh, e)
	}
	s.trim()
	s.news.Set()
}

// take adds an event, or has one of the newest stand for it, too.
func (s *Story) take(e Event) {
	for i := len(s.events) - 1; i >= max(0, len(s.events)-mergeAmong); i-- {
		if s.events[i].alike(&e) {
			e = s.events[i].merged(e)
			s.events = slices.Delete(s.events, i, i+1)
			break
		}
	}
	s.events = append(s.events, e)
}

// cut ends a text that is too long.
func clipText(text string) string {
	if len(text) <= maxText {
		return text
	}
	n := maxText
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}

// trim forgets what is too much or too old. The caller has the lock, or nobody else the story.
func (s *Story) trim() {
	oldest := s.now().Add(-keep).UnixMilli()
	n := max(0, len(s.events)-most)
	for n < len(s.events) && s.events[n].At < oldest {
		n++
	}
	s.events = s.events[n:] // what is before it goes when it next grows
	s.fresh = s.fresh[max(0, len(s.fresh)-most):]
}

// Since lists what happened after a moment, the oldest first.
func (s *Story) Since(t time.Time) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trim()
	out := make([]Event, 0, len(s.events))
	for _, e := range s.events {
		if t.IsZero() || e.At > t.UnixMilli() {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b Event) int { return int(max(-1, min(1, a.At-b.At))) })
	return out
}

// Run brings what is new to the disk, until ctx ends and then once more.
func (s *Story) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		select {
		case <-s.news:
			_ = pause.For(ctx, pace) // written also if there is no more time
			s.flush()
		case <-ctx.Done():
		}
	}
	s.flush()
	return nil
}

// flush appends what is new, or writes the file anew where it would be too large. What it cannot
// write it tries with the next event.
func (s *Story) flush() {
	s.mu.Lock()
	all, fresh := slices.Clone(s.events), s.fresh
	s.fresh = nil
	s.mu.Unlock()
	if len(fresh) == 0 || s.write(all, fresh) == nil {
		return
	}
	s.mu.Lock()
	s.fresh = append(slices.Clip(fresh), s.fresh...)
	s.mu.Unlock()
}

// write brings what is new to the disk, behind what is there.
func (s *Story) write(all, fresh []Event) error {
	b := lines(fresh)
	if info, err := os.Stat(s.path); err != nil || info.Size()+int64(len(b)) >= maxFile {
		for b = lines(all); len(b) > maxFile/2; b = lines(all) { // so that the next ones are appended for a while
			all = all[len(all)/8+1:]
		}
		return atomicfile.Write(s.path, b)
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append([]byte("\n"), b...)) // a line that was cut off ends here
	return err
}

func lines(events []Event) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, x := range events {
		_ = e.Encode(x) // strings and numbers: nothing that JSON does not have
	}
	return b.Bytes()
}
