package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
)

// Config joins the parts.
type Config struct {
	Store   *store.Store
	Dir     string // of the store, for people
	Net     blob.Dialer
	Self    string
	May     func(piece.Root) bool                             // others give it to this peer; optional
	Members func() []Member                                   // the others
	Jobs    func(ctx context.Context) ([]api.JobFiles, error) // what tasks left here; nil: nothing
	Now     func() time.Time
	Log     *slog.Logger
}

// What is put is synced when it is so many blobs, or bytes.
const (
	batchBlobs = 4096
	batchBytes = 256 << 20
)

// Files answers the API's questions about files.
type Files struct{ cfg Config }

// New makes it of its parts.
func New(cfg Config) *Files { return &Files{cfg} }

// HaveBlobs implements api.FileBackend. The copies here are read for it: the client, which has the
// bytes in hand, does not send what it is told is here.
func (f *Files) HaveBlobs(ctx context.Context, asked api.Blobs) (here api.Blobs, err error) {
	if len(asked.Blobs) > api.MaxBlobs {
		return here, api.Errorf(api.Usage, "%d blobs at once are too many: %d may be asked for", len(asked.Blobs), api.MaxBlobs)
	}
	here.Blobs = slices.Clone(asked.Blobs)
	here.Blobs = slices.DeleteFunc(here.Blobs, func(r piece.Root) bool { return ctx.Err() != nil || !f.cfg.Store.Intact(r) })
	return here, ctx.Err()
}

// StoreUsage implements api.FileBackend.
func (f *Files) StoreUsage(ctx context.Context) (api.StoreUsage, error) {
	u := f.cfg.Store.Usage()
	out := api.StoreUsage{
		Dir: f.cfg.Dir, Quota: u.Quota, Bytes: u.Bytes, MayGo: u.MayGo, Pinned: u.Pinned, DiskFree: u.DiskFree,
		Blobs: u.Whole, Partial: u.Partial, Foreign: u.Foreign, Puts: []api.Put{}, Jobs: []api.JobFiles{}, AsOf: f.cfg.Now().UTC(),
	}
	for _, p := range f.cfg.Store.Pins() {
		if ref, ok := refOf(p.Name); ok {
			out.Puts = append(out.Puts, f.put(ref, p))
		}
	}
	if f.cfg.Jobs == nil {
		return out, nil
	}
	jobs, err := f.cfg.Jobs(ctx)
	out.Jobs = append(out.Jobs, jobs...)
	return out, err
}

// put tells of something that was put.
func (f *Files) put(ref tree.Ref, p store.Pin) api.Put {
	out := api.Put{Ref: ref, Name: p.Why, Files: len(p.Roots)}
	for _, r := range p.Roots {
		out.Bytes += f.cfg.Store.Have(r).Size
	}
	if ref.Dir {
		out.Files-- // the tree itself
		out.Bytes -= f.cfg.Store.Have(ref.Root).Size
	}
	if !p.Until.IsZero() {
		until := p.Until.UTC()
		out.Until = &until
	}
	return out
}

// Pins of what was put are called putBegin, the name in hex, and folderEnd if it is a folder.
const (
	putBegin  = "put-"
	folderEnd = "-folder"
)

func pinOf(ref tree.Ref) string {
	name := putBegin + strings.TrimPrefix(ref.Root.String(), "b3:")
	if ref.Dir {
		name += folderEnd
	}
	return name
}

func refOf(pin string) (tree.Ref, bool) {
	hex, put := strings.CutPrefix(pin, putBegin)
	hex, dir := strings.CutSuffix(hex, folderEnd)
	root, err := piece.ParseRoot("b3:" + hex)
	return tree.Ref{Root: root, Dir: dir}, put && err == nil
}

// Unput implements api.FileBackend.
func (f *Files) Unput(_ context.Context, word string) (api.Put, error) {
	p, ref, err := f.find(word)
	if err != nil {
		return api.Put{}, err
	}
	out := f.put(ref, p)
	if err := f.cfg.Store.Unpin(p.Name); err != nil && !errors.Is(err, store.ErrAbsent) {
		return api.Put{}, api.Errorf(api.Failed, "cannot let go of %s: %v", ref, err)
	}
	return out, nil
}

// find is the pin of what a person means: its name, the beginning of it, or what it was called.
func (f *Files) find(word string) (pin store.Pin, ref tree.Ref, err error) {
	n := 0
	for _, p := range f.cfg.Store.Pins() {
		is, ok := refOf(p.Name)
		if !ok || word == "" {
			continue
		}
		if is.String() == word {
			return p, is, nil
		}
		if p.Why == word || len(word) >= len("b3:1234") && strings.HasPrefix(is.String(), word) {
			pin, ref = p, is
			n++
		}
	}
	switch n {
	case 0:
		return pin, ref, api.Errorf(api.NotFound, "nothing was put here as %.100q; `peer df` lists what was", word)
	case 1:
		return pin, ref, nil
	}
	return pin, ref, api.Errorf(api.Conflict, "%d things that were put here are called %.100q; say which by its b3: name, which `peer df` lists", n, word)
}

// maxPutName bounds what is remembered of the name of what was put, in bytes.
const maxPutName = 200

// PutFiles implements api.FileBackend.
func (f *Files) PutFiles(ctx context.Context, in *api.PutReader) (api.Put, error) {
	p := &putting{f: f, batch: f.cfg.Store.Batch(true), roots: map[piece.Root]struct{}{}}
	defer p.close()
	if err := p.take(ctx, in); err != nil {
		return api.Put{}, f.explain(err)
	}
	if p.missing > 0 {
		return api.Put{Ref: in.End.Ref, Missing: p.missing}, nil
	}
	out, err := p.keep(ctx, in.End)
	return out, f.explain(err)
}

// putting is one that is under way.
type putting struct {
	f       *Files
	batch   *store.Batch
	roots   map[piece.Root]struct{}
	leases  []func()
	missing int
	fresh   int64
	blobs   int   // that are not synced yet
	bytes   int64 // of them
}

func (p *putting) close() {
	p.batch.Close()
	for _, release := range p.leases {
		release()
	}
}

// take reads all blobs.
func (p *putting) take(ctx context.Context, in *api.PutReader) error {
	for {
		b, content, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if _, twice := p.roots[b.Blob]; twice {
			continue
		}
		if len(p.roots) > tree.MaxEntries {
			return api.Errorf(api.Usage, "a folder may have %d files at most", tree.MaxEntries)
		}
		if err := p.blob(ctx, b, content); err != nil {
			return err
		}
	}
}

func (p *putting) blob(ctx context.Context, b api.PutBlob, content io.Reader) error {
	if content == nil {
		release, err := p.f.cfg.Store.Lease(b.Blob, "put")
		if errors.Is(err, store.ErrAbsent) {
			p.missing++
			return nil
		}
		if err == nil {
			p.leases = append(p.leases, release)
			p.roots[b.Blob] = struct{}{}
		}
		return err
	}
	here := p.f.cfg.Store.Have(b.Blob).Whole
	root, _, err := p.batch.Add(ctx, content, b.Size)
	if err != nil {
		return err
	}
	if root != b.Blob {
		return api.Errorf(api.Conflict, "%q changed while it was read; type it again", b.Path)
	}
	if !here {
		p.fresh += b.Size
	}
	p.roots[root] = struct{}{}
	p.blobs++
	p.bytes += b.Size
	if p.blobs < batchBlobs && p.bytes < batchBytes {
		return nil
	}
	p.blobs, p.bytes = 0, 0
	return p.batch.Done()
}

// keep pins what was put, if all of it is here.
func (p *putting) keep(ctx context.Context, end api.PutEnd) (api.Put, error) {
	if err := p.batch.Done(); err != nil {
		return api.Put{}, err
	}
	s := p.f.cfg.Store
	if _, here := p.roots[end.Ref.Root]; !here {
		return api.Put{}, api.Errorf(api.Usage, "%s is not among what was put", end.Ref)
	}
	roots := []piece.Root{end.Ref.Root}
	out := api.Put{Ref: end.Ref, Name: end.Name, Files: 1, Bytes: s.Have(end.Ref.Root).Size, New: p.fresh}
	if end.Ref.Dir {
		totals, err := p.f.walk(ctx, end.Ref.Root, func(_ int, e tree.Entry) error {
			if _, here := p.roots[e.Root]; !here {
				return api.Errorf(api.Usage, "%q is not among what was put", e.Path)
			}
			roots = append(roots, e.Root)
			return nil
		})
		if err != nil {
			return api.Put{}, err
		}
		out.Files, out.Bytes = totals.Files, totals.Bytes
		out.New = min(out.New, out.Bytes) // the list of its files is none of them
	}
	pin := store.Pin{Name: pinOf(end.Ref), Why: strings.ToValidUTF8(end.Name[:min(len(end.Name), maxPutName)], "�"), Roots: roots}
	if end.For > 0 {
		pin.Until = p.f.cfg.Now().Add(time.Duration(end.For * float64(time.Second)))
	}
	for _, before := range s.Pins() { // nothing shortens what was promised
		if before.Name == pin.Name && !pin.Until.IsZero() && (before.Until.IsZero() || before.Until.After(pin.Until)) {
			pin.Until = before.Until
		}
	}
	if !pin.Until.IsZero() {
		until := pin.Until.UTC()
		out.Until = &until
	}
	return out, s.Pin(pin)
}

// walk calls each with the files of a tree that is here, and their numbers.
func (f *Files) walk(ctx context.Context, root piece.Root, each func(int, tree.Entry) error) (tree.Totals, error) {
	r, err := f.cfg.Store.Reader(root)
	if err != nil {
		return tree.Totals{}, err
	}
	defer r.Close()
	t := tree.NewReader(io.NewSectionReader(r, 0, r.Size()))
	for n := 0; ; {
		e, err := t.Next()
		if errors.Is(err, io.EOF) {
			return t.Totals(), nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && e.Kind == tree.File {
			err = each(n, e)
			n++
		}
		if err != nil {
			return tree.Totals{}, err
		}
	}
}

// ListFiles implements api.FileBackend.
func (f *Files) ListFiles(ctx context.Context, trees []piece.Root, each func(int, tree.Entry) error) error {
	keep := blob.Keep(f.cfg.Store, true)
	defer keep.Close()
	var wants []blob.Want
	seen := map[piece.Root]struct{}{}
	for _, root := range trees {
		if _, twice := seen[root]; twice {
			continue
		}
		seen[root] = struct{}{}
		release, err := f.cfg.Store.Lease(root, "list")
		if err == nil {
			defer release() // all of them have to be here at once
			continue
		}
		wants = append(wants, blob.Want{Root: root, Size: -1})
	}
	if len(wants) > 0 {
		if err := f.fetch(ctx, keep, wants, func() {}, func([]api.Source) {}); err != nil {
			return f.explain(err)
		}
	}
	for i, root := range trees {
		for e, err := range blob.Entries(f.cfg.Store, root, &tree.Totals{}) {
			if err == nil {
				err = ctx.Err()
			}
			if err == nil {
				err = each(i, e)
			}
			if err != nil {
				return f.explain(err)
			}
		}
	}
	return nil
}

// explain says what a person can do about an error of the store.
func (f *Files) explain(err error) error {
	var full *store.NoRoom
	switch {
	case errors.As(err, &full) && full.Disk:
		return api.Errorf(api.Failed, "%v, with %s; make room there and type it again: it goes on where it was", full, f.cfg.Dir)
	case errors.As(err, &full):
		return api.Errorf(api.Failed, "%v; let go of something with `peer unput`, or give it more with `peer up --store SIZE`", full)
	case errors.Is(err, tree.ErrRefused):
		return api.Errorf(api.Usage, "this is no folder: %v", err)
	case err == nil:
		return nil
	}
	var told *api.Error
	if errors.As(err, &told) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("files: %w", err)
}
