package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
)

// Member is another peer of this cluster.
type Member struct {
	ID, Name string
	Here     bool // it can be reached
}

// fetch brings blobs into the store, in their order. told is what came from whom, now and then.
func (f *Files) fetch(ctx context.Context, keep *blob.Kept, wants []blob.Want, came func(), told func([]api.Source)) error {
	fr := blob.Fetcher{Net: f.cfg.Net, Self: f.cfg.Self, Keep: keep, Log: f.cfg.Log}
	_, err := fr.Fetch(ctx, blob.Request{
		Peers: func() (here []string) {
			for _, m := range f.cfg.Members() {
				if m.Here {
					here = append(here, m.ID)
				}
			}
			return here
		},
		Wants:    slices.Values(wants),
		Came:     func(piece.Root, int) { came() },
		Progress: func(r blob.Report) { told(f.sources(r)) },
	})
	var m *blob.Missing
	if errors.As(err, &m) && ctx.Err() == nil {
		if f.cfg.May != nil && slices.ContainsFunc(wants, func(w blob.Want) bool { return !f.cfg.May(w.Root) }) {
			return api.Errorf(api.Refused, "it belongs to a job of another peer, which others give to that peer and to those with the role admin or read; type it there, or have an admin give this peer the role read (`peer roles`)")
		}
		return f.missing(m)
	}
	return err
}

// sources is what came from whom, most first.
func (f *Files) sources(r blob.Report) (from []api.Source) {
	names := f.names()
	for peer, n := range r.From {
		from = append(from, api.Source{Peer: peer, Name: names[peer], Bytes: n})
	}
	slices.SortFunc(from, func(a, b api.Source) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Peer, b.Peer))
	})
	return from
}

func (f *Files) names() map[string]string {
	names := map[string]string{}
	for _, m := range f.cfg.Members() {
		names[m.ID] = cmp.Or(m.Name, m.ID)
	}
	return names
}

// missing says who was asked, who could not be, and whose copy is damaged.
func (f *Files) missing(m *blob.Missing) error {
	wrong := map[string]bool{}
	for _, w := range m.Wrong {
		wrong[w.Peer] = true
	}
	var asked, away, failed, bad []string
	for _, x := range f.cfg.Members() {
		name := cmp.Or(x.Name, x.ID)
		why, broken := m.Failed[x.ID]
		switch {
		case wrong[x.ID]:
			bad = append(bad, name)
		case broken && x.Here:
			failed = append(failed, fmt.Sprintf("%s (%s)", name, cmp.Or(why, "no answer")))
		case x.Here:
			asked = append(asked, name)
		default:
			away = append(away, name)
		}
	}
	if len(bad) > 0 {
		return api.Errorf(api.Failed, "what %s has of it is damaged, and no other reachable peer has it%s", some(bad), next(away))
	}
	text := "no reachable peer has it"
	if len(asked) > 0 {
		text += "; asked: " + some(asked)
	}
	if len(failed) > 0 {
		text += "; without success: " + some(failed)
	}
	return api.Errorf(api.NoCoordinator, "%s%s", text, next(away))
}

// next names those who may have it, and says what helps.
func next(away []string) string {
	if len(away) == 0 {
		return "; where it still is, `peer put` keeps it once more"
	}
	return fmt.Sprintf("; away, and may have it: %s: type it again when they are back", some(away))
}

// some names a few.
func some(names []string) string {
	const few = 8
	slices.Sort(names)
	if more := len(names) - few; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), more)
	}
	return strings.Join(names, ", ")
}
