package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/decide"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
)

func TestWhoHasNoTicketDoesNotLearnWhichClusterItIs(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	p.SetAddrs(l.self, l.host.Addrs())
	ticket, err := l.Invite(timed(t), api.TicketRequest{Expires: 3600})
	if err != nil {
		t.Fatal(err)
	}
	valid, err := admission.ParseTicket(ticket.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		secret  []byte
		cluster string
		want    admission.RefusalCode
	}{
		"a guess that is wrong":           {admission.NewSecret(), "another", admission.Refused},
		"a guess that is right":           {admission.NewSecret(), l.roster.Cluster(), admission.Refused},
		"a ticket, and the wrong cluster": {valid.Secret, "another", admission.WrongCluster},
	} {
		var no *admission.Refusal
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := admission.Join(ctx, p, l.self, admission.JoinRequest{Secret: c.secret, Cluster: c.cluster, Dialect: wire.Dialect})
		cancel()
		if !errors.As(err, &no) || no.Code != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}

func TestNewcomersWithOneTicketAreLetInByGroupsAndHoldUpNobodyElse(t *testing.T) {
	t.Parallel()
	frozen := time.Now() // who comes in counts for a while, and all of them may take longer
	l := alive(t, Config{Name: "a", Now: func() time.Time { return frozen }})
	join := func(ticket string) error {
		valid, err := admission.ParseTicket(ticket)
		if err != nil {
			t.Fatal(err)
		}
		p := newPuppet(t)
		p.SetAddrs(l.self, l.host.Addrs())
		_, err = admission.Join(timed(t), p, l.self, admission.JoinRequest{Secret: valid.Secret, Cluster: valid.Cluster, Dialect: wire.Dialect})
		return err
	}
	first := l.ticket(api.TicketRequest{Expires: 3600})
	for i := range decide.JoinGroup { // none of them ever comes to work
		if err := join(first.Ticket); err != nil {
			t.Fatalf("newcomer %d: %v", i+1, err)
		}
	}
	var no *admission.Refusal
	if err := join(first.Ticket); !errors.As(err, &no) || no.Code != admission.Later || !no.Temporary() {
		t.Errorf("one more with that ticket: %v, want to hear that others come first", err)
	}
	if err := join(l.ticket(api.TicketRequest{Expires: 3600}).Ticket); err != nil {
		t.Errorf("one with another ticket: %v", err)
	}
	if n := l.desk.ComingIn(first.ID, l.ledgerTime()+decide.JoinTime.Milliseconds()); n != 0 {
		t.Errorf("%d still count when their time is over", n)
	}
}
