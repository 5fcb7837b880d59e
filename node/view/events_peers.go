package view

import (
	"maps"
	"slices"
	"strings"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
)

// rolesText are roles as people type them.
func rolesText(roles []admission.Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	return strings.Join(words, " ")
}

// decidedOf is what people decided about a peer, as an event.
func decidedOf(e ledger.Entry, c *ledger.Command) event {
	if l := c.Label; l != nil {
		var words []string
		for _, k := range slices.Sorted(maps.Keys(l.Set)) {
			words = append(words, k+"="+l.Set[k])
		}
		for _, k := range l.Unset {
			words = append(words, k+"-")
		}
		return event{at: e.Stamp, kind: kindPeer, peer: l.Peer, state: "labelled", note: strings.Join(words, " ")}
	}
	state := map[ledger.Availability]string{ledger.AvailActive: "activated", ledger.AvailPause: "paused", ledger.AvailDrain: "drained"}
	return event{at: e.Stamp, kind: kindPeer, peer: c.Avail.Peer, state: state[c.Avail.Availability], note: c.Avail.Reason}
}
