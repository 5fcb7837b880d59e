package starts_test

import (
	"fmt"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/starts"
)

func TestWhatIsSignedIsAsEveryVersionHasIt(t *testing.T) {
	p := starts.Proof{Start: starts.Start{Number: 1, Before: 2}, Recent: []uint64{3}, Halted: true, Sig: []byte{4}}
	golden.Freeze(t, "signed start 1", fmt.Sprintf("%x", p.Statement("peer", 5)))
	golden.Freeze(t, "signed renunciation 1", fmt.Sprintf("%x", starts.Renunciation("peer", 6)))
}
