package store

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
)

// Case 25: what is fetched comes to its end while what may go is swept away all the time, others
// take what room there is, and the quota has room for little else; it holds during that, but for
// what is the owner's own, and after it.
func TestAFetchUnderATightQuotaIsNotSweptAway(t *testing.T) {
	for name, own := range map[string]bool{"for others": false, "the owner's own": true} {
		t.Run(name, func(t *testing.T) {
			wanted := samples(5*mib+1, 5*mib+2, 5*mib+3, 5*mib+4)
			small := samples(mib-1, mib-2, mib-3, mib-4)
			s := openStore(t, t.TempDir(), Config{Quota: costOf(5*mib+4) + costOf(mib)})
			var done atomic.Bool
			var wg sync.WaitGroup
			beside := func(f func(n int)) {
				wg.Go(func() {
					for n := 0; !done.Load(); n++ {
						f(n)
					}
				})
			}
			beside(func(int) {
				s.Sweep()
				if u := s.Usage(); u.Bytes > u.Quota && !own {
					t.Errorf("beyond the quota: %+v", u)
					done.Store(true)
				}
			})
			beside(func(n int) { // at most one at a time is held by whoever adds it
				_, _, _ = s.Add(t.Context(), bytes.NewReader(small[n%len(small)].data), false)
			})
			for round := range len(wanted) {
				b := wanted[round]
				for try, pieces := range []int{b.blob.Pieces() / 2, b.blob.Pieces()} { // broken off at half
					f, err := s.Begin(t.Context(), b.blob, own)
					if err != nil {
						t.Error(round, try, err)
						break
					}
					for i := range pieces {
						if err := f.Piece(i, b.piece(i)); err != nil {
							t.Error(round, try, i, err)
						}
						if h := s.Have(b.root()); h.Pieces == nil || !h.Pieces.Has(i) {
							t.Errorf("round %d: piece %d has gone", round, i)
						}
					}
					if pieces == b.blob.Pieces() {
						if err := f.Done(); err != nil {
							t.Error(round, err)
						}
						if err := reads(t, s, b); err != nil || !s.Have(b.root()).Whole {
							t.Errorf("round %d: it does not stay: %v", round, err)
						}
					}
					f.Close()
				}
			}
			done.Store(true)
			wg.Wait()
			s.Sweep()
			if u := s.Usage(); u.Bytes > u.Quota || u.Bytes != u.MayGo || len(u.Leases) > 0 {
				t.Errorf("at the end: %+v", u)
			}
		})
	}
}
