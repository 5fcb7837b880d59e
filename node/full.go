package node

import (
	"covey/node/api"
	"covey/node/room"
	"covey/taskstate"
)

// roomChanged has this peer take nothing on while its disk is full, and says so: here and, with its
// offer, to all.
func (n *Node) roomChanged(err error) {
	n.worker.Refrain(api.TroubleDiskFull, err)
	switch {
	case err == nil:
		n.troubles.Clear(n.self, api.TroubleDiskFull)
		n.log.Info("there is room on the disk again")
	case n.troubles.Set(n.self, api.TroubleDiskFull, err.Error()):
		n.log.Error("no room on the disk", "err", err)
	}
}

// fullDisk says of ends and of starts that failed what a full disk has to do with it.
type fullDisk struct{ *room.Keeper }

// addTo adds to the end of a task what its disk may have to do with it. Whether it failed
// because of that only the task knows: its code stands.
func (f fullDisk) addTo(r taskstate.RunReport) taskstate.RunReport {
	switch {
	case r.Reason == taskstate.ReasonOutputLost, r.Reason == taskstate.ReasonStuck:
		f.LookNow()
	case r.State == taskstate.Failed && r.Reason == taskstate.ReasonExit && f.LowNow() != nil:
		f.LookNow()
		r.Message += "; the disk of its peer was full at its end"
	}
	return r
}

// explain says of a start that failed what the disk has to do with it. Tasks of before go on
// meanwhile: their supervisor has them.
func (f fullDisk) explain(err error) error {
	if f.Keeper == nil || api.AsError(err).Code != api.Failed || f.LowNow() == nil {
		return err
	}
	return api.Errorf(api.Failed, "%v. %s, and start this peer again: what runs here goes on meanwhile", err, f.Advice())
}
