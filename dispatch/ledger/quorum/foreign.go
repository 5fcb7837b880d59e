package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

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

// Foreign is the highest generation this peer has heard of that is above its own, 0 if none:
// somebody recovered the ledger elsewhere.
func (n *Node) Foreign() uint64 {
	own := n.Generation()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.foreign.generation <= own {
		return 0
	}
	return n.foreign.generation
}

// reportForeign hears that a peer belongs to a higher generation. It is a hint about whom to ask:
// the own ledger is set aside once the newer one was received from a peer that may vote, not
// before.
func (n *Node) reportForeign(peer taskstate.PeerID, generation uint64, others ...taskstate.PeerID) {
	own := n.Generation()
	if generation <= own || own == 0 || n.generationBeyond(peer, generation) {
		return
	}
	ask := slices.DeleteFunc(append([]taskstate.PeerID{peer}, others...), func(p taskstate.PeerID) bool {
		return p == "" || p == n.cfg.Self || !n.mayVote(p)
	})
	n.mu.Lock()
	f := &n.foreign
	news := generation > f.generation
	if news {
		*f = foreign{generation: generation}
	}
	for _, p := range ask {
		if generation == f.generation && !slices.Contains(f.peers, p) && len(f.peers) < maxForeign {
			f.peers, news = append(f.peers, p), true
		}
	}
	n.mu.Unlock()
	if news {
		n.cfg.Log.Warn("a peer belongs to a newer generation of the ledger", "peer", peer, "theirs", generation, "ours", own)
		n.kick()
	}
}

// newerLedgers lists whom to ask for a ledger of a higher generation than one's own.
func (n *Node) newerLedgers() []taskstate.PeerID {
	own := n.Generation()
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []taskstate.PeerID
	if own > 0 && n.hintEpoch.Generation > own {
		out = append(out, n.hint)
	}
	if n.foreign.generation > own {
		out = append(out, n.foreign.peers...)
	}
	return out
}

// forgetNewer: the peer was asked, and had no newer ledger, or did not answer. If it is named again
// it is asked again.
func (n *Node) forgetNewer(peer taskstate.PeerID) {
	own := n.Generation()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.foreign.generation > own {
		n.foreign.peers = slices.DeleteFunc(n.foreign.peers, func(p taskstate.PeerID) bool { return p == peer })
	}
}

// adopt takes a snapshot. One of a higher generation than ours comes from a recovered ledger: ours
// is set aside.
func (n *Node) adopt(from taskstate.PeerID, st *ledger.State) error {
	n.life.Lock()
	defer n.life.Unlock()
	switch own := n.Generation(); {
	case own == 0 || own == st.Generation():
	case st.Generation() < own:
		return fmt.Errorf("a snapshot of generation %d, older than %d here", st.Generation(), own)
	case n.authority.seats.Now().Generation != st.Generation() || !n.Seated(from):
		return fmt.Errorf("a ledger of generation %d from %s: %w", st.Generation(), from, errUnseated)
	default:
		n.cfg.Log.Warn("the ledger was recovered elsewhere: this peer's own is set aside", "from", from, "theirs", st.Generation(), "ours", own)
		if err := n.setAside(own); err != nil {
			return err
		}
	}
	n.reset(st)
	return nil
}

// setAside moves this peer's ledger to a side folder, for whoever wants to look, and gives up its
// seat. The replica stays as it is until it is replaced. The caller holds life.
func (n *Node) setAside(generation uint64) error {
	side, err := n.sideFolder(generation)
	if err != nil {
		return err
	}
	n.leaveSeat()
	n.redraw()
	if err := n.saveMemo(); err != nil {
		return fmt.Errorf("set the ledger aside: %w", err)
	}
	return n.moveSeat(side, generation)
}

// sideFolder makes a folder for a ledger that is given up, with what this peer knows of it now.
func (n *Node) sideFolder(generation uint64) (string, error) {
	side := filepath.Join(n.cfg.Dir, "set-aside", fmt.Sprintf("generation-%d-%s", generation, n.cfg.Now().UTC().Format("20060102T150405.000")))
	if err := os.MkdirAll(side, 0o700); err != nil {
		return "", fmt.Errorf("set the ledger aside: %w", err)
	}
	if n.rep.Applied() == 0 {
		return side, nil
	}
	return side, saveCopy(n.rep, filepath.Join(side, "copy"))
}

// moveSeat puts the folder of a closed seat aside, if there is one.
func (n *Node) moveSeat(side string, generation uint64) error {
	dir := n.seatDir(generation)
	if err := os.Rename(dir, filepath.Join(side, filepath.Base(dir))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set the ledger aside: %w", err)
	}
	return nil
}

// leaveSeat closes the seat and waits until nobody leads here any more.
func (n *Node) leaveSeat() {
	if err := n.closeSeat(); err != nil {
		n.cfg.Log.Warn("gave up the seat among the voters, with trouble", "err", err)
	}
	n.awaitTerm()
	n.mu.Lock()
	n.voters, n.votersIndex, n.votersFloor = nil, 0, 0
	n.mu.Unlock()
}

// termPatience bounds how long the end of a term is waited for.
const termPatience = 10 * time.Second

// awaitTerm waits until nobody leads here any more, after the seat was closed.
func (n *Node) awaitTerm() {
	limit := time.NewTimer(termPatience)
	defer limit.Stop()
	for {
		wait := n.changed.wait()
		if n.lead.Load() == nil {
			return
		}
		select {
		case <-wait:
		case <-limit.C:
			return
		}
	}
}
