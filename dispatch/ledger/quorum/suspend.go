package quorum

import (
	"errors"
	"math"

	"covey/dispatch/ledger/quorum/store"
	"covey/taskstate"
)

// errSuspended answers whoever would have this peer take part in deciding meanwhile.
var errSuspended = errors.New("this peer takes no part in deciding: another one goes by the same key")

// suspend: another peer goes by the same key, and until a person has settled which is the right
// one, none of the two votes or leads.
func (t *seating) suspend() error {
	t.life.Lock()
	defer t.life.Unlock()
	s, voters := t.place.seat.Load(), t.dir.list()
	if !t.tenure.suspend(s) || s == nil {
		return nil
	}
	err := t.close()
	t.terms.awaitEnd()
	t.dir.addContacts(peersOf(voters), math.MaxInt) // there may be one to follow
	t.dir.setCoordinator("", taskstate.Epoch{})
	t.wakes.follow.Set()
	return err
}

func (t *seating) resume() error {
	t.life.Lock()
	defer t.life.Unlock()
	generation := t.tenure.resume()
	if generation == 0 {
		return nil
	}
	defer t.wakes.follow.Set()
	return t.retake(generation)
}

// retake opens a seat that was closed, or was open when the peer stopped. One that cannot be
// believed is given up. The caller holds life.
func (t *seating) retake(generation uint64) error {
	err := t.open(generation, nil)
	if bad := new(store.Unsound); errors.As(err, &bad) {
		return t.lose(generation, bad)
	}
	return err
}
