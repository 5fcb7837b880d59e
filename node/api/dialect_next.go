//go:build nextdialect

package api

import "context"

// Note is a line of text about the cluster, for tests of upgrades.
type Note struct {
	Text string `json:"text"`
}

// NoteBackend keeps it. An empty text only asks.
type NoteBackend interface {
	Note(ctx context.Context, n Note) (Note, error)
}

func nextRoutes(x *routes, b Backend) {
	if b, ok := b.(NoteBackend); ok {
		x.on(administer, "POST /v1/note", post(b.Note))
	}
}
