package keep

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// Bounds of one search.
const (
	MaxAsked = 3               // peers asked in all, or one more than copies are missing
	Stall    = time.Minute     // without progress, and a peer is asked no longer
	Patience = 5 * time.Minute // for all
)

// Order is the others in the order in which they are asked to keep what a task left: its submitter
// first, then each in a place that is drawn from the task's name.
func Order(t taskstate.TaskID, submitter taskstate.PeerID, others []taskstate.PeerID) []taskstate.PeerID {
	place := make(map[taskstate.PeerID]piece.Root, len(others))
	for _, p := range others {
		if p != submitter { // whose place, zero, is the first
			place[p] = piece.Sum([]byte(t.String() + "\x00" + p))
		}
	}
	out := slices.Clone(others)
	slices.SortFunc(out, func(a, b taskstate.PeerID) int {
		x, y := place[a], place[b]
		return slices.Compare(x[:], y[:])
	})
	return out
}

// Search decides which peers are asked for copies of one thing. It is a pure core: what happens and
// the time are arguments of Step.
type Search struct {
	need  int      // copies that are missing
	left  []string // not asked yet, in their order
	asks  int      // how many may be asked yet
	until time.Time
	over  bool

	asked map[string]*asked
	kept  []string
	no    []Decline
}

// asked is a peer that has not answered.
type asked struct {
	bytes int64
	moved time.Time
}

// No says which peer keeps no copy, and why.
type Decline struct {
	Peer string
	Why  error
}

// Event is what happened. Peer is "" if it is only that time has passed.
type Event struct {
	Peer  string
	Bytes int64 // of what came to it: it goes on
	Done  bool  // it has answered, or broke off
	Err   error // then: nil, or why it keeps nothing
}

// Effects is what is to be done.
type Effects struct {
	Ask  []string // peers to ask
	Drop []string // peers whose answer is not waited for any more
	Wake time.Time
	Over bool // nothing is to be waited for any more
}

// NewSearch looks for some more copies at candidates, the best first.
func NewSearch(need int, candidates []string, now time.Time) *Search {
	return &Search{
		need: need, left: slices.Clone(candidates), asks: max(MaxAsked, need+1), until: now.Add(Patience), asked: map[string]*asked{},
	}
}

// errStalled and errLate are why a peer that did not answer is given up.
type searchError string

func (e searchError) Error() string { return string(e) }

const (
	errStalled = searchError("nothing came to it for a minute")
	errLate    = searchError("it was not done in five minutes")
)

// Step takes in what happened. The first is an Event without a peer. Wake is when it is to be
// called at the latest.
func (s *Search) Step(ev Event, now time.Time) (out Effects) {
	if s.over {
		return Effects{Over: true}
	}
	if a := s.asked[ev.Peer]; a != nil {
		switch {
		case ev.Done && ev.Err == nil:
			s.kept = append(s.kept, ev.Peer)
			delete(s.asked, ev.Peer)
		case ev.Done:
			s.refuse(ev.Peer, ev.Err)
		case ev.Bytes > a.bytes:
			a.bytes, a.moved = ev.Bytes, now
		}
	}
	late := !now.Before(s.until)
	for _, peer := range s.waiting() {
		switch a := s.asked[peer]; {
		case late:
			s.refuse(peer, errLate)
			out.Drop = append(out.Drop, peer)
		case now.Sub(a.moved) >= Stall:
			s.refuse(peer, errStalled)
			out.Drop = append(out.Drop, peer)
		}
	}
	for !late && len(s.kept)+len(s.asked) < s.need && len(s.left) > 0 && s.asks > 0 {
		peer := s.left[0]
		s.left, s.asks = s.left[1:], s.asks-1
		s.asked[peer] = &asked{moved: now}
		out.Ask = append(out.Ask, peer)
	}
	if out.Over = len(s.asked) == 0; out.Over {
		s.over = true
		return out
	}
	out.Wake = s.until
	for _, a := range s.asked {
		if at := a.moved.Add(Stall); at.Before(out.Wake) {
			out.Wake = at
		}
	}
	return out
}

// waiting is who has not answered, in a fixed order.
func (s *Search) waiting() (peers []string) {
	for peer := range s.asked {
		peers = append(peers, peer)
	}
	slices.Sort(peers)
	return peers
}

func (s *Search) refuse(peer string, why error) {
	delete(s.asked, peer)
	s.no = append(s.no, Decline{peer, why})
}

// Kept is who keeps a copy, in the order of their answers, and who was asked and does not.
func (s *Search) Kept() (kept []string, no []Decline) { return s.kept, s.no }
