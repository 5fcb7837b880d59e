package care

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// Whom a copy may be asked of is who may read it: its submitter, admins and readers.
func TestOnlyWhoMayReadIsAskedToKeep(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewCore("self", now)
	saved := &taskstate.Saved{Root: piece.Sum([]byte("out")), Keepers: []taskstate.PeerID{"self"}, Keep: 2}
	task := taskstate.Task("j", 1, 1)
	c.Holds(map[taskstate.TaskID]PinState{task: ForGood}, now)
	c.Keep([]FileSet{{ID: task, Owner: "submitter", Saved: saved}}, now)
	asked := func(peers map[taskstate.PeerID]Peer) (who taskstate.PeerID) {
		now = now.Add(LostAfter + time.Second)
		peers["self"] = Peer{Here: true, Since: now, Blind: true}
		for _, do := range c.Sees(peers, now) {
			if do.Kind == Ask {
				who = do.Peer
			}
		}
		return who
	}
	blind := Peer{Here: true, Blind: true}
	if who := asked(map[taskstate.PeerID]Peer{"guest": blind}); who != "" {
		t.Errorf("%s is asked, who may not read it", who)
	}
	for row := range c.Rows(now) {
		if !row.Alone {
			t.Errorf("somebody else could keep it: %+v", row)
		}
	}
	if who := asked(map[taskstate.PeerID]Peer{"guest": blind, "submitter": blind}); who != "submitter" {
		t.Errorf("%q is asked, not its submitter", who)
	}
}
