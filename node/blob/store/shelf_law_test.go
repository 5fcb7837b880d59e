package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/coveyproject/covey/node/blob/piece"

	"pgregory.net/rapid"
)

// dumb is a shelf that looks through everything each time.
type dumb struct {
	quota, reserved int64
	all             []dumbBlob
	pins            []piece.Root
	clock           int
}

type dumbBlob struct {
	root   piece.Root
	cost   int64
	leases int
	free   int // since when it may go; 0: it may not
}

func (d *dumb) find(r piece.Root) *dumbBlob {
	for i := range d.all {
		if d.all[i].root == r {
			return &d.all[i]
		}
	}
	return nil
}

func (d *dumb) look() {
	for i := range d.all {
		b := &d.all[i]
		if b.leases > 0 || slices.Contains(d.pins, b.root) {
			b.free = 0
		} else if b.free == 0 {
			d.clock++
			b.free = d.clock
		}
	}
}

func (d *dumb) bytes() int64 {
	n := d.reserved
	for _, b := range d.all {
		n += b.cost
	}
	return n
}

// fit tries every number of blobs, those used longest ago first, and takes the least that does.
func (d *dumb) fit(n int64, own bool, free int64) (gone []piece.Root, full bool) {
	d.look()
	var loose []dumbBlob
	for _, b := range d.all {
		if b.free > 0 {
			loose = append(loose, b)
		}
	}
	slices.SortFunc(loose, func(a, b dumbBlob) int { return a.free - b.free })
	fits := func(k int) (quota, disk bool) {
		var freed int64
		for _, b := range loose[:k] {
			freed += b.cost
		}
		return d.bytes()-freed+n <= d.quota, free+freed >= n
	}
	k := 0
	for ; k < len(loose); k++ {
		if quota, disk := fits(k); quota && disk {
			break
		}
	}
	if quota, disk := fits(k); n > 0 && (!disk || !quota && !own) {
		return nil, true
	}
	for _, b := range loose[:k] {
		gone = append(gone, b.root)
		d.all = slices.DeleteFunc(d.all, func(x dumbBlob) bool { return x.root == b.root })
	}
	d.reserved += n
	return gone, false
}

func TestWhatGoesIsWhatTheDumbShelfSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		quota := rapid.Int64Range(0, 60).Draw(t, "quota")
		s, d := newShelf(quota), &dumb{quota: quota}
		root := func() piece.Root { return piece.Root{rapid.ByteRange(1, 9).Draw(t, "blob")} }
		trim := func() {
			free := rapid.SampledFrom([]int64{100, 100, 5, 0, -7}).Draw(t, "free")
			compare(t, s, d, 0, true, free)
			if s.loose > 0 && s.bytes > s.quota {
				t.Fatalf("%d of %d bytes, and %d may go", s.bytes, s.quota, s.loose)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				r, cost := root(), rapid.Int64Range(1, 30).Draw(t, "cost")
				if s.blobs[r] != nil {
					t.Skip("it is there")
				}
				own := rapid.Bool().Draw(t, "own")
				if !compare(t, s, d, cost, own, rapid.Int64Range(-5, 100).Draw(t, "free")) {
					return
				}
				if !own && s.bytes > quota {
					t.Fatal("over the quota")
				}
				s.add(r, cost)
				d.reserved -= cost
				d.all = append(d.all, dumbBlob{root: r, cost: cost, leases: 1})
			},
			"lease": func(t *rapid.T) {
				r := root()
				if b := s.blobs[r]; b != nil {
					s.lease(b)
					d.find(r).leases++
					d.look()
				}
			},
			"release": func(t *rapid.T) {
				r := root()
				if b := s.blobs[r]; b != nil && b.leases > 0 {
					s.release(b)
					d.find(r).leases--
					d.look()
					trim()
				}
			},
			"pin": func(t *rapid.T) {
				r := root()
				s.pin(r)
				d.pins = append(d.pins, r)
				d.look()
			},
			"unpin": func(t *rapid.T) {
				r := root()
				if i := slices.Index(d.pins, r); i >= 0 {
					s.unpin(r)
					d.pins = slices.Delete(d.pins, i, i+1)
					d.look()
					trim()
				}
			},
			"reserve and give back": func(t *rapid.T) {
				n := rapid.Int64Range(1, 30).Draw(t, "n")
				if compare(t, s, d, n, rapid.Bool().Draw(t, "own"), 100) {
					s.giveBack(n)
					d.reserved -= n
				}
			},
			"resize": func(t *rapid.T) {
				r := root()
				b := s.blobs[r]
				if b == nil {
					t.Skip("it is not there")
				}
				cost := rapid.Int64Range(1, b.cost).Draw(t, "cost")
				s.resize(b, cost)
				d.find(r).cost = cost
			},
			"forget": func(t *rapid.T) {
				r := root()
				if b := s.blobs[r]; b != nil && b.leases == 0 {
					s.forget(b)
					d.all = slices.DeleteFunc(d.all, func(x dumbBlob) bool { return x.root == r })
				}
			},
			"": func(t *rapid.T) {
				if s.bytes != d.bytes() || len(s.blobs) != len(d.all) {
					t.Fatalf("%d bytes in %d blobs, not %d in %d", s.bytes, len(s.blobs), d.bytes(), len(d.all))
				}
				var loose int64
				for b := s.ring.newer; b != &s.ring; b = b.newer {
					loose += b.cost
				}
				if loose != s.loose {
					t.Fatalf("%d in the ring, not %d", loose, s.loose)
				}
			},
		})
	})
}

func compare(t *rapid.T, s *shelf, d *dumb, n int64, own bool, free int64) bool {
	gone, err := s.fit(n, own, free)
	want, full := d.fit(n, own, free)
	if errors.Is(err, ErrNoRoom) != full || full != (err != nil) {
		t.Fatalf("fit(%d, %v, %d): %v, but full is %v", n, own, free, err, full)
	}
	var roots []piece.Root
	for _, b := range gone {
		roots = append(roots, b.root)
	}
	if !slices.Equal(roots, want) {
		t.Fatalf("fit(%d, %v, %d): %x go, not %x", n, own, free, roots, want)
	}
	if full := (*NoRoom)(nil); errors.As(err, &full) {
		// What it says is free is what would fit, and no more.
		if full.Needed != n || full.Free < 0 || full.Free >= n {
			t.Fatalf("%v, and it needed %d", err, n)
		}
		if full.Free > 0 {
			c := *d
			c.all, c.pins = slices.Clone(d.all), slices.Clone(d.pins)
			if _, no := c.fit(full.Free, own, free); no {
				t.Fatalf("%v, and that does not fit", err)
			}
		}
	}
	return err == nil
}
