package quorum

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/raft"

	"covey/dispatch/ledger/quorum/mark"
	"covey/dispatch/ledger/quorum/raftlog"
	"covey/dispatch/ledger/quorum/store"
	"covey/taskstate"
)

// findSeat is for a folder without a memo: it is new, or only the memo is gone, and then the seat is the one whose log is there. Whose log
// that is the mark says, or the newest configuration in it.
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
