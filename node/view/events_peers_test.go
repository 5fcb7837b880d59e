package view

import (
	"fmt"
	"slices"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
)

func TestAWatcherHearsWhatPeopleDecideAboutAPeerOnce(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	seen := s.hub.last()
	pause := ledger.Command{Avail: &ledger.SetAvailability{Peer: a.id, Availability: ledger.AvailPause, Reason: "lunch"}}
	s.write(pause, pause, drainOf(a.id, 0), ledger.Command{Label: &ledger.Label{Peer: a.id, Set: map[string]string{"zone": "b", "a": ""}, Unset: []string{"old"}}})
	s.write(ledger.Command{Avail: &ledger.SetAvailability{Peer: a.id, Availability: ledger.AvailActive}})
	evs, _, _ := s.hub.after(seen)
	var got []string
	for _, e := range evs {
		if e.peer != a.id || e.kind != kindPeer {
			t.Errorf("%+v", e)
		}
		got = append(got, fmt.Sprint(e.state, " ", e.note))
	}
	if want := []string{"paused lunch", "drained ", "labelled a= zone=b old-", "activated "}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
}
