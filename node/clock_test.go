package node

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
)

// wrongClock is a machine's clock that somebody sets.
type wrongClock struct{ off atomic.Int64 }

func (c *wrongClock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

func (c *wrongClock) step(d time.Duration) { c.off.Store(int64(d)) }

func TestATicketMadeAfterTheCoordinatorsClockWasSetBackLetsPeersIn(t *testing.T) {
	t.Parallel()
	c := &wrongClock{}
	c.step(time.Hour)
	one := alive(t, Config{Name: "one", Now: c.now})
	before := one.ticket(api.TicketRequest{Expires: 600, Uses: 1})
	one.outcome(one.submit(noopJob("before", 1, 0)))
	c.step(0)
	after := one.ticket(api.TicketRequest{Expires: 600, Uses: 1})
	if all, err := one.Invites(timed(t)); err != nil || slices.ContainsFunc(all.Tickets, func(i api.Invite) bool { return i.State != "valid" }) {
		t.Errorf("tickets %+v %v: the clock was set back, so none may have expired", all.Tickets, err)
	}
	alive(t, Config{Name: "two", Join: before.Ticket})
	alive(t, Config{Name: "three", Join: after.Ticket})
	one.sees("one", "two", "three")
}

func TestATicketExpiresByTheCoordinatorsClockNotByThatOfThePeerThatWasAsked(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one"})
	c := &wrongClock{}
	c.step(-3 * time.Hour)
	two := alive(t, Config{Name: "two", Join: one.ticket(api.TicketRequest{Expires: 600}).Ticket, Now: c.now})
	k := two.ticket(api.TicketRequest{Expires: 600, Uses: 1})
	if left := time.Until(k.Expires); left < 5*time.Minute || left > 15*time.Minute {
		t.Errorf("a ticket for ten minutes expires in %v", left)
	}
	alive(t, Config{Name: "three", Join: k.Ticket})
	one.sees("one", "two", "three")
}

func TestAPeerThatWasRemovedComesBackWithATicketAlthoughTheClockWasSetBackSince(t *testing.T) {
	t.Parallel()
	c := &wrongClock{}
	c.step(time.Hour)
	one := alive(t, Config{Name: "one", Now: c.now})
	two := alive(t, Config{Name: "two", Join: one.ticket(api.TicketRequest{Expires: 600, Uses: 1}).Ticket})
	one.sees("one", "two")
	if err := one.Remove(timed(t), "two", api.Removal{}); err != nil {
		t.Fatal(err)
	}
	<-two.ended
	two.ended <- nil
	if e, ok := one.roster.Get(two.self); !ok || !e.Removed {
		t.Fatalf("two is not removed: %+v", e)
	}
	c.step(0)
	// As it comes with its key and nothing else, to the one that decides.
	k := one.ticket(api.TicketRequest{Expires: 600, Uses: 1})
	secret, err := admission.ParseSecret(k.Secret)
	if err != nil {
		t.Fatal(err)
	}
	r, err := one.line.Admit(timed(t), two.self, admission.JoinRequest{Key: admission.TicketKey(secret), Proof: admission.Prove(secret, two.self), Name: "two", Incarnation: "another", Dialect: wire.Dialect})
	if err != nil || r.Refusal != nil {
		t.Fatalf("%+v %v", r.Refusal, err)
	}
	eventually(t, "the gate lets it in", func() (bool, string) { return one.roster.Admitted(two.self), "" })
}

func TestAJobNeverEndsBeforeItBeganWhateverTheClockDoes(t *testing.T) {
	t.Parallel()
	c := &wrongClock{}
	one := alive(t, Config{Name: "one", Now: c.now})
	for _, d := range []time.Duration{0, -time.Hour, time.Hour, -time.Hour} {
		c.step(d)
		id := one.submit(noopJob("tick", 3, 0))
		row, _ := one.outcome(id)
		if row.Ended == nil || row.Ended.Before(row.Submitted) {
			t.Errorf("clock %v: submitted %v, ended %v", d, row.Submitted, row.Ended)
		}
		x, err := one.Explain(timed(t), string(row.ID))
		if err != nil {
			t.Fatal(err)
		}
		if first := x.Explain[0]; first.Kind != "job" {
			t.Errorf("clock %v: the story begins with %+v", d, first)
		}
	}
	var stamps []int64
	one.replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			stamps = append(stamps, j.Accepted())
		}
	})
	slices.Reverse(stamps)
	if !slices.IsSorted(stamps) {
		t.Errorf("jobs were accepted at %v", stamps)
	}
}
