package quorum_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
)

// Who asks in the moment in which a peer stops is either waited for or not served: the race
// detector sees whether that is in doubt.
func TestWhoAsksWhileAPeerStopsIsWaitedForOrNotServed(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		for i := range 60 {
			id := fmt.Sprint("b", i)
			fl.start(id, "1", "a")
			var asking sync.WaitGroup
			begin := make(chan struct{})
			for range 4 {
				asking.Go(func() {
					<-begin
					if c, err := fl.net.Host("a").Dial(t.Context(), id, quorum.VoterProtocol); err == nil {
						_ = c.Close()
					}
				})
			}
			close(begin)
			fl.stop(id)
			asking.Wait()
		}
	})
}
