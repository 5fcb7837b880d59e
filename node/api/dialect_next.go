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

func nextRoutes() []Route {
	return []Route{route(administer, "POST /v1/note", "Keep a line of text", post(func(b Backend, ctx context.Context, n Note) (Note, error) {
		if b, ok := b.(NoteBackend); ok {
			return b.Note(ctx, n)
		}
		return n, Errorf(NotFound, "no such call")
	}))}
}
