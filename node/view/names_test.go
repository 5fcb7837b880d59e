package view

import (
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

func (s *scripted) admit(peer taskstate.PeerID, name string, at int64) {
	s.t.Helper()
	s.write(ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: peer, Name: name, Roles: admission.AllRoles(), At: at}}})
}

func TestAPeerWhoseNameWouldMisleadIsShownByItsKey(t *testing.T) {
	s := newScripted(t)
	s.admit("key-alpha", "alpha", 10)
	s.admit("key-cyrillic", "аlpha", 11)
	s.admit("key-case", "Alpha", 12)
	s.admit("key-blank", "\u3164", 13)
	s.admit("key-path", "../alpha", 14)
	s.admit("key-line", "beta\nalpha", 15)
	s.admit("key-namesake", "alpha", 16)
	s.admit("key-gamma", "gamma", 17)
	for peer, want := range map[taskstate.PeerID]string{
		"key-alpha": "alpha", "key-namesake": "alpha", "key-gamma": "gamma",
		"key-cyrillic": "key-cyrillic", "key-case": "key-case", "key-blank": "key-blank", "key-path": "key-path", "key-line": "key-line",
	} {
		if got := s.Who.Called(peer); got != want {
			t.Errorf("%s is called %q, want %q", peer, got, want)
		}
	}
	if _, err := s.Who.FindPeer("Alpha"); err == nil {
		t.Error("a peer is found by a name that it is not shown by")
	}
	s.write(ledger.Command{Register: &ledger.Register{Peer: "key-gamma", Incarnation: "i", Name: "ALPHA"}})
	if got := s.Who.Called("key-gamma"); got != "key-gamma" {
		t.Errorf("a peer that changed its name into another's likeness is called %q", got)
	}
}

func TestAMessageAboutTrustHasTheKeyAndNoName(t *testing.T) {
	s := newScripted(t)
	s.admit("key-alpha", "alpha", 10)
	text := "no rule lets in jobs of key-alpha; its owner can: peer trust add key-alpha"
	s.Who.In(&text)
	if want := "no rule lets in jobs of alpha; its owner can: peer trust add key-alpha"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}
