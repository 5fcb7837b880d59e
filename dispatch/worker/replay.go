package worker

import (
	"context"
	"errors"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
)

// A worker that was busy when its peer ended has much to read when it comes back. A peer that asks
// meanwhile whether this one is alive is answered: it keeps a session, in which it beats and says
// that it reads its journal. Until it has reported what it holds it gets no tasks, and nothing is
// concluded about those it has.

// replayHeadStart is how long the first session waits for the journal: most are read by then, and
// the session begins with all there is to say.
const replayHeadStart = 250 * time.Millisecond

// headStart waits for the journal, but not for long.
func (w *Loop) headStart(ctx context.Context) {
	t := time.NewTimer(replayHeadStart)
	defer t.Stop()
	late := t.C
	if w.anew { // what ran before is to have ended before anybody concludes from the new incarnation that it may run elsewhere
		late = nil
	}
	select {
	case <-w.replayed:
	case <-late:
	case <-ctx.Done():
	}
}

// Replayed is closed when the journal has been read.
func (w *Loop) Replayed() <-chan struct{} { return w.replayed }

// restored is what reading the journal comes to.
type restored struct {
	journal journal.Journal
	img     *journal.Image
	err     error
}

// replay reads the journal and has the runner take up what it holds, while the owner, which is who
// calls it, looks after streams. on tells whether Run goes on; a Detach is carried out here, for
// nothing has been begun that could be left alone. A Stop waits: what runs is to be stopped, and
// what that is has yet to be read.
func (w *Loop) replay(ctx context.Context) (on bool, err error) {
	reading, give := context.WithCancel(ctx)
	defer give()
	done := make(chan restored, 1)
	owner := journal.Owner{Format: journal.Format, Peer: w.cfg.Self, Incarnation: w.inc}
	go func() { // ends when the disk answers
		j, img, err := w.open(reading, owner)
		done <- restored{j, img, err}
	}()
	begin := time.Now()
	for {
		select {
		case r := <-done:
			if errors.Is(r.err, journal.ErrCorrupt) {
				return false, &lostJournal{why: r.err.Error(), fence: w.core.state.Fence}
			}
			if r.err != nil {
				return false, r.err
			}
			done, w.journal = nil, r.journal
			w.step(Restored{r.img})
		case lost := <-w.adopted:
			w.step(Adopted{lost})
			w.closeOnce(w.replayed)
			w.cfg.Log.Debug("journal read", "after", time.Since(begin))
			return true, nil
		case e := <-w.streams:
			w.streamChanged(e)
		case ev := <-w.events:
			w.step(ev)
		case o := <-w.offers:
			w.step(OfferChanged{o})
		case <-ctx.Done():
			return false, w.stopReading(give, done)
		case <-w.detach:
			return false, w.stopReading(give, done)
		case <-w.abort:
			return false, w.stopReading(give, done)
		}
	}
}

// stopReading waits for the reader to end, but not for a disk that does not answer.
func (w *Loop) stopReading(give context.CancelFunc, done <-chan restored) error {
	give()
	if done == nil { // it has been read
		return nil
	}
	patience := time.NewTimer(stuckAfter)
	defer patience.Stop()
	select {
	case r := <-done:
		w.journal = r.journal
		if errors.Is(r.err, context.Canceled) {
			return nil
		}
		return r.err
	case <-patience.C:
		w.abandoned = true
		return nil
	}
}
