package node

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

func TestEveryPeerTellsHowBusyTheMachineOfEveryOtherIs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what a system tells of its load differs")
	}
	for _, l := range clusterOf(t, "one", "two") {
		eventually(t, l.name+" knows of both", func() (bool, string) {
			all, err := l.Peers(timed(t))
			n := 0
			for _, p := range all.Peers {
				if p.Load != nil && p.Load.CPU != nil && *p.Load.CPU <= 1 && *p.Load.Memory > 0 && *p.Load.Memory <= p.Load.MemoryOf {
					n++
				}
			}
			return n == 2, fmt.Sprintf("%+v, %v", all, err)
		})
		for _, other := range []string{"one", "two", "self"} {
			var got api.PeerLoad
			var err error
			eventually(t, other+" answers "+l.name+" in time", func() (bool, string) {
				got, err = l.Backend().PeerLoad(timed(t), other)
				return err == nil || api.AsError(err).Code != api.TimedOut, fmt.Sprint(err)
			})
			if err != nil || got.Now == nil || *got.Now.Memory == 0 || len(got.Hour) == 0 || got.Step == 0 {
				t.Errorf("%s of %s: %+v, %v", l.name, other, got, err)
			}
		}
	}
}
