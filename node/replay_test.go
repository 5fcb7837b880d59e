package node

import (
	"context"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
)

func TestAPeerThatReadsItsJournalIsAliveAndAnswers(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "a", "b", "c")
	a, c := all[0], all[2]
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a notices that c is away", func() (bool, string) {
		m, _ := a.members.View().Get(c.self)
		return m.Verdict != membership.Alive, m.Verdict.String()
	})

	over := make(chan struct{})
	cfg := c.cfg
	cfg.Join, cfg.Listen = "", c.host.Addrs()
	cfg.Machine.Journal = func(open journal.Opener) journal.Opener {
		return func(ctx context.Context, owner journal.Owner) (journal.Journal, *journal.Image, error) {
			select {
			case <-over:
				return open(ctx, owner)
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		}
	}
	back, ready, err := begun(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	row := func(at *living) (p api.Peer) {
		list, err := at.Peers(timed(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list.Peers {
			if p.Name == "c" {
				return p
			}
		}
		return p
	}
	eventually(t, "a holds a session with c, which says what it is busy with", func() (bool, string) {
		p := row(a)
		return p.Standing == "ready" && strings.Contains(p.Trouble, "reads its journal"), p.Standing + " " + p.Trouble
	})
	eventually(t, "gossip has c alive, too", func() (bool, string) { // news of its own, which may come after the session
		m, _ := a.members.View().Get(c.self)
		return m.Verdict == membership.Alive, m.Verdict.String()
	})

	// It answers the questions of people, and its own says what it waits for.
	eventually(t, "c knows the others", func() (bool, string) { return row(back).Standing == "ready", row(back).Standing })
	if st, err := back.Status(timed(t)); err != nil || !strings.Contains(strings.Join(st.Warnings, " "), "reads its journal") {
		t.Errorf("its own status: %+v, %v", st.Warnings, err)
	}
	job := a.submit(noopJob("meanwhile", 6, 0))
	if j, _ := back.outcome(job); j.State != "complete" {
		t.Errorf("c says that the job is %s", j.State)
	}
	select {
	case <-back.worker.Replayed():
		t.Fatal("the journal has been read too soon: this test shows nothing")
	default:
	}

	close(over)
	<-ready
	eventually(t, "c takes tasks again", func() (bool, string) { p := row(a); return p.Trouble == "" && p.Standing == "ready", p.Trouble })
}
