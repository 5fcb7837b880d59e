package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
)

// lostJournal ends a life of the worker: the next one begins another incarnation.
type lostJournal struct {
	why   string
	fence taskstate.Epoch // was obeyed
}

func (e *lostJournal) Error() string { return e.why }

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
	head := newHead(self, taskstate.NewIncarnation(), start)
	head.State.Fence = fence // what was obeyed stays obeyed
	return head, journal.Create(dir, head)
}
