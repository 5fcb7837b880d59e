package node

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/taskstate/constraint"
)

// maxLabelValue is how many bytes the value of a label may have.
const maxLabelValue = 128

// SetLabels implements api.PeerKeeper.
func (n *Node) SetLabels(ctx context.Context, peer string, l api.Labels) (api.PeerAnswer, error) {
	id, err := n.view.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	if e := checkLabels(l.Set, l.Unset); e != nil {
		return api.PeerAnswer{}, e
	}
	if err := n.order(ctx, call{Label: &ledger.Label{Peer: id, Set: l.Set, Unset: l.Unset}}, "the labels of "+n.view.Called(id)+" are as before"); err != nil {
		return api.PeerAnswer{}, err
	}
	return n.view.PeerNow(ctx, id)
}

// checkLabels refuses labels that no constraint could ask for.
func checkLabels(set map[string]string, unset []string) *api.Error {
	if len(set)+len(unset) == 0 {
		return api.Errorf(api.Usage, "no label to set or to take away")
	}
	for _, k := range slices.Concat(slices.Sorted(maps.Keys(set)), unset) {
		if err := constraint.CheckLabel(k); err != nil {
			return api.Errorf(api.Usage, "label %.40q: %v", k, err)
		}
	}
	for _, k := range unset {
		if _, both := set[k]; both {
			return api.Errorf(api.Usage, "label %s is to be set and taken away at once", k)
		}
	}
	for k, v := range set {
		if len(v) > maxLabelValue || !utf8.ValidString(v) || strings.ContainsAny(v, "\n\r") {
			return api.Errorf(api.Usage, "the value of label %s is no line of text of at most %d bytes", k, maxLabelValue)
		}
	}
	return nil
}
