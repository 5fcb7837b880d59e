package decide

import (
	"context"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/taskstate/spell"
)

// clockSlack is how far this machine's clock may be ahead of the time that the ledger is set to.
const clockSlack = 5 * time.Minute

// executeSetTime sets the ledger's time back, unless this coordinator's own clock would take it
// ahead again with the next entry.
func (d *Decider) executeSetTime(ctx context.Context, c ledger.SetTime, word *act.Act) (calls.Reply, error) {
	if own := d.cfg.Clock(); own > c.To+clockSlack.Milliseconds() {
		return calls.Reply{Error: api.Errorf(api.Conflict, "the coordinator's clock shows %s and would take the ledger's time there again: set that clock right first (`peer status` names the coordinator)", spell.Minute(own))}, nil
	}
	return d.propose(ctx, ledger.Command{Act: word, SetTime: &c})
}
