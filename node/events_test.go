package node

import (
	"context"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/view"
)

// token is where a watcher of a peer stands now.
func token(t *testing.T, v *view.View) string {
	t.Helper()
	return eventsAfter(t, v, "")[0].Token
}

// eventsAfter are those that a peer has told since, and keeps.
func eventsAfter(t *testing.T, v *view.View, since string) (evs []api.Event) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is there is told first
	if err := v.Watch(ctx, since, func(e api.Event) error { evs = append(evs, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return evs
}
