package node

import "testing"

// Other voters ask as soon as the ledger is open, which is before the rest of a peer is made.
func TestAVoterThatIsAskedWhileItStartsKnowsNobody(t *testing.T) {
	if got := (&Node{}).candidates(nil); got != nil {
		t.Errorf("it names %+v", got)
	}
}
