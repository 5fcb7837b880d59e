package view

import (
	"fmt"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/taskstate"
)

// Seen makes events of the verdicts that changed since the view before, and tells who of the
// members died.
func (v *View) Seen(view *membership.View) (died []taskstate.PeerID) {
	v.mu.Lock()
	var evs []event
	for _, m := range view.Members {
		if was, ok := v.verdicts[m.ID]; !ok || was != m.Verdict {
			v.verdicts[m.ID] = m.Verdict
			evs = append(evs, event{at: v.now(), kind: kindPeer, peer: m.ID, state: m.Verdict.String(), note: v.verdictNote(m)})
			if m.Verdict == membership.Dead {
				died = append(died, m.ID)
			}
		}
	}
	v.mu.Unlock()
	v.hub.append(evs)
	return died
}

// verdictNote names a peer, and says what it has if it cannot be reached.
func (v *View) verdictNote(m membership.Member) string {
	if m.Verdict != membership.Dead {
		return m.Name
	}
	open := 0
	v.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if _, over := j.Ended(); over {
				continue
			}
			for r := range j.OpenSlots() {
				if r.Peer == m.ID {
					open++
				}
			}
		}
	})
	if open == 0 {
		return m.Name
	}
	return fmt.Sprintf("%s; unreachable with %s that had not ended", m.Name, tasksText(open))
}
