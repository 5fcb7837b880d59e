package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
)

// sayEvery is how often people are told how far files have come.
const sayEvery = 250 * time.Millisecond

// GetFiles implements api.FileBackend.
func (f *Files) GetFiles(ctx context.Context, q api.GetFiles, out *api.FileWriter) error {
	ctx, cancel := context.WithCancel(ctx)
	g := &getting{f: f, out: out, keep: blob.Keep(f.cfg.Store, true), came: wake.New(), checked: map[piece.Root]struct{}{}}
	defer g.keep.Close()
	defer g.all.Wait()
	defer cancel()
	err := g.run(ctx, &q)
	if err == nil {
		err = g.settle(ctx) // it counts to the end
	}
	if err == nil {
		err = g.tell()
	}
	return f.explain(err)
}

func (g *getting) run(ctx context.Context, q *api.GetFiles) error {
	if len(q.Blobs) > 0 {
		return g.several(ctx, q)
	}
	g.begin(ctx, []blob.Want{{Root: q.Root, Size: -1}})
	switch {
	case !q.Files && q.Stay:
		return g.here(ctx, q.Root)
	case !q.Files:
		return g.blob(ctx, q.Root, "")
	}
	if err := g.here(ctx, q.Root); err != nil {
		return err
	}
	release, err := g.f.cfg.Store.Lease(q.Root, "get")
	if err != nil {
		return err
	}
	defer release()
	wants, err := g.wants(ctx, q)
	if damaged(err) { // the tree itself
		var r *store.Reader
		if r, err = g.heal(ctx, blob.Want{Root: q.Root, Size: -1}, err); err == nil {
			r.Close()
			wants, err = g.wants(ctx, q)
		}
	}
	if err != nil {
		return err
	}
	g.begin(ctx, wants)
	if q.Stay {
		return g.stay(ctx)
	}
	_, err = g.f.walk(ctx, q.Root, func(n int, e tree.Entry) error {
		if q.Skips(n) || e.Size == 0 {
			return nil
		}
		return g.blob(ctx, e.Root, e.Path)
	})
	return err
}

// stay waits until what is fetched is here.
func (g *getting) stay(ctx context.Context) error {
	if err := g.settle(ctx); err != nil {
		return err
	}
	return g.last.err
}

// several writes blobs in the order in which they were asked for.
func (g *getting) several(ctx context.Context, q *api.GetFiles) error {
	blobs := q.Blobs
	if len(blobs) > api.MaxBlobs {
		return api.Errorf(api.Usage, "%d blobs at once are too many: %d may be asked for", len(blobs), api.MaxBlobs)
	}
	var wants []blob.Want
	seen := map[piece.Root]struct{}{}
	for _, b := range blobs {
		if _, twice := seen[b.Blob]; twice || g.f.cfg.Store.Have(b.Blob).Whole {
			continue
		}
		seen[b.Blob] = struct{}{}
		wants = append(wants, blob.Want{Root: b.Blob, Size: max(b.Size, -1)})
		g.need += max(b.Size, 0)
	}
	g.begin(ctx, wants)
	if q.Stay {
		return g.stay(ctx)
	}
	for _, b := range blobs {
		if err := g.blob(ctx, b.Blob, ""); err != nil {
			return err
		}
	}
	return nil
}

// getting is one that is under way.
type getting struct {
	f    *Files
	out  *api.FileWriter
	keep *blob.Kept
	came wake.Signal    // some of what is fetched is here
	all  sync.WaitGroup // fetches
	last *fetch         // that was begun; one before it may still end

	mu   sync.Mutex
	from []api.Source // what came from whom

	need    int64 // bytes of what is fetched; 0: not known
	said    time.Time
	checked map[piece.Root]struct{} // were not here, so that all of them was checked as it came
}

// fetch is one of the fetches of a getting.
type fetch struct {
	over chan struct{} // closed when it has ended
	err  error         // after that
}

// wants is what of a folder is not here, each blob once.
func (g *getting) wants(ctx context.Context, q *api.GetFiles) (wants []blob.Want, err error) {
	seen := map[piece.Root]struct{}{}
	g.need = 0
	_, err = g.f.walk(ctx, q.Root, func(n int, e tree.Entry) error {
		if _, twice := seen[e.Root]; twice || q.Skips(n) || e.Size == 0 || g.f.cfg.Store.Have(e.Root).Whole {
			return nil
		}
		seen[e.Root] = struct{}{}
		wants = append(wants, blob.Want{Root: e.Root, Size: e.Size})
		g.need += e.Size
		return nil
	})
	return wants, err
}

// begin begins to fetch what is not here.
func (g *getting) begin(ctx context.Context, wants []blob.Want) {
	f := &fetch{over: make(chan struct{})}
	g.last = f
	wants = slices.DeleteFunc(wants, func(w blob.Want) bool { return g.f.cfg.Store.Have(w.Root).Whole })
	if len(wants) == 0 {
		close(f.over)
		return
	}
	for _, w := range wants {
		if g.f.cfg.Store.Have(w.Root).Pieces == nil {
			g.checked[w.Root] = struct{}{}
		}
	}
	g.all.Go(func() {
		defer close(f.over)
		f.err = g.f.fetch(ctx, g.keep, wants, g.came.Set, func(from []api.Source) {
			g.mu.Lock()
			g.from = from
			g.mu.Unlock()
		})
	})
}

// wait waits a moment, or until the fetch is over, and tells how far it is.
func (g *getting) wait(ctx context.Context) error {
	t := time.NewTimer(sayEvery)
	defer t.Stop()
	if err := g.out.Flush(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-g.last.over:
	case <-g.came:
	case <-t.C:
	}
	return g.say()
}

// say tells how far it is, now and then.
func (g *getting) say() error {
	now := g.f.cfg.Now()
	if now.Sub(g.said) < sayEvery {
		return nil
	}
	g.said = now
	return g.tell()
}

// tell tells how far it is, if anything came.
func (g *getting) tell() error {
	g.mu.Lock()
	p := api.Fetching{All: g.need, From: g.from}
	g.mu.Unlock()
	for _, s := range p.From {
		p.Bytes += s.Bytes
	}
	if len(p.From) == 0 {
		return nil
	}
	return g.out.Fetching(p)
}

func (g *getting) ended() bool {
	select {
	case <-g.last.over:
		return true
	default:
		return false
	}
}

// until waits until something is so, or the fetch is over without it.
func (g *getting) until(ctx context.Context, root piece.Root, is func() bool) error {
	for {
		ended := g.ended() // before is looks: what came last was here by then
		if is() {
			return nil
		}
		if ended {
			if g.last.err != nil {
				return g.last.err
			}
			return fmt.Errorf("%s was fetched, and is not here", root)
		}
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
}

// here waits until a blob is whole.
func (g *getting) here(ctx context.Context, root piece.Root) error {
	return g.until(ctx, root, func() bool { return g.f.cfg.Store.Have(root).Whole })
}

// blob writes one as it comes; path is for people.
func (g *getting) blob(ctx context.Context, root piece.Root, path string) error {
	err := g.copy(ctx, root)
	var told *api.Error
	if path != "" && errors.As(err, &told) {
		return api.Errorf(told.Code, "%q: %s", path, told.Message)
	}
	return err
}

func (g *getting) copy(ctx context.Context, root piece.Root) error {
	s := g.f.cfg.Store
	if err := g.until(ctx, root, func() bool { h := s.Have(root); return h.Pieces != nil && h.Pieces.Have() > 0 }); err != nil {
		return err
	}
	r, err := s.Reader(root)
	if damaged(err) {
		r, err = g.heal(ctx, blob.Want{Root: root, Size: -1}, err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if r != nil {
			r.Close()
		}
	}()
	size := r.Size()
	if err := g.out.Blob(root, size); err != nil {
		return err
	}
	_, checked := g.checked[root]
	buf := make([]byte, min(size, piece.Size))
	healed := -1
	for i := 0; i < piece.Count(size) && size > 0; {
		if err := g.until(ctx, root, func() bool { h := s.Have(root); return h.Pieces != nil && h.Pieces.Has(i) }); err != nil {
			return err
		}
		off, n := piece.Span(size, i)
		read := r.ReadAt
		if checked {
			read = r.Raw // whoever it is for checks it again
		}
		_, err := read(buf[:n], off)
		if err != nil && !errors.Is(err, io.EOF) {
			if healed == i || !damaged(err) {
				return err
			}
			healed, checked = i, false
			r.Close()
			if r, err = g.heal(ctx, blob.Want{Root: root, Size: size}, err); err != nil {
				return err
			}
			continue
		}
		if err := g.out.Bytes(buf[:n]); err != nil {
			return err
		}
		if err := g.say(); err != nil {
			return err
		}
		i++
	}
	return nil
}

// damaged tells whether something that was here turned out not to be, so that it can be fetched
// again.
func damaged(err error) bool {
	var rot *store.Rot
	return errors.As(err, &rot) || errors.Is(err, store.ErrAbsent)
}

// heal fetches again what was damaged on this disk, after everything else that is being fetched,
// and opens it.
func (g *getting) heal(ctx context.Context, w blob.Want, why error) (*store.Reader, error) {
	if err := g.settle(ctx); err != nil {
		return nil, err
	}
	before := g.last
	g.begin(ctx, []blob.Want{w})
	if err := g.settle(ctx); err != nil {
		return nil, err
	}
	if g.last.err != nil {
		return nil, api.Errorf(api.Failed, "%v, and it could not be fetched again: %v", why, g.last.err)
	}
	g.last = before
	return g.f.cfg.Store.Reader(w.Root)
}

// settle waits until nothing is being fetched.
func (g *getting) settle(ctx context.Context) error {
	for !g.ended() {
		if err := g.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
