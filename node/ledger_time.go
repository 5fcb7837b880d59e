package node

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate/spell"
)

// waitedOut is how far the ledger's time may be ahead of the clocks for schedules to wait until the
// clocks have come so far. Beyond that a person sets it back.
const waitedOut = time.Hour

// clockSlack is how far ahead of each other right clocks may be.
const clockSlack = 5 * time.Minute

// ledgerAhead is how far the ledger's newest stamp is ahead of this machine's clock.
func (n *Node) ledgerAhead() (ahead time.Duration) {
	n.replica.Read(func(s *ledger.State) { ahead = time.Duration(s.Stamp()-n.now()) * time.Millisecond })
	return ahead
}

// aheadText says that the ledger's time and this machine's clock differ by more than clocks do, and
// what to type; "" if they do not.
func (n *Node) aheadText() string { return aheadText(n.ledgerAhead()) }

func aheadText(ahead time.Duration) string {
	size := spell.Span(ahead.Round(time.Minute).Milliseconds())
	switch {
	case ahead <= clockSlack:
		return ""
	case ahead < waitedOut:
		return fmt.Sprintf("ledger time is %s ahead of this machine's clock; schedules wait until most voters' clocks have come so far (`peer doctor` reports whether this clock is the wrong one)", size)
	}
	return fmt.Sprintf("ledger time is %s ahead of this machine's clock: a wrong clock took it there. Finished jobs are deleted and signed jobs expire too early. "+
		"If `peer doctor` finds this machine's clock right, set the wrong clock right, then type `peer set time=now`", size)
}
