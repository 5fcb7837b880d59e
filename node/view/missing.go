package view

import (
	"fmt"
	"slices"
	"strings"

	"covey/dispatch/ledger/quorum"
	"covey/membership"
	"covey/p2p/admission"
)

// ForGood is what to type when those who are missing never come back.
const ForGood = " (Gone for good? `peer recover`.)"

// WhoIsMissing says of a held job why nobody decides and what to type.
func (v *View) WhoIsMissing() string {
	if why := v.TooMuchLost(); why != "" {
		return fmt.Sprintf("No coordinator: %s The job goes out by itself when there is one.", why)
	}
	if w := v.WaitingFor(); w != "" {
		return fmt.Sprintf("No coordinator: waiting for %s. Start `peer up` there; the job goes out by itself.%s%s", w, v.CannotHelp(), ForGood)
	}
	return "No coordinator yet, though its voters are here: one is being elected. The job goes out by itself; see `peer peers`."
}

// TryAgain says the same of an order, which nobody holds.
func (v *View) TryAgain() string {
	if why := v.TooMuchLost(); why != "" {
		return fmt.Sprintf("no coordinator: %s Then try again.", why)
	}
	if w := v.WaitingFor(); w != "" {
		return fmt.Sprintf("no coordinator: waiting for %s. Start `peer up` there and try again.%s%s", w, v.CannotHelp(), ForGood)
	}
	return "no coordinator yet, though its voters are here: one is being elected; try again in a few seconds, and see `peer peers`"
}

// WaitingFor words which voters have to come back, "" if none is missing: "one", "one and two", "2
// of one, two and three". Those that lost their logs are here and cannot help.
func (v *View) WaitingFor() string {
	names, lost := v.Missing(), v.cfg.Ledger.Losses()
	helpful := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(lost, func(l quorum.Loss) bool { return name == v.Called(l.Peer())+lostItsLog })
	})
	voters := len(v.Voters())
	need := len(names) - (voters - (voters/2 + 1)) // so many of the missing make a majority
	if len(helpful) > 0 {
		names = helpful
	}
	switch {
	case len(names) == 0:
		return ""
	case voters == 0 || need <= 0 || need >= len(names):
		return Enumerate(names)
	}
	return fmt.Sprintf("%d of %s", need, Enumerate(names))
}

// lostItsLog follows the name of a voter that is here without its seat.
const lostItsLog = " (it runs, but lost its log)"

// CannotHelp names those that are here and lost what they had acknowledged.
func (v *View) CannotHelp() string {
	lost := v.cfg.Ledger.Losses()
	if len(lost) == 0 {
		return ""
	}
	return " " + v.LossText(lost...)
}

// LossText says who lost what, up to which index.
func (v *View) LossText(lost ...quorum.Loss) string {
	words := make([]string, len(lost))
	for i, l := range lost {
		what := "it lost its log of decisions"
		if l.Held > 0 {
			what = fmt.Sprintf("its log of decisions ends at entry %d, and it had acknowledged entry %d", l.Left, l.Held)
		}
		words[i] = fmt.Sprintf("%s gives no vote: %s (%s).", v.Called(l.Peer()), what, l.Why)
	}
	return strings.Join(words, " ")
}

// TooMuchLost says that voters lost so much that no return of those who are away makes a majority,
// "" if it does not come to that.
func (v *View) TooMuchLost() string {
	lost, voters := v.cfg.Ledger.Losses(), v.Voters()
	if len(lost) == 0 || len(voters)-len(lost) > len(voters)/2 {
		return ""
	}
	copied := ""
	if at := v.cfg.Replica.Applied(); at > 0 {
		copied = fmt.Sprintf(" This peer's copy of the ledger ends at entry %d.", at)
	}
	return fmt.Sprintf("%s Too few voters are left with what was decided, and no other peer's return can help.%s `peer recover` goes on from the newest copy in reach and says what may be lost; a new start with an empty data folder loses everything.",
		v.LossText(lost...), copied)
}

// Enumerate writes "a", "a and b", "a, b and c".
func Enumerate(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Missing names the voters that do not answer. A peer that does not know the voters, because it has
// not heard from any since it started, names the peers that may be: those of the roster that could
// vote and are not here.
func (v *View) Missing() []string {
	out := v.missingVoters()
	slices.Sort(out)
	return out
}

func (v *View) missingVoters() (out []string) {
	view := v.cfg.Members()
	if len(v.Voters()) > 0 {
		for _, id := range v.cfg.Ledger.Missing() {
			name := v.Called(id)
			if got, ok := view.Get(id); id == v.cfg.Self || ok && got.Verdict == membership.Alive {
				name += lostItsLog
			}
			out = append(out, name)
		}
		return out
	}
	for _, m := range v.Admitted() {
		id := m.Entry.Peer
		if got, ok := view.Get(id); id != v.cfg.Self && m.Entry.Has(admission.Voter) && !m.Left && !(ok && got.Verdict == membership.Alive) {
			out = append(out, v.Called(id))
		}
	}
	return out
}
