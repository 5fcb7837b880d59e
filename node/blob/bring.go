package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
)

// Brought is files and folders that are here whole. They stay leased until Close, so that there is
// time to pin them.
type Brought struct {
	Roots  []piece.Root // of all of them, the folders' trees included: for a pin
	Totals tree.Totals
	Report Report

	kept *Kept
}

// Close gives up the leases.
func (b *Brought) Close() { b.kept.Close() }

// Bring has files come into a store, and folders with all that is in them. The fetcher's Keep and
// the request's Wants are set by it. own: see Keep. What is here is not fetched; what came stays in
// the store when something else does not come, so that the next call goes on there.
func Bring(ctx context.Context, s *store.Store, own bool, fr Fetcher, req Request, refs ...tree.Ref) (_ *Brought, err error) {
	b := &Brought{kept: Keep(s, own)}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	fr.Keep = b.kept
	for again := true; ; again = false {
		req.Wants = func(yield func(Want) bool) {
			for _, r := range refs {
				if !yield(Want{Root: r.Root, Size: -1}) {
					return
				}
			}
		}
		if err = b.fetch(ctx, fr, req); err != nil {
			return nil, err
		}
		err = b.files(ctx, s, fr, req, refs)
		if err == nil {
			return b, nil
		}
		var rot *store.Rot
		if !again || !errors.As(err, &rot) && !errors.Is(err, store.ErrAbsent) {
			return nil, err
		}
	}
}

func (b *Brought) fetch(ctx context.Context, fr Fetcher, req Request) error {
	r, err := fr.Fetch(ctx, req)
	b.Report.add(r)
	return err
}

// files fetches what the trees name, which are here. They are read while the files come.
func (b *Brought) files(ctx context.Context, s *store.Store, fr Fetcher, req Request, refs []tree.Ref) error {
	seen := map[piece.Root]struct{}{}
	b.Roots, b.Totals = nil, tree.Totals{}
	var bad error
	add := func(root piece.Root) (first bool) {
		if _, twice := seen[root]; twice {
			return false
		}
		seen[root] = struct{}{}
		b.Roots = append(b.Roots, root)
		return true
	}
	req.Wants = func(yield func(Want) bool) {
		for _, r := range refs {
			add(r.Root)
			if !r.Dir {
				b.Totals.Files++
				b.Totals.Bytes += s.Have(r.Root).Size
				continue
			}
			var totals tree.Totals
			for e, err := range Entries(s, r.Root, &totals) {
				if err != nil {
					bad = fmt.Errorf("the folder %s: %w", r, err)
					return
				}
				if e.Kind == tree.File && add(e.Root) && !yield(Want{Root: e.Root, Size: e.Size}) {
					return
				}
			}
			b.Totals.Files += totals.Files
			b.Totals.Dirs += totals.Dirs
			b.Totals.Links += totals.Links
			b.Totals.Bytes += totals.Bytes
		}
	}
	if err := b.fetch(ctx, fr, req); err != nil {
		return err
	}
	return bad
}

// Entries reads a tree that is in a store. totals is set at its end.
func Entries(s *store.Store, root piece.Root, totals *tree.Totals) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		r, err := s.Reader(root)
		if err != nil {
			yield(tree.Entry{}, err)
			return
		}
		defer r.Close()
		t := tree.NewReader(io.NewSectionReader(r, 0, r.Size()))
		for {
			e, err := t.Next()
			if errors.Is(err, io.EOF) {
				*totals = t.Totals()
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// add counts what another fetch brought.
func (r *Report) add(o Report) {
	r.Blobs += o.Blobs
	r.Bytes += o.Bytes
	if r.From == nil {
		r.From, r.Bad = map[string]int64{}, map[string]int{}
	}
	for peer, n := range o.From {
		r.From[peer] += n
	}
	for peer, n := range o.Bad {
		r.Bad[peer] += n
	}
}
