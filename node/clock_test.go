package node

import (
	"errors"
	"slices"
	"strings"
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

func TestAPeerThatLeftComesBackWithATicketAlthoughTheClockWasSetBackSinceAndARemovedOneNever(t *testing.T) {
	t.Parallel()
	c := &wrongClock{}
	c.step(time.Hour)
	one := alive(t, Config{Name: "one", Now: c.now})
	left := alive(t, Config{Name: "left", Join: one.ticket(api.TicketRequest{Expires: 600, Uses: 1}).Ticket})
	removed := alive(t, Config{Name: "removed", Join: one.ticket(api.TicketRequest{Expires: 600, Uses: 1}).Ticket})
	one.sees("one", "left", "removed")
	if err := errors.Join(left.Leave(timed(t)), one.Remove(timed(t), "removed", api.Removal{})); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*living{left, removed} {
		<-p.ended
		p.ended <- nil
		if e, ok := one.roster.Get(p.self); !ok || !e.Removed {
			t.Fatalf("%s is a member: %+v", p.name, e)
		}
	}
	c.step(0)
	// As they come with their keys and nothing else, to the one that decides.
	k := one.ticket(api.TicketRequest{Expires: 600, Uses: 2})
	secret, err := admission.ParseSecret(k.Secret)
	if err != nil {
		t.Fatal(err)
	}
	asks := func(p *living) *admission.Refusal {
		t.Helper()
		r, err := one.line.Admit(timed(t), p.self, admission.JoinRequest{Key: admission.TicketKey(secret), Proof: admission.Prove(secret, p.self), Name: p.name, Incarnation: "another", Dialect: wire.Dialect})
		if err != nil {
			t.Fatal(err)
		}
		return r.Refusal
	}
	if r := asks(removed); r == nil || r.Code != admission.Removed {
		t.Errorf("a removed peer asks to come back and is told %+v", r)
	}
	if r := asks(left); r != nil {
		t.Fatalf("%+v", r)
	}
	eventually(t, "the gate lets it in", func() (bool, string) { return one.roster.Admitted(left.self), "" })
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

// threeClocks is three peers that vote, each with a clock of its own.
func threeClocks(t *testing.T) (peers []*living, clocks []*wrongClock) {
	for i, name := range []string{"one", "two", "three"} {
		c := &wrongClock{}
		cfg := Config{Name: name, Now: c.now}
		if i > 0 {
			cfg.Join = peers[0].ticket(api.TicketRequest{Expires: 600}).Ticket
		}
		peers, clocks = append(peers, alive(t, cfg)), append(clocks, c)
	}
	peers[0].sees("one", "two", "three")
	eventually(t, "three vote and speak of clocks", func() (bool, string) {
		voters := len(peers[0].ledger.Voters())
		return voters == 3 && peers[0].replica.Spoken() == wire.Dialect, ""
	})
	clocks[0].step(30 * time.Second) // the median is another's as soon as the others' clocks are known
	eventually(t, "the voters know each other's clocks", func() (bool, string) {
		return peers[0].ledger.Clocks() < peers[0].now()-20_000, ""
	})
	clocks[0].step(0)
	return peers, clocks
}

func TestACoordinatorsClockThatIsSetForwardTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	peers, clocks := threeClocks(t)
	done := peers[1].submit(noopJob("before", 2, 0))
	peers[1].outcome(done)
	clocks[0].step(400 * 24 * time.Hour)
	peers[1].outcome(peers[1].submit(noopJob("after", 2, 0)))
	eventually(t, "another peer coordinates", func() (bool, string) {
		who, _, ok := peers[1].ledger.Coordinator()
		return ok && who != peers[0].self, string(who)
	})
	peers[2].outcome(peers[2].submit(noopJob("later", 2, 0)))
	if ahead := peers[1].ledgerAhead(); ahead > 5*time.Minute+time.Second {
		t.Errorf("the ledger's time is %v ahead", ahead)
	}
	if row, _ := peers[1].outcome(done); row.Ended == nil {
		t.Errorf("the finished job is gone: %+v", row)
	}
}

func TestALedgerThatAWrongClockTookAheadSaysSoAndIsMended(t *testing.T) {
	t.Parallel()
	c := &wrongClock{}
	one := alive(t, Config{Name: "one", Now: c.now})
	lost := one.submit(noopJob("lost", 1, 0))
	one.outcome(lost)
	c.step(400 * 24 * time.Hour)
	one.outcome(one.submit(noopJob("wrong", 1, 0)))
	now := time.Now()
	if _, err := one.Set(timed(t), api.Settings{Time: now}); err == nil || !strings.Contains(err.Error(), "set that clock right first") {
		t.Errorf("with the wrong clock: %v", err)
	}
	c.step(0)
	if s, err := one.Status(timed(t)); err != nil || !slices.ContainsFunc(s.Troubles, func(x api.Trouble) bool { return x.Code == api.TroubleLedgerAhead }) {
		t.Errorf("the troubles are %+v %v", s.Troubles, err)
	}
	a, err := one.Set(timed(t), api.Settings{Time: now})
	if err != nil || !slices.Equal(a.Deleted, []string{string(lost)}) || a.Ahead != 0 {
		t.Fatalf("%+v %v", a, err)
	}
	one.outcome(one.submit(noopJob("mended", 1, 0)))
	if ahead := one.ledgerAhead(); ahead.Abs() > time.Minute {
		t.Errorf("the ledger's time is %v ahead", ahead)
	}
	if s, err := one.Status(timed(t)); err != nil || len(s.Troubles) > 0 {
		t.Errorf("the troubles are %+v %v", s.Troubles, err)
	}
	if _, err := one.Set(timed(t), api.Settings{Time: now.Add(-time.Second)}); err == nil || !strings.Contains(err.Error(), "cannot be set to an earlier one") {
		t.Errorf("set back again: %v", err)
	}
}
