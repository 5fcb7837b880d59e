package troubles

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// Own are the troubles of this peer itself. Each method says that there is one, or with nil or ""
// that it is over; the log has it once.
type Own struct {
	Self taskstate.PeerID
	All  *Troubles // of all peers
	Log  *slog.Logger
}

// hold notes a trouble, or that it is over if the text is "", and tells whether that is news.
func (o Own) hold(code, text string) (news bool) {
	if text == "" {
		return o.All.Clear(o.Self, code)
	}
	return o.All.Set(o.Self, code, text)
}

// Moved says that the data folder is not where it was.
func (o Own) Moved(why string) {
	text := why + ": if the one it was copied from is to go on as well, stop this peer and give it an identity of its own with `peer up --new-identity --join TICKET`"
	o.Log.Warn(text)
	o.hold(api.TroubleMoved, text)
}

// Audit says that the audit log is not written, which keeps nobody from working.
func (o Own) Audit(err error) {
	if err == nil {
		o.hold(api.TroubleAuditStops, "")
		o.Log.Info("the audit log is written again")
		return
	}
	text := fmt.Sprintf("the audit log is not written (%v): what this peer does in others' names is not noted until its disk takes it again; how much was lost will stand in it", err)
	if o.hold(api.TroubleAuditStops, text) {
		o.Log.Error(text)
	}
}

// Exposed says loudly that the owner of this machine has no protection from those who may submit.
func (o Own) Exposed(why string) {
	if why == "" {
		return
	}
	remedy := "run it as root, allow user namespaces to its user, or put its data folder where only root makes folders, as below /var/lib, and its kernel has Landlock"
	if os.Geteuid() == 0 {
		remedy = "let it mount (CAP_SYS_ADMIN), or run it as a user that may make user namespaces"
	}
	text := "its tasks can read its private key, so anyone who may submit to it can take it over: " + why + "; " + remedy
	o.Log.Warn(text)
	o.hold(api.TroubleExposed, text)
}

// JournalLost says that the worker goes on without what it had written down.
func (o Own) JournalLost(why string) {
	o.hold(api.TroubleJournalLost, "the journal of this peer's worker was lost ("+why+"): it goes on as a new worker. Tasks it had are repeated where their job allows; those that must not run twice ended, and run again by `peer retry` only")
}

// DiskFull says that the disk takes nothing.
func (o Own) DiskFull(err error) {
	if err == nil {
		o.hold(api.TroubleDiskFull, "")
		o.Log.Info("there is room on the disk again")
		return
	}
	if o.hold(api.TroubleDiskFull, err.Error()) {
		o.Log.Error("no room on the disk", "err", err)
	}
}

// Exhausted says that the machine refuses this peer processes or files.
func (o Own) Exhausted(err error) {
	if err == nil {
		o.hold(api.TroubleExhausted, "")
		o.Log.Info("this peer takes as many tasks as before")
		return
	}
	if o.hold(api.TroubleExhausted, err.Error()) {
		o.Log.Error("this peer takes fewer tasks", "err", err)
	}
}

// StoreFull says that what is left to keep here has no room.
func (o Own) StoreFull(err error) {
	if err == nil {
		o.hold(api.TroubleStoreFull, "")
		return
	}
	text := err.Error() + ": it stays until its jobs are forgotten, and this peer takes no tasks that leave files meanwhile; give it more with `peer up --store SIZE`, or delete jobs"
	if o.hold(api.TroubleStoreFull, text) {
		o.Log.Error("no room for what tasks leave", "err", err)
	}
}

// NoRoom says that the inputs of a job have no room.
func (o Own) NoRoom(text string) { o.hold(api.TroubleNoRoom, text) }

// LedgerDiffers says that this peer's copy of the ledger is not like others'.
func (o Own) LedgerDiffers(text string) { o.hold(api.TroubleLedgerDiffers, text) }

// LedgerAhead says that the ledger's time is ahead of this machine's clock.
func (o Own) LedgerAhead(text string) { o.hold(api.TroubleLedgerAhead, text) }

// Of lists the troubles of a peer, of this one as they are now: how copies of the ledger differ,
// and how far its time is ahead, is asked for, not told.
func (o Own) Of(differs, ahead func() string) func(taskstate.PeerID) []api.Trouble {
	return func(peer taskstate.PeerID) []api.Trouble {
		if peer == o.Self {
			o.LedgerDiffers(differs())
			o.LedgerAhead(ahead())
		}
		return o.All.List(peer)
	}
}

// SeatStale says that this peer's log of decisions may be an old copy.
func (o Own) SeatStale(text string) { o.hold(api.TroubleStaleSeat, text) }

// SetAside says that jobs were in this peer's log of decisions which are in the ledger no more.
func (o Own) SetAside(text string) { o.hold(api.TroubleSetAside, text) }

// LogLost says that this peer's log of decisions was lost.
func (o Own) LogLost(text string) { o.hold(api.TroubleLogLost, text) }
