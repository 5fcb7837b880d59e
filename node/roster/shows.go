package roster

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// A peer that was killed right after another was admitted may come back without having heard of it,
// or without having written that down, and is then shown what proves it: each time that it turns
// away a stream, as it may be starting and answer nothing yet. That is bounded.
const (
	showAfter    = time.Second      // from one time to the next, to the same peer
	refusedAfter = 30 * time.Second // when it has looked at the entry and refused it
)

// shows is whom this peer's entry is to be shown to. Who is turned away fills heard.
type shows struct {
	heard *mailbox.Box[taskstate.PeerID]

	mu        sync.Mutex
	notBefore map[taskstate.PeerID]time.Time
}

func newShows(heard *mailbox.Box[taskstate.PeerID]) *shows {
	if heard == nil {
		heard = mailbox.New[taskstate.PeerID]()
	}
	return &shows{heard: heard, notBefore: map[taskstate.PeerID]time.Time{}}
}

// due is whom to show it to now.
func (s *shows) due(now time.Time) (peers []taskstate.PeerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.notBefore, func(_ taskstate.PeerID, t time.Time) bool { return !now.Before(t) })
	for _, p := range s.heard.Take() {
		if _, wait := s.notBefore[p]; !wait {
			peers = append(peers, p)
			s.notBefore[p] = now.Add(admission.DefaultTimeout) // or until it has been shown
		}
	}
	return peers
}

// shown notes that the entry was shown to a peer, or that this was tried.
func (s *shows) shown(peer taskstate.PeerID, now time.Time, err error) {
	wait := showAfter
	if _, no := errors.AsType[*admission.Refusal](err); no {
		wait = refusedAfter
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notBefore[peer] = now.Add(wait)
}
