package node

import (
	"fmt"
	"slices"
	"strings"

	"covey/membership"
	"covey/p2p/admission"
	"covey/taskstate"
)

// forGood is what to type when those who are missing never come back.
const forGood = " (Gone for good? `peer recover`.)"

// whoIsMissing says of a held job why nobody decides and what to type.
func (n *Node) whoIsMissing() string {
	if w := n.waitingFor(); w != "" {
		return fmt.Sprintf("No coordinator: waiting for %s. Start `peer up` there; the job goes out by itself.%s", w, forGood)
	}
	return "No coordinator yet, though its voters are here: one is being elected. The job goes out by itself; see `peer peers`."
}

// tryAgain says the same of an order, which nobody holds.
func (n *Node) tryAgain() string {
	if w := n.waitingFor(); w != "" {
		return fmt.Sprintf("no coordinator: waiting for %s. Start `peer up` there and try again.%s", w, forGood)
	}
	return "no coordinator yet, though its voters are here: one is being elected; try again in a few seconds, and see `peer peers`"
}

// waitingFor words which voters have to come back, "" if none is missing: "one", "one and two", "2 of one, two and three".
func (n *Node) waitingFor() string {
	names := n.missing()
	voters := len(n.voters())
	need := len(names) - (voters - (voters/2 + 1)) // so many of the missing make a majority
	switch {
	case len(names) == 0:
		return ""
	case voters == 0 || need <= 0 || need >= len(names):
		return enumerate(names)
	}
	return fmt.Sprintf("%d of %s", need, enumerate(names))
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
			if got, ok := view.Get(id); ok && got.Verdict == membership.Alive {
				name += " (it runs, but lost its data folder)"
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
