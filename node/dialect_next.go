//go:build nextdialect

package node

import (
	"context"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
)

// Note implements api.NoteBackend.
func (n *Node) Note(ctx context.Context, q api.Note) (a api.Note, err error) {
	if q.Text != "" {
		c := calls.Call{NextCall: calls.NextCall{Note: &ledger.Note{Text: q.Text}}}
		if err := n.orders.Order(ctx, c, "the note is as before"); err != nil {
			return api.Note{}, err
		}
	}
	n.replica.Read(func(s *ledger.State) { a.Text = ledger.NoteOf(s) })
	return a, nil
}
