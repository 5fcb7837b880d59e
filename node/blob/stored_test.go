package blob

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
)

// disk is a store in a folder of its own, with some blobs.
func disk(t testing.TB, blobs ...[]byte) (s *store.Store, dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := store.Open(dir, store.Config{Quota: 1 << 40, Leave: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blobs {
		if _, _, err := s.Add(t.Context(), bytes.NewReader(b), false); err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

// stored is what a store has of a blob, checked.
func stored(t testing.TB, s *store.Store, root piece.Root) []byte {
	t.Helper()
	r, err := s.Reader(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fetchInto is a fetch into a store; came are the pieces that could be read when they came.
func (s *scene) fetchInto(t *testing.T, to *store.Store, wants ...Want) (r Report, came map[piece.Root]int, err error) {
	keep := Keep(to, true)
	defer keep.Close()
	var mu sync.Mutex
	came = map[piece.Root]int{}
	f := Fetcher{Net: s.net.Host("me"), Self: "me", Keep: keep}
	r, err = f.Fetch(t.Context(), Request{
		Peers: func() []string { return s.members }, Wants: slices.Values(wants),
		Came: func(root piece.Root, i int) {
			held := to.Have(root)
			mu.Lock()
			defer mu.Unlock()
			if held.Pieces.Has(i) {
				came[root]++
			}
		},
	})
	return r, came, err
}

func TestAStoreFetchesFromAStore(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		var blobs [][]byte
		var wants []Want
		for i, n := range []int{0, 1, 5000, piece.Size, piece.Size + 1, 5*piece.Size - 1} {
			b := noise(n, byte(i))
			blobs, wants = append(blobs, b), append(wants, Want{piece.Sum(b), int64(n) - int64(i%2)*int64(n+1)})
		}
		from, _ := disk(t, blobs...)
		srv := Serve(s.net.Host("a"), Shelved(from), ServerConfig{})
		defer srv.Close()
		s.members = []string{"a"}
		to, _ := disk(t, blobs[2])
		r, came, err := s.fetchInto(t, to, wants...)
		if err != nil || r.Blobs != len(blobs) {
			t.Fatalf("%+v, %v", r, err)
		}
		for i, b := range blobs {
			root := piece.Sum(b)
			if !bytes.Equal(stored(t, to, root), b) {
				t.Errorf("blob %d is another", i)
			}
			want := piece.Count(int64(len(b)))
			if i == 2 {
				want = 0 // it was there
			}
			if came[root] != want {
				t.Errorf("%d pieces of blob %d came, of %d", came[root], i, want)
			}
		}
		again, _, err := s.fetchInto(t, to, wants...)
		if err != nil || again.Bytes != 0 {
			t.Errorf("a second time %d bytes come, %v", again.Bytes, err)
		}
	})
}

// Acceptance case 11.
func TestARottenCopyIsFetchedElsewhereAndMadeGoodFromThere(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(5 * time.Millisecond)
		b := noise(8*piece.Size, 1)
		root := piece.Sum(b)
		rotten, dir := disk(t, b)
		flip(t, dir, root, 3*piece.Size+17)
		good, _ := disk(t, b)
		for name, st := range map[string]*store.Store{"rotten": rotten, "good": good} {
			srv := Serve(s.net.Host(name), Shelved(st), ServerConfig{})
			defer srv.Close()
		}
		to, _ := disk(t)
		s.members = []string{"rotten"}
		r, _, err := s.fetchInto(t, to, want(b))
		var m *Missing
		if !errors.As(err, &m) || r.Bad["rotten"] != 1 || len(m.Wrong) != 1 || m.Wrong[0] != (Wrong{"rotten", root, 3}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if held := rotten.Have(root); held.Whole || held.Pieces.Has(3) || held.Pieces.Have() != 7 {
			t.Errorf("the bad copy is said to have %d pieces", held.Pieces.Have())
		}
		s.members = []string{"rotten", "good"}
		if r, _, err := s.fetchInto(t, to, want(b)); err != nil || r.Bytes != piece.Size {
			t.Errorf("%+v, %v: one piece is missing", r, err)
		}
		if !bytes.Equal(stored(t, to, root), b) {
			t.Error("what came is wrong")
		}
		s.members = []string{"good"}
		if r, _, err := s.fetchInto(t, rotten, want(b)); err != nil || r.Bytes != piece.Size {
			t.Errorf("%+v, %v: the bad copy wants one piece", r, err)
		}
	})
}

func TestAStoreWithoutRoomEndsAFetchOfWhatIsForOthers(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		b := noise(3*piece.Size, 1)
		from, _ := disk(t, b)
		srv := Serve(s.net.Host("a"), Shelved(from), ServerConfig{})
		defer srv.Close()
		to, err := store.Open(t.TempDir(), store.Config{Quota: 2 << 20, Leave: -1})
		if err != nil {
			t.Fatal(err)
		}
		keep := Keep(to, false)
		defer keep.Close()
		f := Fetcher{Net: s.net.Host("me"), Self: "me", Keep: keep}
		_, err = f.Fetch(t.Context(), Request{Peers: func() []string { return []string{"a"} }, Wants: slices.Values([]Want{want(b)})})
		var full *store.NoRoom
		if !errors.As(err, &full) || full.Needed < int64(len(b)) {
			t.Error(err)
		}
	})
}

// flip changes a byte of a blob on the disk.
func flip(t *testing.T, dir string, root piece.Root, at int64) {
	t.Helper()
	name := hex.EncodeToString(root[:])
	path := filepath.Join(dir, name[:2], name)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	one := make([]byte, 1)
	if _, err := f.ReadAt(one, at); err != nil {
		t.Fatal(err)
	}
	one[0] ^= 1
	if _, err := f.WriteAt(one, at); err != nil {
		t.Fatal(err)
	}
}

// inTree is a tree of files with these contents, called by their numbers.
func inTree(t testing.TB, files ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tree.NewWriter(&b)
	for i, f := range files {
		if err := w.Add(tree.Entry{Path: fmt.Sprintf("%03d", i), Kind: tree.File, Size: int64(len(f)), Root: piece.Sum(f)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFoldersComeWithAllTheirFilesAndStayUntilTheyArePinned(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		one, two, three := noise(100, 1), noise(3*piece.Size+1, 2), noise(5, 3)
		out, logs := inTree(t, one, two, nil, one), inTree(t, one, three)
		from, _ := disk(t, one, two, three, nil, out, logs)
		defer Serve(s.net.Host("a"), Shelved(from), ServerConfig{}).Close()
		to, dir := disk(t, out)
		flip(t, dir, piece.Sum(out), 3)
		fr, req := Fetcher{Net: s.net.Host("me"), Self: "me"}, Request{Peers: func() []string { return []string{"a"} }}
		refs := []tree.Ref{{Root: piece.Sum(out), Dir: true}, {Root: piece.Sum(logs), Dir: true}, {Root: piece.Sum(three)}}
		b, err := Bring(t.Context(), to, false, fr, req, refs...)
		if err != nil {
			t.Fatal(err)
		}
		if want := int64(2*len(one) + len(two) + len(one) + 2*len(three)); len(b.Roots) != 6 || b.Totals.Bytes != want || b.Totals.Files != 7 {
			t.Errorf("%d blobs, %+v", len(b.Roots), b.Totals)
		}
		if err := to.Pin(store.Pin{Name: "all", Roots: b.Roots}); err != nil {
			t.Error(err)
		}
		if n := b.Report.From["a"]; n < int64(len(two)) {
			t.Errorf("%d bytes came from a", n)
		}
		b.Close()
		if got := stored(t, to, piece.Sum(two)); !bytes.Equal(got, two) {
			t.Error("a file is another")
		}
		again, err := Bring(t.Context(), to, false, fr, req, refs...)
		if err != nil || again.Report.Bytes != 0 {
			t.Fatalf("a second time %+v, %v", again, err)
		}
		again.Close()
	})
}

func TestAFolderWithoutAllItsFilesIsNotBroughtAndWhatIsNoFolderNeither(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		one, two := noise(100, 1), noise(200, 2)
		out := inTree(t, one, two)
		from, _ := disk(t, one, out)
		defer Serve(s.net.Host("a"), Shelved(from), ServerConfig{}).Close()
		to, _ := disk(t)
		fr, req := Fetcher{Net: s.net.Host("me"), Self: "me"}, Request{Peers: func() []string { return []string{"a"} }}
		if _, err := Bring(t.Context(), to, false, fr, req, tree.Ref{Root: piece.Sum(out), Dir: true}); !errors.Is(err, ErrNobody) {
			t.Error(err)
		}
		if _, err := Bring(t.Context(), to, false, fr, req, tree.Ref{Root: piece.Sum(one), Dir: true}); !errors.Is(err, tree.ErrRefused) {
			t.Error(err)
		}
		if to.Usage().Leases["fetched"] != 0 {
			t.Errorf("%v is still leased", to.Usage().Leases)
		}
	})
}
