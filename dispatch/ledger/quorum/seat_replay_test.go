package quorum_test

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
)

// A voter that replays its log hears of every configuration there ever was, also of those from
// before its time. It once believed the first it heard for a moment, and deleted its log.
func TestAVoterThatReplaysAConfigurationFromBeforeItsTimeKeepsItsSeatAndItsLog(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		for i := range 10 {
			fl.insist(job(i + 1))
		}
		fl.settle()
		for _, id := range []string{"a", "b", "c"} {
			fl.stop(id)
		}
		b := fl.run(fl.start("b", "1")) // alone: nothing is committed before the others are back
		b.Replay(1, quorum.Voter{Peer: "a", Incarnation: "1", Voting: true})
		time.Sleep(10 * time.Second)
		if !b.HasSeat() {
			t.Fatal("gave up its seat, and with it its log")
		}
		if vs := b.Voters(); len(vs) != 3 {
			t.Errorf("voters, as it sees them: %v", vs)
		}
		c := fl.run(fl.start("c", "1"))
		fl.settle()
		fl.insist(job(11))
		fl.settle()
		if !has(b, 11) || !has(c, 11) {
			t.Error("two of three voters do not decide")
		}
	})
}
