package worker

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"covey/dispatch/session"
	"covey/dispatch/worker/journal"
	"covey/taskstate"
)

// A worker's journal may be gone, damaged, or older than what others saw of it: a file was deleted,
// a backup was put back. What it says, and what it does not say, is worth nothing then: tasks that
// it does not know may have run, and numbers that it would use were used. So the worker ends that
// incarnation – it stops what runs, signs nothing more – and begins another, with a journal of its
// own. The coordinator learns of that by its Hello, and the ledger gives the old one's tasks up,
// each by its job's rule.
//
// An ordinary crash does not look like that: a batch is on disk before anybody gets it.

// lostJournal ends a life of the worker: the next one begins another incarnation.
type lostJournal struct {
	why   string
	fence taskstate.Epoch // was obeyed
}

func (e *lostJournal) Error() string { return e.why }

// signGrace is how long a worker that comes back with a past waits for a coordinator to tell it
// whether that is all of its past, before it signs anything in its name. Without a coordinator
// others learn after that how its tasks are.
const signGrace = 5 * time.Second

// hearGrace is how long it waits beside a coordinator that has heard less of it than one did
// before, because it has just started, too: others may know more, and level their batches with this
// peer's when they meet it.
const hearGrace = time.Second

// signing owns the answer to when batches may be numbered: not before it is known which numbers were
// used. Only the core calls it.
type signing struct {
	born    time.Time
	known   bool      // a coordinator has named what is known of this incarnation, and it is not more than the journal has
	vouched time.Time // until then batches are not numbered: see hearGrace
	mute    bool      // nothing is signed, see Loop.Mute
}

// welcomed hears of the highest batch a coordinator knows, which is not above the last one.
func (s *signing) welcomed(highest, acked uint64, now time.Time) {
	if !s.known && highest < acked {
		s.vouched = now.Add(hearGrace)
	}
	s.known = true
}

// may tells whether batches may be numbered after the last one. If not yet, it says when.
func (s *signing) may(now time.Time, last uint64, stopping bool) (at time.Time, ok bool) {
	if s.mute {
		return at, false
	}
	begin, due := time.Time{}, s.born.Add(signGrace)
	if s.known {
		begin, due = s.vouched.Add(-hearGrace), s.vouched // a clock that was set back since does not make it wait anew
	}
	return due, stopping || last == 0 || now.Before(begin) || !now.Before(due)
}

// lose ends this incarnation: nothing is taken on, said or written any more, and what runs is
// stopped.
func (c *Core) lose(why string) {
	if c.lost != "" {
		return
	}
	c.lost, c.stopping = why, true
	for _, h := range c.held.living() {
		if h.phase == phaseStarted {
			c.stop(h, taskstate.ReasonInterrupted)
		}
	}
	c.hangUp("this worker begins a new incarnation: "+why, true)
}

// Renounced tells whether the incarnation is over, and why: nothing of it runs any more.
func (c *Core) Renounced() (why string, over bool) {
	return c.lost, c.lost != "" && !c.replaying && c.held.runs == 0 && c.saving == nil
}

// outrun says in which way others know more about this incarnation than the journal does, "" if
// they do not.
func (c *Core) outrun(w *session.Welcome) string {
	if w.Highest > c.state.Last {
		return fmt.Sprintf("it ends with batch %d of statuses, and others have batch %d", c.state.Last, w.Highest)
	}
	for _, b := range c.outbox.unacked {
		if b.number == w.Highest && len(w.Sum) > 0 && !bytes.Equal(w.Sum, session.EnvelopeSum(b.envelope)) {
			return fmt.Sprintf("it has another batch %d of statuses than others have", b.number)
		}
	}
	for _, g := range w.Heard {
		for t := range g.Tasks() {
			if c.held.of[t] == nil && !c.tombs.has(t) {
				return fmt.Sprintf("it does not know task %s, which it reported to others before", t)
			}
		}
	}
	return ""
}

// seen is what others hold of this incarnation, signed by this peer. Number is above all numbers if
// a batch differs from ours.
func (c *Core) seen(inc taskstate.Incarnation, number uint64) {
	switch {
	case inc != c.inc || number <= c.state.Last:
	case number == OtherBatch:
		c.lose("others have another batch of statuses under a number it has used")
	default:
		c.lose(fmt.Sprintf("it ends with batch %d of statuses, and others have batch %d", c.state.Last, number))
	}
}

const OtherBatch = 1<<64 - 1

// claimJournal finds whose life goes on in a data folder. One without a journal, or with one that
// cannot be believed, begins another: why says so, but for a folder in which nothing was before.
func claimJournal(cfg *Config) (head journal.Head, why string, err error) {
	path := filepath.Join(cfg.Dir, journal.FileName)
	_, err = os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && cfg.Incarnation != "":
		head = newHead(cfg.Self, cfg.Incarnation, cfg.Start.Number)
		return head, "", journal.Create(cfg.Dir, head)
	case errors.Is(err, fs.ErrNotExist):
		why = "it is gone"
	case err != nil:
		return head, "", fmt.Errorf("the worker journal %s: %w", path, err)
	default:
		head, err = journal.Peek(cfg.Dir, cfg.Self)
		switch {
		case errors.Is(err, journal.ErrCorrupt):
			why = err.Error()
		case err != nil:
			return head, "", err
		case len(cfg.Stamps) > 0 && !slices.Contains(cfg.Stamps, head.Start):
			why = "it is older than the last start of this peer: an older copy was put back"
		case cfg.Signed != nil && cfg.Signed(head.Owner.Incarnation) > head.State.Last:
			why = fmt.Sprintf("it ends with batch %d of statuses, and this peer remembers %d: an older copy was put back", head.State.Last, cfg.Signed(head.Owner.Incarnation))
		default:
			return head, "", nil
		}
	}
	head, err = replaceJournal(cfg.Dir, cfg.Self, cfg.Start.Number, head.State.Fence)
	return head, why, err
}

func newHead(self taskstate.PeerID, inc taskstate.Incarnation, start uint64) journal.Head {
	return journal.Head{Owner: journal.Owner{Format: journal.Format, Peer: self, Incarnation: inc}, Start: start}
}

// replaceJournal begins a new incarnation. What the journal of the old one was is kept beside it,
// for people.
func replaceJournal(dir string, self taskstate.PeerID, start uint64, fence taskstate.Epoch) (journal.Head, error) {
	path := filepath.Join(dir, journal.FileName)
	if err := os.Rename(path, path+".lost"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return journal.Head{}, fmt.Errorf("set the worker journal %s aside: %w", path, err)
	}
	head := newHead(self, newIncarnation(), start)
	head.State.Fence = fence // what was obeyed stays obeyed
	return head, journal.Create(dir, head)
}

func newIncarnation() taskstate.Incarnation {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
	return taskstate.Incarnation(hex.EncodeToString(raw[:]))
}
