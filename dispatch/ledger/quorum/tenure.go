package quorum

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger/quorum/mark"
	"covey/dispatch/ledger/quorum/raftlog"
	"covey/dispatch/ledger/quorum/store"
	"covey/taskstate"
)

// tenure is this peer's place among the servers of the ledger from seat to seat. Each seat has an
// incarnation of its own: it is part of the server's name, so that what was sent to a seat that was
// lost, or given up, never reaches the one after it. It has nothing to do with the incarnation of
// the worker's journal. Guarded by Node.mu, but for bad.
type tenure struct {
	inc    taskstate.Incarnation     // of the seat, or of the next one
	lost   *Loss                     // the seat this peer had to give up, until it is one of the voters again, or its old place is gone
	marked bool                      // the memo says that there is a mark of the seat
	noted  uint64                    // index of the voters the memo was asked to keep last
	heard  map[taskstate.PeerID]Loss // what other peers said that they lost
	bad    chan struct{}             // wakes runUpkeep: the seat was found to be unsound
}

// Loss is a seat that was given up, because what its disk holds cannot be believed.
type Loss struct {
	Server     string `cbor:"1,keyasint"`           // PEER/INCARNATION
	Generation uint64 `cbor:"2,keyasint"`           // of the ledger it voted in
	Held       uint64 `cbor:"3,keyasint,omitempty"` // the log had reached this entry, as far as is known
	Left       uint64 `cbor:"4,keyasint,omitempty"` // what is left of it ends at this one
	Why        string `cbor:"5,keyasint,omitempty"`
	At         int64  `cbor:"6,keyasint,omitempty"` // milliseconds since 1970
	Folder     string `cbor:"7,keyasint,omitempty"` // where what is left was put, on that peer
}

// incarnationBytes is the length of an incarnation before it is written in hexadecimal.
const incarnationBytes = 8

func drawIncarnation() taskstate.Incarnation {
	var raw [incarnationBytes]byte
	_, _ = rand.Read(raw[:]) // never fails
	return taskstate.Incarnation(hex.EncodeToString(raw[:]))
}

// begin takes over what the memo says.
func (t *tenure) begin(m memo) { t.inc, t.lost, t.marked = m.Incarnation, m.Lost, m.Marked }

// SeatIncarnation is that of this peer's seat, or of the one it would take: others must know it to
// make this peer a voter. Reseated is closed when it changes.
func (n *Node) SeatIncarnation() taskstate.Incarnation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tenure.inc
}

// Reseated is closed when SeatIncarnation or Lost change after the call.
func (n *Node) Reseated() <-chan struct{} { return n.reseated.wait() }

// Lost is the seat this peer had to give up and has not got back yet; nil if there is none.
func (n *Node) Lost() *Loss {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.tenure.lost
}

// lostForOthers is what this peer tells about the seat it lost.
func (n *Node) lostForOthers() *Loss {
	l := n.Lost()
	if l == nil {
		return nil
	}
	out := *l
	out.Folder = ""
	return &out
}

// heardOfLoss notes what a peer says about its own seat; nil is that it lost none.
func (n *Node) heardOfLoss(peer taskstate.PeerID, l *Loss) {
	if l != nil {
		of, _, err := parseServer(l.Server)
		if err != nil || of != peer || len(l.Server) > maxLossText || len(l.Why) > maxLossText {
			return
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l == nil {
		delete(n.tenure.heard, peer)
		return
	}
	if n.tenure.heard == nil {
		n.tenure.heard = map[taskstate.PeerID]Loss{}
	}
	if _, known := n.tenure.heard[peer]; known || len(n.tenure.heard) < maxContacts {
		n.tenure.heard[peer] = *l
	}
}

// maxLossText bounds what others say about their losses.
const maxLossText = 2 << 10

// Losses are the voters that had to give up their seats, because their disks lost what they had
// acknowledged, and have no other yet; this peer's own among them. Without them too few may be left
// to decide.
func (n *Node) Losses() (out []Loss) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tenure.lost != nil {
		out = append(out, *n.tenure.lost)
	}
	for _, l := range n.tenure.heard {
		if slices.ContainsFunc(n.voters, func(v Voter) bool { return v.Voting && v.server() == l.Server }) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Loss) int { return cmp.Compare(a.Server, b.Server) })
	return out
}

// Peer is who lost the seat.
func (l Loss) Peer() taskstate.PeerID {
	peer, _, _ := parseServer(l.Server)
	return peer
}

// redraw gives the next seat an incarnation of its own. The caller holds life, and saves the memo.
func (n *Node) redraw() {
	n.mu.Lock()
	n.tenure.inc = n.cfg.Draw()
	n.mu.Unlock()
	n.reseated.fire()
}

// seatUnsound is for whoever finds, in any goroutine, that the log of a seat cannot be believed.
// The seat gives no vote, leads no more and acknowledges nothing from this moment on. It is given
// up for good a moment later, on disk as well (see loseSeat), and the coordinator, if the others
// can elect one, seats this peer anew, with an empty log that is brought up to date.
func (n *Node) seatUnsound(s *seat, why error) {
	u, ok := why.(*store.Unsound) //nolint:errorlint // not one that is wrapped: what is around it would be lost
	if !ok {
		u = &store.Unsound{Why: why}
	}
	if !s.unsound.CompareAndSwap(nil, u) {
		return
	}
	n.cfg.Log.Error("this voter's log cannot be believed: it votes no more and asks for another seat", "err", u)
	_ = s.stream.Close()
	s.store.Bar(u)
	select {
	case n.notify <- false:
	default: // full of news of its own
	}
	nudge(n.tenure.bad)
}

// keepTenure gives up a seat that was found to be unsound, forgets a loss that was made good, and
// remembers the voters for messages.
func (n *Node) keepTenure() {
	n.mu.Lock()
	news := n.votersIndex > n.tenure.noted
	n.tenure.noted = n.votersIndex
	n.mu.Unlock()
	if news {
		if err := n.saveMemo(); err != nil {
			n.cfg.Log.Warn("cannot remember the voters", "err", err)
		}
	}
	s := n.currentSeat()
	if s == nil || s.unsound.Load() == nil {
		n.forgetLoss()
		return
	}
	n.life.Lock()
	defer n.life.Unlock()
	if n.currentSeat() != s {
		return
	}
	if err := n.loseSeat(s.generation, s.unsound.Load()); err != nil {
		n.cfg.Log.Error("the seat among the voters was given up, with trouble", "err", err)
	}
	n.kick()
}

// loseSeat gives up a seat, open or not, whose log cannot be believed: it puts what is left aside
// for a person to look at, and remembers what was lost. The caller holds life.
func (n *Node) loseSeat(generation uint64, u *store.Unsound) error {
	side, err := n.sideFolder(generation)
	if err != nil {
		n.cfg.Log.Warn("what is left of the ledger's log stays where it is", "err", err)
	}
	n.mu.Lock()
	voters := n.voters
	n.mu.Unlock()
	if n.currentSeat() != nil {
		n.leaveSeat()
	}
	n.mu.Lock()
	n.voters = voters // for messages
	t := &n.tenure
	t.lost = &Loss{
		Server: Voter{Peer: n.cfg.Self, Incarnation: t.inc}.server(), Generation: generation, Held: u.Held, Left: u.Left,
		Why: u.Error(), At: n.cfg.Now().UnixMilli(), Folder: side,
	}
	t.inc = n.cfg.Draw()
	n.mu.Unlock()
	n.reseated.fire()
	n.cfg.Log.Error("this peer's log of the ledger was lost: it gives no vote until it is seated anew", "why", u, "set aside", side)
	if err := n.saveMemo(); err != nil {
		return fmt.Errorf("remember that the seat among the voters was lost: %w", err)
	}
	if side == "" {
		return nil
	}
	return n.moveSeat(side, generation)
}

// forgetLoss: whoever coordinates knows that the old seat is gone, or this peer belongs to a newer
// ledger.
func (n *Node) forgetLoss() {
	_, _, led := n.Coordinator()
	g := n.Generation()
	n.mu.Lock()
	l := n.tenure.lost
	over := l != nil && (g > l.Generation || led && n.votersIndex > 0 && !slices.ContainsFunc(n.voters, func(v Voter) bool { return v.server() == l.Server }))
	if over {
		n.tenure.lost = nil
	}
	n.mu.Unlock()
	if !over {
		return
	}
	n.cfg.Log.Info("the seat that was lost is out of the configuration")
	n.reseated.fire()
	if err := n.saveMemo(); err != nil {
		n.cfg.Log.Warn("cannot remember that", "err", err)
	}
}

// findSeat is for a folder without a memo: it is new, or only the memo is gone, and then the seat
// is the one whose log is there. Whose log that is the mark says, or the newest configuration in
// it.
func (n *Node) findSeat() (memo, error) {
	generation := uint64(0)
	found, err := filepath.Glob(filepath.Join(n.cfg.Dir, "raft-*"))
	if err != nil {
		return memo{}, err
	}
	for _, dir := range found {
		var g uint64
		if _, err := fmt.Sscanf(filepath.Base(dir), "raft-%d", &g); err == nil {
			generation = max(generation, g)
		}
	}
	if generation == 0 {
		return memo{Incarnation: n.cfg.Draw()}, nil
	}
	_, m, err := mark.Open(n.markPath())
	if err != nil {
		return memo{}, err
	}
	if peer, inc, err := parseServer(m.Server); err == nil && peer == n.cfg.Self && m.Generation == generation {
		n.cfg.Log.Warn("the ledger's memo is gone; the seat among the voters is the one whose log is here", "seat", m.Server, "generation", generation)
		return memo{Seat: generation, Incarnation: inc, Marked: true}, nil
	}
	inc, err := n.ownServer(generation)
	if err != nil {
		n.cfg.Log.Warn("the ledger's memo is gone, and the log that is here does not say whose it is; it is not used", "err", err)
		return memo{Incarnation: n.cfg.Draw()}, nil
	}
	return memo{Seat: generation, Incarnation: inc}, nil
}

// ownServer is the incarnation of this peer's only server in the newest configuration of a log.
func (n *Node) ownServer(generation uint64) (inc taskstate.Incarnation, err error) {
	dir := n.seatDir(generation)
	if _, err := os.Stat(filepath.Join(dir, "wal-meta.db")); err != nil {
		return "", err
	}
	log, err := store.Open(n.logIn(dir))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	snaps, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, raftlog.New(n.cfg.Log))
	if err != nil {
		return "", err
	}
	c, _, err := log.Configuration(snaps)
	if err != nil {
		return "", err
	}
	var own []string
	for _, s := range c.Servers {
		if strings.HasPrefix(string(s.ID), n.cfg.Self+"/") {
			own = append(own, string(s.ID))
		}
	}
	if len(own) != 1 {
		return "", fmt.Errorf("its newest configuration has %d servers of this peer", len(own))
	}
	_, inc, err = parseServer(own[0])
	return inc, err
}
