package quorum

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/taskstate"
)

func TestWhoSaidThatItHasMoreAndWentAwayLeavesRoomForOthersAndTheFurthestIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &comparison{self: "a"}
		said := func() string { return c.said(func(id taskstate.PeerID) string { return "peer " + id }) }
		for i := range 2 * maxClaims {
			c.claims(fmt.Sprint("liar", i), 1000, 5)
		}
		if len(c.further) != maxClaims {
			t.Errorf("%d are remembered", len(c.further))
		}
		time.Sleep(claimLasts)
		if got := said(); got != "" {
			t.Errorf("nobody says it any more: %q", got)
		}
		c.claims("b", 7, 5)
		c.claims("c", 9, 5)
		if got := said(); !strings.HasPrefix(got, "peer c says that its copy of the ledger goes on to entry 9,") {
			t.Errorf("it says %q", got)
		}
	})
}
