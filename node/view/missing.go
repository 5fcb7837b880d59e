package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// ForGood is what to type when those who are missing never come back.
const ForGood = " (Gone for good? `peer recover`.)"

// Deciders tells who decides, and where nobody does, who is missing and what to type.
type Deciders struct {
	self    taskstate.PeerID
	ledger  Ledger
	members func() *membership.View
	who     *Names
}

// Voters are the peers that vote on decisions.
func (d *Deciders) Voters() (ids []taskstate.PeerID) {
	for _, x := range d.ledger.Voters() {
		if x.Voting {
			ids = append(ids, x.Peer)
		}
	}
	return ids
}

// LivingVoters are the voters without those whose vote went with their disk: the peer is here, in
// another life.
func (d *Deciders) LivingVoters() (ids []taskstate.PeerID) {
	view := d.members()
	for _, x := range d.ledger.Voters() {
		if got, ok := view.Get(x.Peer); x.Voting && !(ok && got.Verdict == membership.Alive && got.Seat != x.Incarnation) {
			ids = append(ids, x.Peer)
		}
	}
	return ids
}

// Candidates are the peers that may vote, and how they are, for the coordinator; own is the
// incarnation of this peer's seat.
func (d *Deciders) Candidates(own taskstate.Incarnation) []quorum.Candidate {
	view := d.members()
	var out []quorum.Candidate
	for _, m := range d.who.Admitted() {
		got, ok := view.Get(m.Entry.Peer)
		seat := got.Seat
		if m.Entry.Peer == d.self {
			seat = own
		}
		out = append(out, quorum.Candidate{
			Peer: m.Entry.Peer, Incarnation: seat, Alive: ok && got.Verdict == membership.Alive, Since: got.Since,
			Eligible: m.Entry.Has(admission.Voter) && !m.Left, RTT: got.RTT,
		})
	}
	return out
}

// WhoIsMissing says of a held job why nobody decides and what to type.
func (d *Deciders) WhoIsMissing() string {
	if why := d.TooMuchLost(); why != "" {
		return fmt.Sprintf("No coordinator: %s The job is submitted automatically when there is one.", why)
	}
	if w := d.WaitingFor(); w != "" {
		return fmt.Sprintf("No coordinator: waiting for %s. Start `peer up` there; it is submitted automatically then.%s%s", w, d.CannotHelp(), ForGood)
	}
	return "No coordinator yet, though its voters are here: one is being elected. The job is submitted automatically; see `peer peers`."
}

// TryAgain says the same of an order, which nobody holds.
func (d *Deciders) TryAgain() string {
	if why := d.TooMuchLost(); why != "" {
		return fmt.Sprintf("no coordinator: %s Then try again.", why)
	}
	if w := d.WaitingFor(); w != "" {
		return fmt.Sprintf("no coordinator: waiting for %s. Start `peer up` there and try again.%s%s", w, d.CannotHelp(), ForGood)
	}
	return "no coordinator yet, though its voters are here: one is being elected; try again in a few seconds, and see `peer peers`"
}

// WaitingFor words which voters have to come back, "" if none is missing: "one", "one and two", "2
// of one, two and three". Those that lost their logs are here and cannot help.
func (d *Deciders) WaitingFor() string {
	names, lost := d.Missing(), d.ledger.Losses()
	helpful := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(lost, func(l quorum.LostSeat) bool { return name == d.who.Called(l.Peer())+lostItsLog })
	})
	voters := len(d.Voters())
	need := len(names) - (voters - (voters/2 + 1)) // so many of the missing make a majority
	if len(helpful) > 0 {
		names = helpful
	}
	switch {
	case len(names) == 0:
		return ""
	case voters == 0 || need <= 0 || need >= len(names):
		return spell.Enumerate(names)
	}
	return fmt.Sprintf("%d of %s", need, spell.Enumerate(names))
}

// lostItsLog follows the name of a voter that is here without its seat.
const lostItsLog = " (it runs, but lost its log)"

// CannotHelp names those that are here and lost what they had acknowledged.
func (d *Deciders) CannotHelp() string {
	lost := d.ledger.Losses()
	if len(lost) == 0 {
		return ""
	}
	return " " + d.LossText(lost...)
}

// LossText says who lost what, up to which index.
func (d *Deciders) LossText(lost ...quorum.LostSeat) string {
	words := make([]string, len(lost))
	for i, l := range lost {
		what := "it lost its log of decisions"
		switch {
		case l.Held > l.Left && l.Left > 0:
			what = fmt.Sprintf("its log of decisions ends at entry %d, and it had acknowledged entry %d", l.Left, l.Held)
		case l.Held > 0:
			what = fmt.Sprintf("its log of decisions cannot be used, and it had acknowledged entry %d", l.Held)
		}
		words[i] = fmt.Sprintf("%s gives no vote: %s (%s).", d.who.Called(l.Peer()), what, l.Why)
	}
	return strings.Join(words, " ")
}

// StaleText describes this peer's seat if it is stale, "" if it is current.
func (d *Deciders) StaleText() string {
	s := d.ledger.Stale()
	if s == nil {
		return ""
	}
	text := s.Why + ". This voter gives no vote and does not coordinate until its log of decisions has what the other voters have"
	switch {
	case s.Newer != "":
		return fmt.Sprintf("%s, and %s has more: stop this peer and type `peer recover` there", text, d.who.Called(s.Newer))
	case len(s.Unheard) > 0:
		names := spell.Enumerate(d.who.Sorted(s.Unheard))
		return fmt.Sprintf("%s. It has not heard %s: start `peer up` there; if that is impossible for good, %s", text, names, wayOut(s))
	}
	return text
}

// wayOut is what to do where a voter that a stale seat waits for is gone for good.
func wayOut(s *quorum.StaleSeat) string {
	switch {
	case s.Moved && s.Vouched:
		return "wait ten seconds: --moved counts then"
	case s.Moved:
		return "and this is the only and newest copy of the data folder, stop this peer and type `peer up --moved`; otherwise type `peer recover`"
	case s.Vouched:
		return "type `peer recover`: this is more than a move, and --moved does not count"
	}
	return "type `peer recover`"
}

// SetAsideText names the jobs that are only in what this peer set aside, "" if there are none.
func (d *Deciders) SetAsideText() string {
	var jobs, files []string
	for _, a := range d.ledger.SetAside() {
		files = append(files, a.File)
		for _, id := range a.Jobs {
			jobs = append(jobs, string(id))
		}
	}
	if len(jobs) == 0 {
		return ""
	}
	const most = 20
	more := ""
	if over := len(jobs) - most; over > 0 {
		jobs, more = jobs[:most], fmt.Sprintf(" and %d more", over)
	}
	return fmt.Sprintf("only this peer's log of decisions had the jobs %s%s, and the coordinator had others in their place: type `peer recover` here to submit them again. Then delete %s",
		strings.Join(jobs, ", "), more, strings.Join(files, ", "))
}

// TooMuchLost says that voters lost so much that no return of those who are away makes a majority,
// "" if it does not come to that.
func (d *Deciders) TooMuchLost() string {
	lost, voters := d.ledger.Losses(), d.Voters()
	if len(lost) == 0 || len(voters)-len(lost) > len(voters)/2 {
		return ""
	}
	copied := ""
	if c, err := d.ledger.Copy(); err == nil && c.Index > 0 {
		copied = fmt.Sprintf(" This peer's copy of the ledger ends at entry %d.", c.Index)
	}
	return fmt.Sprintf("%s Too few voters are left with what was decided, and no other peer's return can help.%s `peer recover` goes on from the newest copy in reach and says what may be lost; a new start with an empty data folder loses everything.",
		d.LossText(lost...), copied)
}

// Missing names the voters that do not answer. A peer that does not know the voters, because it has
// not heard from any since it started, names the peers that may be: those of the roster that could
// vote and are not here.
func (d *Deciders) Missing() []string {
	out := d.missingVoters()
	slices.Sort(out)
	return out
}

func (d *Deciders) missingVoters() (out []string) {
	view := d.members()
	if len(d.Voters()) > 0 {
		for _, id := range d.ledger.Missing() {
			name := d.who.Called(id)
			if got, ok := view.Get(id); id == d.self || ok && got.Verdict == membership.Alive {
				name += lostItsLog
			}
			out = append(out, name)
		}
		return out
	}
	for _, m := range d.who.Admitted() {
		id := m.Entry.Peer
		if got, ok := view.Get(id); id != d.self && m.Entry.Has(admission.Voter) && !m.Left && !(ok && got.Verdict == membership.Alive) {
			out = append(out, d.who.Called(id))
		}
	}
	return out
}
