package p2p

import (
	"fmt"
	"testing"
)

func TestAPeerThatWasHeardBeforeItWasAdmittedCounts(t *testing.T) {
	members := map[string]bool{}
	h := &Host{cfg: Config{Admitted: func(id string) bool { return members[id] }}}
	h.lan.hear("nas")
	if got := h.LAN().Heard; got != 0 {
		t.Errorf("%d strangers count", got)
	}
	members["nas"] = true
	if got := h.LAN().Heard; got != 1 {
		t.Errorf("%d members were heard, want 1", got)
	}
	for i := range 2 * mostHeard {
		h.lan.hear(fmt.Sprint("peer", i))
	}
	if len(h.lan.heard) != mostHeard || h.LAN().Heard != 1 {
		t.Errorf("%d are noted", len(h.lan.heard))
	}
}
