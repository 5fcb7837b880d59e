package node

import (
	"fmt"
	"slices"
	"strings"

	"covey/dispatch/ledger/quorum"
	"covey/membership"
	"covey/p2p/admission"
	"covey/taskstate"
)

// forGood is what to type when those who are missing never come back.
const forGood = " (Gone for good? `peer recover`.)"

// whoIsMissing says of a held job why nobody decides and what to type.
func (n *Node) whoIsMissing() string {
	if why := n.tooMuchLost(); why != "" {
		return fmt.Sprintf("No coordinator: %s The job goes out by itself when there is one.", why)
	}
	if w := n.waitingFor(); w != "" {
		return fmt.Sprintf("No coordinator: waiting for %s. Start `peer up` there; the job goes out by itself.%s%s", w, n.cannotHelp(), forGood)
	}
	return "No coordinator yet, though its voters are here: one is being elected. The job goes out by itself; see `peer peers`."
}

// tryAgain says the same of an order, which nobody holds.
func (n *Node) tryAgain() string {
	if why := n.tooMuchLost(); why != "" {
		return fmt.Sprintf("no coordinator: %s Then try again.", why)
	}
	if w := n.waitingFor(); w != "" {
		return fmt.Sprintf("no coordinator: waiting for %s. Start `peer up` there and try again.%s%s", w, n.cannotHelp(), forGood)
	}
	return "no coordinator yet, though its voters are here: one is being elected; try again in a few seconds, and see `peer peers`"
}

// waitingFor words which voters have to come back, "" if none is missing: "one", "one and two", "2 of one, two and three". Those that lost
// their logs are here and cannot help.
func (n *Node) waitingFor() string {
	names, lost := n.missing(), n.ledger.Losses()
	helpful := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(lost, func(l quorum.Loss) bool { return name == n.called(l.Peer())+lostItsLog })
	})
	voters := len(n.voters())
	need := len(names) - (voters - (voters/2 + 1)) // so many of the missing make a majority
	if len(helpful) > 0 {
		names = helpful
	}
	switch {
	case len(names) == 0:
		return ""
	case voters == 0 || need <= 0 || need >= len(names):
		return enumerate(names)
	}
	return fmt.Sprintf("%d of %s", need, enumerate(names))
}

// lostItsLog follows the name of a voter that is here without its seat.
const lostItsLog = " (it runs, but lost its log)"

// cannotHelp names those that are here and lost what they had acknowledged.
func (n *Node) cannotHelp() string {
	lost := n.ledger.Losses()
	if len(lost) == 0 {
		return ""
	}
	return " " + n.lossWords(lost...)
}

// lossWords says who lost what, up to which index.
func (n *Node) lossWords(lost ...quorum.Loss) string {
	words := make([]string, len(lost))
	for i, l := range lost {
		what := "it lost its log of decisions"
		if l.Held > 0 {
			what = fmt.Sprintf("its log of decisions ends at entry %d, and it had acknowledged entry %d", l.Left, l.Held)
		}
		words[i] = fmt.Sprintf("%s gives no vote: %s (%s).", n.called(l.Peer()), what, l.Why)
	}
	return strings.Join(words, " ")
}

// tooMuchLost says that voters lost so much that no return of those who are away makes a majority, "" if it does not come to that.
func (n *Node) tooMuchLost() string {
	lost, voters := n.ledger.Losses(), n.voters()
	if len(lost) == 0 || len(voters)-len(lost) > len(voters)/2 {
		return ""
	}
	copied := ""
	if at := n.replica.Applied(); at > 0 {
		copied = fmt.Sprintf(" This peer's copy of the ledger ends at entry %d.", at)
	}
	return fmt.Sprintf("%s Too few voters are left with what was decided, and nobody else's return can help.%s `peer recover` goes on from the newest copy in reach and says what may be lost; a new start with an empty data folder loses everything.",
		n.lossWords(lost...), copied)
}

// enumerate writes "a", "a and b", "a, b and c".
func enumerate(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// missing names the voters that do not answer. A peer that does not know the voters, because it has not heard from any since it
// started, names the peers that may be: those of the roster that could vote and are not here.
func (n *Node) missing() []string {
	out := n.missingVoters()
	slices.Sort(out)
	return out
}

func (n *Node) missingVoters() (out []string) {
	view := n.members.View()
	if len(n.voters()) > 0 {
		for _, id := range n.ledger.Missing() {
			name := n.called(id)
			if got, ok := view.Get(id); id == n.self || ok && got.Verdict == membership.Alive {
				name += lostItsLog
			}
			out = append(out, name)
		}
		return out
	}
	for _, m := range n.memberList() {
		id := m.Entry.Peer
		if got, ok := view.Get(id); id != n.self && m.Entry.Has(admission.Voter) && !m.Left && !(ok && got.Verdict == membership.Alive) {
			out = append(out, n.called(id))
		}
	}
	return out
}

// namesOf are peers' names, for people.
func (n *Node) namesOf(ids []taskstate.PeerID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = n.called(id)
	}
	slices.Sort(out)
	return out
}
