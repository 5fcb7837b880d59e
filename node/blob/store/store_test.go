package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
)

func openStore(t testing.TB, dir string, cfg Config) *Store {
	t.Helper()
	if cfg.Leave == 0 {
		cfg.Leave = -1
	}
	s, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.disk.(*folder).root.Close() })
	return s
}

// memStore is for what waits for no disk.
func memStore(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := open(newMemDisk(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s *Store, b sample) {
	t.Helper()
	root, n, err := s.Add(t.Context(), bytes.NewReader(b.data), false)
	if err != nil || root != b.root() || n != b.blob.Size() {
		t.Fatal(root, n, err)
	}
}

// reads reads all of a blob.
func reads(t testing.TB, s *Store, b sample) error {
	t.Helper()
	r, err := s.Reader(b.root())
	if err != nil {
		return err
	}
	defer r.Close()
	got, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err == nil && !bytes.Equal(got, b.data) {
		t.Fatal("other bytes are read than were stored")
	}
	return err
}

func fetch(t testing.TB, s *Store, b sample, pieces ...int) *Fetch {
	t.Helper()
	f, err := s.Begin(t.Context(), b.blob, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range pieces {
		if err := f.Piece(i, b.piece(i)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestWhatWasAddedIsReadAlsoAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Config{Quota: 1 << 30})
	all := samples(0, 1, 70000, mib, mib+1, 3*mib, 4*mib, 9*mib+3)
	for _, b := range all {
		add(t, s, b)
	}
	for range 2 {
		for _, b := range all {
			if h := s.Have(b.root()); !h.Whole || h.Size != b.blob.Size() {
				t.Fatal(h)
			}
			if err := reads(t, s, b); err != nil {
				t.Fatal(err)
			}
			r, err := s.Reader(b.root())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(r.Blob().Proof(), b.blob.Proof()) {
				t.Fatal("another proof")
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			i, err := os.Lstat(filepath.Join(dir, wholeName(b.root())))
			if err != nil || i.Mode().Perm() != 0o444 && runtime.GOOS != "windows" {
				t.Fatal(i, err)
			}
		}
		bytes := s.Usage().Bytes
		s = openStore(t, dir, Config{Quota: 1 << 30})
		if got := s.Usage().Bytes; got != bytes {
			t.Fatal(got, bytes)
		}
	}
}

func TestAFetchGoesOnWhereItWas(t *testing.T) {
	dir := t.TempDir()
	b := samples(5*mib + 9)[0]
	s := openStore(t, dir, Config{Quota: 1 << 30})
	fetch(t, s, b, 5, 1, 2) // the process ends without a word
	s = openStore(t, dir, Config{Quota: 1 << 30})
	h := s.Have(b.root())
	if h.Whole || h.Pieces == nil || h.Pieces.Have() != 3 || h.Size != b.blob.Size() {
		t.Fatal(h)
	}
	r, err := s.Reader(b.root())
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2*mib)
	if _, err := r.ReadAt(got, mib); err != nil || !bytes.Equal(got, b.data[mib:3*mib]) {
		t.Fatal("what is here of a partial blob is not read:", err)
	}
	if n, err := r.ReadAt(got, 2*mib); n != mib || !errors.Is(err, ErrAbsent) {
		t.Fatal(n, err)
	}
	if _, err := r.Raw(got, 0); !errors.Is(err, ErrAbsent) {
		t.Fatal(err)
	}
	if n, err := r.Raw(got[:mib], mib); n != mib || err != nil || !bytes.Equal(got[:mib], b.data[mib:2*mib]) {
		t.Fatal(n, err)
	}
	defer r.Close()
	f := fetch(t, s, b, 0, 3)
	if err := f.Done(); !errors.Is(err, ErrPieces) {
		t.Fatal(err)
	}
	if err := f.Piece(4, b.piece(4)); err != nil {
		t.Fatal(err)
	}
	if err := f.Done(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := reads(t, s, b); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadAt(got, 2*mib); err != nil { // also by whom it was opened before
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(dir, partials))
	if len(left) > 0 || err != nil {
		t.Fatal(left, err)
	}
}

func TestALieAboutASizeGivesWayUntilTheLastPieceProvesOne(t *testing.T) {
	s := openStore(t, t.TempDir(), Config{Quota: 1 << 30})
	b := samples(3*mib + 100)[0]
	lie, err := piece.Open(b.root(), 3*mib+50, b.blob.Proof())
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.Begin(t.Context(), lie, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Piece(1, b.piece(1)); err != nil {
		t.Fatal(err)
	}
	if err := f.Piece(3, b.piece(3)[:50]); !errors.Is(err, ErrPiece) {
		t.Fatal(err)
	}
	g := fetch(t, s, b, 3)
	if !g.Pieces().Has(1) {
		t.Fatal("a piece that is right is fetched again")
	}
	if _, err := s.Begin(t.Context(), lie, false); !errors.Is(err, ErrSize) {
		t.Fatal(err)
	}
	for _, i := range []int{0, 2} {
		if err := f.Piece(i, b.piece(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Done(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	g.Close()
	if err := reads(t, s, b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), lie, false); !errors.Is(err, ErrSize) {
		t.Fatal(err)
	}
	if u := s.Usage(); u.Bytes != costOf(b.blob.Size()) {
		t.Fatal(u)
	}
}

func TestBitRotIsFoundNamedAndCostsOnePiece(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Config{Quota: 1 << 30})
	large, small := samples(4*mib+9, 500)[0], samples(4*mib+9, 500)[1]
	add(t, s, large)
	add(t, s, small)
	if err := s.Pin(Pin{Name: "p", Roots: []piece.Root{large.root(), small.root()}}); err != nil {
		t.Fatal(err)
	}
	for _, b := range []sample{large, small} {
		flip(t, filepath.Join(dir, wholeName(b.root())), int64(len(b.data)/2))
	}
	var rot *Rot
	if err := reads(t, s, large); !errors.As(err, &rot) || rot.Root != large.root() || rot.Piece != 2 || !strings.Contains(err.Error(), large.root().String()) {
		t.Fatal(err)
	}
	if h := s.Have(large.root()); h.Whole || h.Pieces.Have() != 4 || h.Pieces.Has(2) {
		t.Fatal(h)
	}
	if err := reads(t, s, small); !errors.As(err, &rot) || rot.Root != small.root() || rot.Piece != 0 {
		t.Fatal(err)
	}
	if h := s.Have(small.root()); h.Pieces != nil {
		t.Fatal(h)
	}
	s = openStore(t, dir, Config{Quota: 0}) // the rest is pinned, whatever the quota
	f := fetch(t, s, large, 2)
	if err := f.Done(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := reads(t, s, large); err != nil {
		t.Fatal(err)
	}
}

func flip(t testing.TB, name string, at int64) {
	t.Helper()
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	b[0] ^= 1
	_, werr := f.WriteAt(b, at)
	if err := errors.Join(err, werr, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens to the files, what is read is right, and a store is opened.
func TestFilesThatAreCutExtendedRemovedOrDamagedAreNoticed(t *testing.T) {
	b := samples(2*mib + 9)[0]
	for name, harm := range map[string]func(file string) error{
		"cut":      func(f string) error { return os.Truncate(f, mib+5) },
		"emptied":  func(f string) error { return os.Truncate(f, 0) },
		"extended": func(f string) error { return os.Truncate(f, 3*mib) },
		"removed":  os.Remove,
		"without its proof": func(f string) error {
			return os.Remove(f + proofEnd)
		},
		"with an empty proof": func(f string) error {
			return errors.Join(os.Chmod(f+proofEnd, 0o600), os.Truncate(f+proofEnd, 0))
		},
		"cut and without its proof": func(f string) error {
			return errors.Join(os.Truncate(f, mib+5), os.Remove(f+proofEnd))
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				s := openStore(t, dir, Config{Quota: 1 << 30})
				add(t, s, b)
				file := filepath.Join(dir, wholeName(b.root()))
				if err := errors.Join(os.Chmod(file, 0o600), harm(file)); err != nil {
					t.Fatal(err)
				}
				if again {
					s = openStore(t, dir, Config{Quota: 1 << 30})
				}
				err := reads(t, s, b)
				if rot := (*Rot)(nil); err != nil && !errors.As(err, &rot) && !errors.Is(err, ErrAbsent) {
					t.Fatal(err)
				}
				if err != nil && s.Have(b.root()).Whole {
					t.Fatal("it is called whole, with", err)
				}
				f := fetch(t, s, b, 0, 1, 2)
				defer f.Close()
				if err := f.Done(); err != nil {
					t.Fatal(err)
				}
				if err := reads(t, s, b); err != nil {
					t.Fatal(err)
				}
				r, err := s.Reader(b.root())
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if len(r.Blob().Proof()) != 3 {
					t.Fatal(r.Blob().Proof())
				}
			})
		}
	}
}

// A fetch that asks for a size is not told that another is here when that copy is cut off.
func TestABlobWhoseCopyWasCutOffIsFetchedAgain(t *testing.T) {
	dir := t.TempDir()
	b := samples(2*mib + 9)[0]
	add(t, openStore(t, dir, Config{Quota: 1 << 30}), b)
	if err := os.Truncate(filepath.Join(dir, wholeName(b.root())), mib+1); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Config{Quota: 1 << 30})
	f, err := s.Begin(t.Context(), b.blob, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if have := f.Pieces(); have.Have() != 1 || !have.Has(0) {
		t.Fatal(have)
	}
}

func TestWhatIsNotTheStoresIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	b := samples(100)[0]
	add(t, openStore(t, dir, Config{Quota: 1 << 30}), b)
	xx := filepath.Dir(filepath.Join(dir, wholeName(b.root())))
	outside := filepath.Join(t.TempDir(), "secret")
	hash := strings.Repeat("ab", 32)
	foreign := []string{
		filepath.Join(dir, "README"), filepath.Join(dir, "zz"), filepath.Join(xx, "notes"), filepath.Join(xx, hash),
		filepath.Join(dir, partials, "x"), filepath.Join(dir, pinned, ".x"), filepath.Join(dir, making, "x"),
	}
	for _, name := range append(foreign, outside) {
		if err := os.WriteFile(name, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ab := filepath.Join(dir, "ab")
	if err := os.Mkdir(ab, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(ab, hash)); err != nil {
		t.Skip(err)
	}
	empty := samples(0)[0]
	if err := os.MkdirAll(filepath.Join(dir, wholeName(empty.root())), 0o700); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, dir, Config{Quota: 0}) // everything that may go goes
	u := s.Usage()
	if u.Foreign != len(foreign)+2 || u.Whole != 0 || u.Bytes != 0 {
		t.Fatal(u)
	}
	for _, name := range append(foreign, outside) {
		if got, err := os.ReadFile(name); string(got) != "mine" {
			t.Fatal(name, err)
		}
	}
	root, err := piece.ParseRoot("b3:" + hash)
	if err != nil || s.Have(root).Pieces != nil {
		t.Fatal("a link is taken for a blob", err)
	}
	// What stands where a blob should be is named.
	if _, _, err := s.Add(t.Context(), strings.NewReader(""), true); err == nil || s.Have(empty.root()).Whole {
		t.Fatal("a folder gave way to a blob")
	}
	if left, err := os.ReadDir(filepath.Join(dir, making)); len(left) != 1 || err != nil {
		t.Fatal(left, err)
	}
}

// A fetch that was overtaken must not take hold of what came after it.
func TestAFetchThatWasOvertakenChangesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Config{Quota: 1 << 30})
	b := samples(3*mib + 1)[0]
	old := fetch(t, s, b, 3)
	add(t, s, b)
	if have := old.Pieces(); !have.Full() {
		t.Fatal("it was added, and pieces are missing")
	}
	flip(t, filepath.Join(dir, wholeName(b.root())), 5)
	var rot *Rot
	if err := reads(t, s, b); !errors.As(err, &rot) {
		t.Fatal(err)
	}
	for i := range b.blob.Pieces() {
		if err := old.Piece(i, b.piece(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Done(); err == nil || s.Have(b.root()).Whole {
		t.Fatal("what another has to fetch again is called whole")
	}
	f := fetch(t, s, b, 0)
	if err := f.Done(); err != nil {
		t.Fatal(err)
	}
	old.Close()
	f.Close()
	if err := reads(t, s, b); err != nil {
		t.Fatal(err)
	}
}

// Who reads a damaged copy that another has taken the place of does not harm that one.
func TestTheSecondCopyIsNotDroppedForTheDamageOfTheFirst(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Config{Quota: 1 << 30})
	b := samples(3*mib + 1)[0]
	add(t, s, b)
	r, err := s.Reader(b.root())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	flip(t, filepath.Join(dir, wholeName(b.root())), 5)
	add(t, s, b)
	var rot *Rot
	if err := r.Verify(0); !errors.As(err, &rot) {
		t.Fatal(err)
	}
	if err := reads(t, s, b); err != nil {
		t.Fatal(err)
	}
}

func TestRubbishOfAProcessThatWasKilledIsRemoved(t *testing.T) {
	dir := t.TempDir()
	b := samples(2 * mib)[0]
	s := openStore(t, dir, Config{Quota: 1 << 30})
	batch := s.Batch(false)
	if _, _, err := batch.Add(t.Context(), bytes.NewReader(b.data), -1); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(dir, partName(b.root()))
	for _, end := range []string{proofEnd, mapEnd} { // without what they are about
		if err := os.WriteFile(part+end, encodeProof(b.blob), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if s.Usage().Bytes == 0 {
		t.Fatal("nothing is reserved for what was not kept yet")
	}
	s = openStore(t, dir, Config{Quota: 1 << 30})
	if u := s.Usage(); u.Bytes != 0 || u.Foreign != 0 {
		t.Fatal(u)
	}
	for _, d := range []string{making, partials} {
		if left, err := os.ReadDir(filepath.Join(dir, d)); len(left) > 0 || err != nil {
			t.Fatal(left, err)
		}
	}
}

func TestTheQuotaHoldsButForWhatIsPinnedOrLeased(t *testing.T) {
	quota := 5 * costOf(mib)
	s := openStore(t, t.TempDir(), Config{Quota: quota})
	sizes := make([]int, 12)
	for i := range sizes {
		sizes[i] = mib - i
	}
	all := samples(sizes...)
	for i, b := range all[:8] {
		add(t, s, b)
		if u := s.Usage(); u.Bytes > quota {
			t.Fatal(u)
		}
		if i == 2 {
			if err := s.Pin(Pin{Name: "first", Roots: []piece.Root{all[0].root()}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, b := range all[:8] { // the pinned one, and those used last
		if s.Have(b.root()).Whole != (i == 0 || i > 3) {
			t.Fatal(i)
		}
	}
	var free []func()
	for i := 4; i < 8; i++ {
		release, err := s.Lease(all[i].root(), "a test")
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, release)
	}
	if u := s.Usage(); u.MayGo != 0 || u.Leases["a test"] != 4 || u.Pinned != costOf(mib) {
		t.Fatal(u)
	}
	// For others there is no room now; what is the owner's own comes in all the same.
	var full *NoRoom
	_, _, err := s.Add(t.Context(), bytes.NewReader(all[8].data), false)
	if !errors.As(err, &full) || !errors.Is(err, ErrNoRoom) || full.Needed != costOf(mib) || full.Free != 0 || full.Disk {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), all[8].blob, false); !errors.Is(err, ErrNoRoom) {
		t.Fatal(err)
	}
	own := s.Batch(true)
	if _, _, err := own.Add(t.Context(), bytes.NewReader(all[9].data), -1); err != nil {
		t.Fatal(err)
	}
	if err := own.Done(); err != nil {
		t.Fatal(err)
	}
	if u := s.Usage(); u.Bytes != quota+costOf(mib) {
		t.Fatal(u)
	}
	own.Close()
	if s.Have(all[9].root()).Whole {
		t.Fatal("it is beyond the quota, and nothing keeps it")
	}
	for _, f := range free {
		f()
	}
	add(t, s, all[10])
	if u := s.Usage(); u.Bytes > quota || u.Leases["a test"] != 0 {
		t.Fatal(u)
	}
}

func TestAFairShareOfTheDiskDoesNotShrinkByWhatItHolds(t *testing.T) {
	for _, c := range []struct{ free, total, want int64 }{
		{100, 100, 25}, {50, 100, 25}, {30, 100, 20}, {10, 100, 0}, {5, 100, 0}, {-5, 100, 0}, {0, 0, 0},
	} {
		if got := fairShare(c.free, c.total); got != c.want {
			t.Errorf("%d of %d are free: %d", c.free, c.total, got)
		}
	}
	d := newMemDisk()
	d.size = 16 * mib
	var quota int64
	for i, b := range samples(mib, 2*mib, 500, 501) {
		s, err := open(d, Config{Quota: -1})
		if err != nil {
			t.Fatal(err)
		}
		if now := s.Usage().Quota; i == 0 {
			quota = now
		} else if quota != now {
			t.Fatalf("%d bytes, and %d before", now, quota)
		}
		add(t, s, b)
	}
	if quota != 4*mib {
		t.Fatal(quota)
	}
}

func TestAPinEndsAtItsTimeAndOutlivesARestart(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1e9, 0)
	cfg := Config{Quota: 0, Now: func() time.Time { return now }}
	s := openStore(t, dir, cfg)
	all := samples(10, mib+1)
	b := s.Batch(true)
	var roots []piece.Root
	for _, x := range all {
		root, _, err := b.Add(t.Context(), bytes.NewReader(x.data), int64(len(x.data)))
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, root)
	}
	if err := s.Pin(Pin{Name: "early", Roots: roots}); !errors.Is(err, ErrAbsent) {
		t.Fatal("what is not kept yet was pinned:", err)
	}
	if err := b.Done(); err != nil {
		t.Fatal(err)
	}
	if err := s.Pin(Pin{Name: "p", Roots: roots, Until: now.Add(time.Hour), Why: "put"}); err != nil {
		t.Fatal(err)
	}
	b.Close()
	s = openStore(t, dir, cfg)
	if p := s.Pins(); len(p) != 1 || p[0].Why != "put" || !p[0].Until.Equal(now.Add(time.Hour)) || len(p[0].Roots) != 2 {
		t.Fatal(p)
	}
	s.Sweep()
	for _, x := range all {
		if err := reads(t, s, x); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	s.Sweep()
	if u := s.Usage(); u.Whole != 0 || len(s.Pins()) != 0 {
		t.Fatal(u)
	}
	if err := s.Unpin("p"); !errors.Is(err, ErrAbsent) {
		t.Fatal(err)
	}
}

// Blobs used long ago go first, and a restart does not forget how long.
func TestWhatWasUsedLongestAgoGoesFirstAlsoAfterARestart(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("when a file was read is known on Linux only")
	}
	dir, now := t.TempDir(), time.Now()
	cfg := Config{Quota: 3 * costOf(100), Now: func() time.Time { return now }}
	s := openStore(t, dir, cfg)
	all := samples(100, 101, 102, 103)
	for _, b := range all[:3] {
		add(t, s, b)
	}
	for _, i := range []int{1, 2, 0} { // another order than they came in
		now = now.Add(2 * touchEvery)
		if err := reads(t, s, all[i]); err != nil {
			t.Fatal(err)
		}
	}
	s = openStore(t, dir, cfg)
	add(t, s, all[3])
	for i, b := range all {
		if s.Have(b.root()).Whole != (i != 1) {
			t.Fatal(i)
		}
	}
}

func TestAFileIsAddedAsItIsWhenItIsRead(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "store"), Config{Quota: 1 << 30})
	for _, b := range samples(0, 100, 3*mib, 4*mib, 4*mib+1, 9*mib) {
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, b.data, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		batch := s.Batch(true)
		root, n, err := batch.AddFile(t.Context(), f)
		if err != nil || root != b.root() || n != b.blob.Size() {
			t.Fatal(root, n, err)
		}
		if err := os.WriteFile(name, []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(batch.Done(), f.Close()); err != nil {
			t.Fatal(err)
		}
		batch.Close()
		if err := reads(t, s, b); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	batch := s.Batch(true)
	defer batch.Close()
	if _, _, err := batch.AddFile(t.Context(), f); err == nil {
		t.Fatal("a folder is a blob")
	}
}

// One that is given away costs the disk nothing where its bytes can be shared, is there when its
// first name is gone, and counts like any other.
func TestAFileThatIsGivenAwayIsTheBlob(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, filepath.Join(dir, "store"), Config{Quota: 1 << 30})
	for _, b := range samples(0, 100, 4*mib+1, 9*mib, 9*mib) {
		name := filepath.Join(dir, "f")
		if err := os.WriteFile(name, b.data, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		batch := s.Batch(true)
		if root, n, err := batch.Take(t.Context(), f); err != nil || root != b.root() || n != b.blob.Size() {
			t.Fatal(root, n, err)
		}
		if err := errors.Join(batch.Done(), f.Close(), os.Remove(name)); err != nil {
			t.Fatal(err)
		}
		batch.Close()
		if err := reads(t, s, b); err != nil {
			t.Fatal(err)
		}
		if i, err := os.Stat(filepath.Join(dir, "store", wholeName(b.root()))); err != nil || i.Mode().Perm() != wholeMode() {
			t.Fatal(i, err)
		}
	}
	shared := filepath.Join(dir, "shared")
	b := samples(5 * mib)[0]
	if err := errors.Join(os.WriteFile(shared, b.data, 0o600), os.Link(shared, shared+"2")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(shared)
	if err != nil {
		t.Fatal(err)
	}
	batch := s.Batch(true)
	if _, _, err := batch.Take(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(batch.Done(), f.Close(), os.WriteFile(shared+"2", []byte("changed"), 0o600)); err != nil {
		t.Fatal(err)
	}
	batch.Close()
	if err := reads(t, s, b); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "store", making)); len(left) > 0 || err != nil {
		t.Fatal(left, err)
	}
	before := s.Usage().Bytes
	if again := openStore(t, filepath.Join(dir, "store"), Config{Quota: 1 << 30}).Usage().Bytes; again != before {
		t.Fatalf("%d bytes, and after a restart %d", before, again)
	}
}

func TestPinsThatAreMadeTogetherAreThereTogether(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Config{Quota: 1 << 30})
	var pins []Pin
	for i, b := range samples(1, 2, 3) {
		root, _, err := s.Add(t.Context(), bytes.NewReader(b.data), true)
		if err != nil {
			t.Fatal(err)
		}
		pins = append(pins, Pin{Name: fmt.Sprint("pin", i), Roots: []piece.Root{root, root}})
	}
	if err := s.PinAll(); err != nil {
		t.Fatal(err)
	}
	if err := s.PinAll(pins...); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{s, openStore(t, dir, Config{Quota: 1 << 30})} {
		for _, p := range pins {
			if got, ok := s.PinNamed(p.Name); !ok || len(got.Roots) != 1 || got.Roots[0] != p.Roots[0] {
				t.Fatal(got, ok)
			}
		}
		if _, ok := s.PinNamed("pin"); ok {
			t.Fatal("there is one that nobody made")
		}
	}
	pins[1].Roots = []piece.Root{{1}}
	if err := s.PinAll(pins[1:]...); !errors.Is(err, ErrAbsent) {
		t.Fatal(err)
	}
}

func TestAnAdditionEndsWithItsContextOrItsReaderAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Config{Quota: 1 << 30})
	broken := errors.New("the pipe is broken")
	six := io.MultiReader(bytes.NewReader(make([]byte, 6*mib)), failing{broken})
	if _, _, err := s.Add(t.Context(), six, true); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ten := io.MultiReader(bytes.NewReader(make([]byte, 5*mib)), calling(cancel), bytes.NewReader(make([]byte, 5*mib)))
	if _, _, err := s.Add(ctx, ten, true); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, making)); len(left) > 0 || s.Usage().Bytes > 0 || err != nil {
		t.Fatal(left, s.Usage(), err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type calling func()

func (c calling) Read([]byte) (int, error) {
	c()
	return 0, io.EOF
}

// Blobs come and go under a quota that is too small while others lease and read them: what is
// leased is read to its end, every time.
func TestWhatIsLeasedIsNeverRemoved(t *testing.T) {
	s := memStore(t, Config{Quota: 6 * costOf(mib)})
	sizes := []int{}
	for i := range 12 {
		sizes = append(sizes, mib/2+i)
	}
	all := append(samples(sizes...), samples(mib+3, 2*mib+5)...)
	var wg sync.WaitGroup
	const rounds = 60
	for w := range 4 {
		wg.Go(func() {
			for n := range rounds {
				b := all[(n*7+w*5)%len(all)]
				var err error
				if w%2 == 0 {
					_, _, err = s.Add(t.Context(), bytes.NewReader(b.data), false)
				} else {
					err = fetchAll(s, b)
				}
				if err != nil && !errors.Is(err, ErrNoRoom) {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for n := range rounds * 3 {
				b := all[(n*5+w)%len(all)]
				release, err := s.Lease(b.root(), "reading")
				if errors.Is(err, ErrAbsent) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := reads(t, s, b); err != nil || !s.Have(b.root()).Whole {
					t.Errorf("it is leased: %v", err)
				}
				release()
			}
		})
	}
	wg.Go(func() {
		for range rounds {
			s.Sweep()
			s.Usage()
		}
	})
	wg.Wait()
	if u := s.Usage(); u.Bytes > u.Quota || u.Bytes != u.MayGo || len(u.Leases) > 0 {
		t.Fatal(u)
	}
}

func fetchAll(s *Store, b sample) error {
	f, err := s.Begin(context.Background(), b.blob, false)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range b.blob.Pieces() {
		if err := f.Piece(i, b.piece(i)); err != nil {
			return err
		}
	}
	return f.Done()
}

// Several fetch one blob at the same time, while it is added, too.
func TestOneBlobIsFetchedAndAddedByManyAtOnce(t *testing.T) {
	s := memStore(t, Config{Quota: 1 << 30})
	for round := range 15 {
		b := samples(3*mib + round)[0]
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				err := fetchAll(s, b)
				if w == 3 {
					_, _, err = s.Add(t.Context(), bytes.NewReader(b.data), false)
				}
				if err != nil {
					t.Error(err)
				}
				if err := reads(t, s, b); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	if u := s.Usage(); u.Partial != 0 || u.Whole != 15 || u.Bytes != u.MayGo {
		t.Fatal(u)
	}
}

func TestAFolderThatCannotBeUsedIsNamed(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var at *fs.PathError
	if _, err := Open(name, Config{}); !errors.As(err, &at) || !strings.Contains(err.Error(), name) {
		t.Fatal(err)
	}
}
