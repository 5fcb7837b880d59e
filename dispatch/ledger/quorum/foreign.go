package quorum

import (
	"fmt"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

// foreign is what was heard of a ledger of a higher generation than one's own: somebody recovered
// it elsewhere.
type foreign struct {
	generation uint64
	peers      []taskstate.PeerID // who said so, or was named by them; whom to ask for it
}

// maxForeign bounds the peers remembered to ask for a newer ledger.
const maxForeign = 8

// adopt takes a snapshot. One of a higher generation than ours comes from a recovered ledger: ours
// is set aside.
func (t *seating) adopt(from taskstate.PeerID, st *ledger.State) error {
	t.life.Lock()
	defer t.life.Unlock()
	switch own := t.place.generation(); {
	case own == 0 || own == st.Generation():
	case st.Generation() < own:
		return fmt.Errorf("a snapshot of generation %d, older than %d here", st.Generation(), own)
	case t.authority.seats.Now().Generation != st.Generation() || !t.authority.seated(from):
		return fmt.Errorf("a ledger of generation %d from %s: %w", st.Generation(), from, errUnseated)
	default:
		t.cfg.Log.Warn("the ledger was recovered elsewhere: this peer's own is set aside", "from", from, "theirs", st.Generation(), "ours", own)
		if err := t.setAside(own); err != nil {
			return err
		}
	}
	t.feed.reset(st)
	return nil
}

// setAside moves this peer's ledger to a folder aside, for whoever wants to look, and gives up its
// seat. The replica stays as it is until it is replaced. The caller holds life.
func (t *seating) setAside(generation uint64) error {
	aside, err := t.folder.asideFolder(t.place.rep, generation)
	if err != nil {
		return err
	}
	t.leave()
	t.tenure.redraw()
	if err := t.saveMemo(); err != nil {
		return fmt.Errorf("set the ledger aside: %w", err)
	}
	return t.folder.moveSeat(aside, generation)
}

// leave closes the seat and waits until nobody leads here any more.
func (t *seating) leave() {
	if err := t.close(); err != nil {
		t.cfg.Log.Warn("gave up the seat among the voters, with trouble", "err", err)
	}
	t.terms.awaitEnd()
	t.dir.forgetVoters()
}
