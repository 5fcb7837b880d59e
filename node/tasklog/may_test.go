package tasklog

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// Attack (i): a member that is neither submitter nor reader gets no byte of the output.
func TestOutputGoesToWhoMayReadItOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		o := newOwner(t, 0, false)
		srv := Serve(n.Host("a"), o.store, func(_ context.Context, peer string, of taskstate.TaskID) bool { return peer == "b" && of == task }, nil)
		o.write(Stdout, "hush")
		for peer, may := range map[string]bool{"b": true, "c": false} {
			got := ""
			err := Fetch(t.Context(), n.Host(peer), "a", AllOutput(task, false), func(c Chunk) error {
				got += string(c.Data)
				return nil
			})
			if (err == nil) != may || Refused(err) == may || (got == "hush") != may {
				t.Errorf("%s reads %q, %v", peer, got, err)
			}
		}
		srv.Close()
		_ = n.Close()
	})
}
