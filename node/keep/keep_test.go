package keep_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// peer is one that keeps files, and gives them to others.
type peer struct {
	name  string
	host  *memnet.Host
	store *store.Store
	dir   string
}

type scene struct {
	t   *testing.T
	net *memnet.Network
}

// play runs a test in virtual time.
func play(t *testing.T, f func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t, memnet.New()}
		t.Cleanup(func() { _ = s.net.Close() })
		f(t, s)
	})
}

func (s *scene) peer(name string, quota int64, change ...func(*keep.ServerConfig)) *peer {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "blobs")
	st, err := store.Open(dir, store.Config{Quota: quota, Leave: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &peer{name, s.net.Host(name), st, dir}
	cfg := keep.ServerConfig{Self: name, Net: p.host, Store: st, Stores: quota > 0}
	for _, f := range change {
		f(&cfg)
	}
	files, keeps := blob.Serve(p.host, blob.Shelved(st), blob.ServerConfig{}), keep.Serve(p.host, cfg)
	s.t.Cleanup(func() { keeps.Close(); files.Close() })
	return p
}

// left is what a task left at this peer: files with these contents.
func (p *peer) left(t *testing.T, slot int, contents ...string) keep.Request {
	t.Helper()
	b := p.store.Batch(true)
	defer b.Close()
	var list bytes.Buffer
	w := tree.NewWriter(&list)
	var roots []piece.Root
	add := func(content []byte) piece.Root {
		root, _, err := b.Add(t.Context(), bytes.NewReader(content), -1)
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, root)
		return root
	}
	for i, c := range contents {
		if err := w.Add(tree.Entry{Path: fmt.Sprintf("f%03d", i), Kind: tree.File, Size: int64(len(c)), Root: add([]byte(c))}); err != nil {
			t.Fatal(err)
		}
	}
	totals, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	r := keep.Request{Task: taskstate.Task("k3v5q7x2ab", slot, 1), Holders: []taskstate.PeerID{p.name}}
	r.Saved = taskstate.Saved{Root: add(list.Bytes()), Bytes: totals.Bytes, Files: totals.Files}
	if err := b.Done(); err != nil {
		t.Fatal(err)
	}
	if err := p.store.Pin(store.Pin{Name: keep.PinName(r.Task), Roots: roots}); err != nil {
		t.Fatal(err)
	}
	return r
}

// holds tells whether a peer has everything of a request, pinned.
func (p *peer) holds(t *testing.T, r keep.Request) bool {
	t.Helper()
	pin, ok := p.store.PinNamed(keep.PinName(r.Task))
	if !ok {
		return false
	}
	roots, err := keep.Roots(p.store, r.Saved.Root, r.Saved.Logs)
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range roots {
		if !p.store.Have(root).Whole {
			return false
		}
	}
	return len(pin.Roots) > 0
}

func noise(n int, seed byte) string {
	b := make([]byte, n)
	x := uint64(seed) + 1
	for i := range b {
		x = x*6364136223846793005 + 1442695040888963407
		b[i] = byte(x >> 56)
	}
	return string(b)
}

func code(t *testing.T, err error) string {
	t.Helper()
	var no *keep.Refused
	if !errors.As(err, &no) {
		t.Fatalf("want a refusal, not %v", err)
	}
	return no.Code
}

func TestAPeerSaysThatItKeepsWhatItHasOnItsDisk(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker, keeper := s.peer("maker", 1<<30), s.peer("keeper", 1<<30)
		r := maker.left(t, 1, "one", noise(3*piece.Size+7, 1), "", "one")
		var moved int64
		if err := keep.Ask(t.Context(), maker.host, "keeper", r, func(n int64) { moved = n }); err != nil {
			t.Fatal(err)
		}
		if !keeper.holds(t, r) || moved > 4<<20 {
			t.Errorf("it does not have all of it; %d bytes came, it says", moved)
		}
		pin, _ := keeper.store.PinNamed(keep.PinName(r.Task))
		if left := time.Until(pin.Until); left < 59*time.Minute || left > time.Hour {
			t.Errorf("pinned for %v", left)
		}
		// Asked again, it answers from what it has; and what was to stay longer does.
		pin.Until = time.Time{}
		if err := keeper.store.Pin(pin); err != nil {
			t.Fatal(err)
		}
		s.net.Kill("maker")
		other := s.net.Host("other")
		if err := keep.Ask(t.Context(), other, "keeper", r, nil); err != nil {
			t.Fatal(err)
		}
		if pin, _ = keeper.store.PinNamed(keep.PinName(r.Task)); !pin.Until.IsZero() {
			t.Error("what was promised for ever ends")
		}
	})
}

// rot turns a bit of a file of a peer's store.
func (p *peer) rot(t *testing.T, content string) {
	t.Helper()
	hex := strings.TrimPrefix(piece.Sum([]byte(content)).String(), "b3:")
	name := filepath.Join(p.dir, hex[:2], hex)
	b, err := os.ReadFile(name)
	if err == nil {
		b[len(b)/2] ^= 1
		err = errors.Join(os.Chmod(name, 0o600), os.WriteFile(name, b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAPeerReadsItsCopyBeforeAnotherLetsGoOfItsOwn(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker, keeper := s.peer("maker", 1<<30), s.peer("keeper", 1<<30)
		large := noise(2*piece.Size+7, 1)
		r := maker.left(t, 1, "one", large)
		if err := keep.Ask(t.Context(), maker.host, "keeper", r, nil); err != nil {
			t.Fatal(err)
		}
		r.Read = true
		for name, content := range map[string]string{"a small file": "one", "a large one": large} {
			keeper.rot(t, content)
			if err := keep.Ask(t.Context(), maker.host, "keeper", r, nil); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			f, err := keeper.store.Reader(piece.Sum([]byte(content)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
			f.Close()
			if err != nil || string(got) != content || !keeper.holds(t, r) {
				t.Errorf("%s has rotted, and the keeper says that it has it: %v", name, err)
			}
		}
		keeper.rot(t, large)
		s.net.Kill("maker")
		if err := keep.Ask(t.Context(), s.net.Host("other"), "keeper", r, nil); err == nil {
			t.Error("it says that it keeps what has rotted and nobody else has")
		}
	})
}

// Case 14: a peer that has no room says so.
func TestAPeerSaysWhyItKeepsNothing(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker := s.peer("maker", 1<<30)
		s.peer("none", 0)
		s.peer("small", 64<<10)
		gone := s.peer("gone", 1<<30)
		r := maker.left(t, 1, noise(1<<20, 1))
		if err := keep.Ask(t.Context(), maker.host, "none", r, nil); code(t, err) != keep.CodeNone {
			t.Error(err)
		}
		if err := keep.Ask(t.Context(), maker.host, "small", r, nil); code(t, err) != keep.CodeFull || !strings.Contains(err.Error(), "needed") {
			t.Error(err)
		}
		lie := r
		lie.Saved.Bytes--
		if err := keep.Ask(t.Context(), maker.host, "gone", lie, nil); code(t, err) != keep.CodeFailed {
			t.Error(err)
		}
		if st := gone.store.Usage(); st.Whole > 1 {
			t.Errorf("%d blobs were fetched for a lie", st.Whole)
		}
		missing := r
		missing.Saved.Root[0] ^= 1
		if err := keep.Ask(t.Context(), maker.host, "gone", missing, nil); code(t, err) != keep.CodeFailed {
			t.Error(err)
		}
		s.net.Kill("gone")
		if err := keep.Ask(t.Context(), maker.host, "gone", r, nil); err == nil {
			t.Error("a dead peer keeps it")
		}
	})
}

// Case 31: whoever is not a member has nothing kept, and is not even answered.
func TestAPeerAnswersMembersOnly(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker := s.peer("maker", 1<<30)
		keeper := s.peer("keeper", 1<<30, func(c *keep.ServerConfig) { c.Admitted = func(p string) bool { return p != "maker" } })
		r := maker.left(t, 1, "secret")
		err := keep.Ask(t.Context(), maker.host, "keeper", r, nil)
		var no *keep.Refused
		if err == nil || errors.As(err, &no) {
			t.Errorf("a stranger is told %v", err)
		}
		if keeper.store.Have(r.Saved.Root).Pieces != nil {
			t.Error("something was fetched for a stranger")
		}
	})
}

func TestManySmallRequestsAreKeptTogetherAndOneThatFailsByItself(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker, keeper := s.peer("maker", 1<<30), s.peer("keeper", 1<<30)
		s.net.Delay(20 * time.Millisecond)
		const n = 60
		var all []keep.Request
		for slot := 1; slot <= n; slot++ {
			all = append(all, maker.left(t, slot, fmt.Sprintf("of %d", slot), "all"))
		}
		all[n/2].Saved.Files++ // a lie
		errs := make(chan error, n)
		began := time.Now()
		for i, r := range all {
			go func() {
				err := keep.Ask(t.Context(), maker.host, "keeper", r, nil)
				if i == n/2 == (err == nil) {
					errs <- fmt.Errorf("request %d: %v", i, err)
				} else {
					errs <- nil
				}
			}()
		}
		for range n {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 20*time.Second { // 60 × 8 ways of 40 ms, one after the other
			t.Errorf("it took %v", took)
		}
		for i, r := range all {
			if i != n/2 && !keeper.holds(t, r) {
				t.Errorf("of request %d something is missing", i)
			}
		}
	})
}

func TestNobodyThatStallsHoldsUpACopy(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker, last := s.peer("maker", 1<<30), s.peer("last", 1<<30)
		s.net.Host("silent").Handle(keep.Protocol, func(_ string, c net.Conn) { _, _ = c.Read(make([]byte, 1)); time.Sleep(time.Hour); c.Close() })
		s.net.Host("liar").Handle(keep.Protocol, func(_ string, c net.Conn) { _, _ = c.Write([]byte{0, 0, 0, 1, 0xff}); c.Close() })
		r := maker.left(t, 1, "one")
		began := time.Now()
		kept, no := keep.Finder{Net: maker.host}.Copies(t.Context(), r, 1, []string{"silent", "liar", "last"})
		if len(kept) != 1 || kept[0] != "last" || len(no) != 2 || !last.holds(t, r) {
			t.Errorf("kept by %v, not by %v", kept, no)
		}
		if took := time.Since(began); took < keep.Stall || took > keep.Stall+10*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestASearchThatIsBrokenOffLeavesNothingBehind(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		maker, keeper := s.peer("maker", 1<<30), s.peer("keeper", 1<<30)
		r := maker.left(t, 1, noise(4<<20, 1))
		s.net.Delay(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if kept, _ := (keep.Finder{Net: maker.host}).Copies(ctx, r, 1, []string{"keeper"}); len(kept) > 0 {
			t.Fatalf("kept by %v", kept)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if u := keeper.store.Usage(); len(u.Leases) > 0 || keeper.holds(t, r) {
			t.Errorf("it goes on: %v", u.Leases)
		}
	})
}
