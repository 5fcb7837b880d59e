package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/taskstate"
)

// dialects looks at which dialect each member says it reads: it names those that read less than the
// cluster speaks, and while this peer coordinates, it has the ledger know of each.
type dialects struct {
	self     taskstate.PeerID
	ledger   ledger.Ledger
	view     func() *membership.View
	moved    wake.Signal // the view is another
	troubles *troubles.Troubles
	log      *slog.Logger
}

const (
	mostReads  = 256             // commands in one entry
	readsRetry = 2 * time.Second // after one that was not decided
)

// said is which dialect each member says it reads, of those that are there.
func said(v *membership.View) map[taskstate.PeerID]int {
	out := map[taskstate.PeerID]int{}
	for _, m := range v.Members {
		if m.Dialect > 0 && m.Verdict == membership.Alive {
			out[m.ID] = m.Dialect
		}
	}
	return out
}

// seen hears of a new view. What this peer itself cannot read is told by follows.
func (d *dialects) seen(v *membership.View) {
	speaks := 0
	d.ledger.Replica().Read(func(s *ledger.State) { speaks = s.Dialects().Spoken() })
	for peer, reads := range said(v) {
		if peer == d.self {
			continue
		}
		if reads >= speaks {
			d.troubles.Clear(peer, api.TroubleOldVersion)
			continue
		}
		text := fmt.Sprintf("the cluster speaks dialect %d, and this peer reads %d: install the newer version there and restart it", speaks, reads)
		if d.troubles.Set(peer, api.TroubleOldVersion, text) {
			d.log.Warn(text, "peer", peer)
		}
	}
	d.moved.Set()
}

// follows hears why this peer applies no decisions any more; nil: it does.
func (d *dialects) follows(err error) {
	if err != nil {
		d.troubles.Set(d.self, api.TroubleOldVersion, fmt.Sprintf("this peer follows no decisions any more: %v", err))
	} else {
		d.troubles.Clear(d.self, api.TroubleOldVersion)
	}
}

// run has the ledger know, for as long as ctx lasts: a term of this peer's own. Between two changes
// of the view it does nothing.
func (d *dialects) run(ctx context.Context) {
	for {
		var again <-chan time.Time
		more, err := d.record(ctx)
		switch {
		case more:
			continue
		case err != nil:
			d.log.Debug("which dialects members read is not decided yet", "err", err)
			again = time.After(readsRetry)
		}
		select {
		case <-d.moved:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// record decides what of it is news, and tells whether there may be more.
func (d *dialects) record(ctx context.Context) (more bool, err error) {
	say := said(d.view())
	var news []ledger.Command
	d.ledger.Replica().Read(func(s *ledger.State) { news = s.Dialects().Heard(say, mostReads) })
	if len(news) == 0 {
		return false, nil
	}
	_, _, err = d.ledger.Propose(ctx, news)
	return err == nil && ctx.Err() == nil && len(news) == mostReads, err
}
