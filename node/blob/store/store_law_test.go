package store

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/blob/piece"

	"pgregory.net/rapid"
)

// sample is a blob the tests use.
type sample struct {
	data []byte
	blob piece.Blob
}

func (k sample) root() piece.Root { return k.blob.Root() }

func (k sample) piece(i int) []byte {
	off, n := piece.Span(k.blob.Size(), i)
	return k.data[off : off+int64(n)]
}

func sampleOf(data []byte) sample {
	h := piece.NewHasher()
	_, _ = h.Write(data)
	root, proof, size := h.Sum()
	blob, err := piece.Open(root, size, proof)
	if err != nil {
		panic(err)
	}
	return sample{data, blob}
}

func samples(sizes ...int) (out []sample) {
	r := rand.NewChaCha8([32]byte{1})
	for _, n := range sizes {
		data := make([]byte, n)
		_, _ = r.Read(data)
		out = append(out, sampleOf(data))
	}
	return out
}

const mib = piece.Size

// history is a store under test, and what must be true of it.
type history struct {
	*Store
	disk    *memDisk
	quota   int64
	clock   time.Time
	all     []sample
	fetches []*Fetch
	leases  []held
	pinned  map[string][]int     // by pin
	got     map[int]map[int]bool // pieces that were stored, of what is not whole
	rotten  map[int]bool         // somebody was at its file
	dirty   bool                 // the disk has failed: rubbish may stay until the next start
}

type held struct {
	of      int
	release func()
}

func (h *history) reopen(t *rapid.T) {
	s, err := open(h.disk, Config{Quota: h.quota, Now: func() time.Time { return h.clock }})
	if err != nil {
		t.Fatal(err)
	}
	h.Store, h.fetches, h.leases, h.dirty = s, nil, nil, false
}

func (h *history) draw(t *rapid.T) (int, sample) {
	k := rapid.IntRange(0, len(h.all)-1).Draw(t, "blob")
	return k, h.all[k]
}

// expect takes an error that may be: those of a disk that has failed or is full.
func (h *history) expect(t *rapid.T, err error, also ...error) {
	if err == nil || errors.Is(err, ErrNoRoom) {
		return
	}
	if errors.Is(err, errCut) || errors.Is(err, errDisk) || errors.Is(err, errUnready) {
		h.dirty = true
		return
	}
	for _, a := range also {
		if errors.Is(err, a) {
			return
		}
	}
	t.Fatal(err)
}

func (h *history) add(t *rapid.T) {
	k, b := h.draw(t)
	root, n, err := h.Add(context.Background(), iotest(t, b.data), rapid.Bool().Draw(t, "own"))
	h.expect(t, err)
	if err == nil {
		if root != b.root() || n != b.blob.Size() {
			t.Fatal(root, n)
		}
		h.isWhole(k)
	}
}

// iotest reads in parts.
func iotest(t *rapid.T, data []byte) io.Reader {
	at := min(len(data), rapid.SampledFrom([]int{0, 1, mib, 1 << 30}).Draw(t, "part"))
	return io.MultiReader(bytes.NewReader(data[:at]), bytes.NewReader(data[at:]))
}

func (h *history) isWhole(k int) {
	delete(h.rotten, k)
	delete(h.got, k)
}

func (h *history) batch(t *rapid.T) {
	b := h.Batch(rapid.Bool().Draw(t, "own"))
	var in []int
	for range rapid.IntRange(1, 3).Draw(t, "blobs") {
		k, x := h.draw(t)
		var err error
		if len(x.data) <= mib && rapid.Bool().Draw(t, "put") {
			if bad := b.Put(x.root(), append([]byte("x"), x.data...)); !errors.Is(bad, ErrPiece) {
				t.Fatal(bad)
			}
			err = b.Put(x.root(), x.data)
		} else {
			_, _, err = b.Add(context.Background(), bytes.NewReader(x.data), rapid.SampledFrom([]int64{-1, 0, int64(len(x.data))}).Draw(t, "expected"))
		}
		h.expect(t, err)
		if err == nil {
			in = append(in, k)
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "finish") > 0 {
		err := b.Done()
		h.expect(t, err)
		if err == nil {
			for _, k := range in {
				h.isWhole(k)
				if !h.Have(h.all[k].root()).Whole {
					t.Fatal("it is in the batch, and not whole")
				}
			}
			if rapid.Bool().Draw(t, "pin") {
				h.pinAll(t, in)
			}
		}
	}
	b.Close()
}

func (h *history) begin(t *rapid.T) {
	k, b := h.draw(t)
	want := b.blob
	if lie := rapid.IntRange(0, 9).Draw(t, "lie"); lie == 0 {
		if n := want.Size() - 1; n > 0 && piece.Entries(n) == piece.Entries(want.Size()) {
			want, _ = piece.Open(want.Root(), n, want.Proof())
		}
	}
	f, err := h.Begin(context.Background(), want, rapid.Bool().Draw(t, "own"))
	if want.Size() != b.blob.Size() {
		h.expect(t, err, ErrSize)
	} else {
		h.expect(t, err)
	}
	if err != nil {
		return
	}
	h.fetches = append(h.fetches, f)
	have := f.Pieces()
	for i := range h.got[k] {
		if !have.Has(i) && !h.rotten[k] {
			t.Fatalf("piece %d was stored, and is to be fetched again", i)
		}
	}
}

func (h *history) fetch(t *rapid.T) (*Fetch, int, sample) {
	if len(h.fetches) == 0 {
		t.Skip("nothing is fetched")
	}
	f := rapid.SampledFrom(h.fetches).Draw(t, "fetch")
	k := slices.IndexFunc(h.all, func(b sample) bool { return b.root() == f.blob.Root() })
	return f, k, h.all[k]
}

func (h *history) piece(t *rapid.T) {
	f, k, b := h.fetch(t)
	i := rapid.IntRange(0, b.blob.Pieces()-1).Draw(t, "piece")
	data := b.piece(i)
	if !f.Pieces().Has(i) && rapid.IntRange(0, 4).Draw(t, "wrong") == 0 {
		if err := f.Piece(i, append([]byte{1}, data...)); !errors.Is(err, ErrPiece) {
			t.Fatal(err)
		}
	}
	err := f.Piece(i, data)
	h.expect(t, err, ErrPiece) // where another has claimed another size
	if err == nil && !h.Have(b.root()).Whole {
		if h.got[k] == nil {
			h.got[k] = map[int]bool{}
		}
		h.got[k][i] = true
	}
}

func (h *history) done(t *rapid.T) {
	f, k, _ := h.fetch(t)
	for i := 0; rapid.Bool().Draw(t, "more") && i < h.all[k].blob.Pieces(); i++ {
		_ = f.Piece(i, h.all[k].piece(i))
	}
	err := f.Done()
	h.expect(t, err, ErrPieces, ErrAbsent)
	switch {
	case err == nil:
		delete(h.got, k) // and it is as rotten as it was: it is read when it is used
		if !h.Have(h.all[k].root()).Whole {
			t.Fatal("it is done, and not whole")
		}
		if rapid.Bool().Draw(t, "pin") {
			h.pinAll(t, []int{k})
		}
	case !errors.Is(err, ErrPieces):
		delete(h.got, k)
	}
}

func (h *history) closeFetch(t *rapid.T) {
	f, _, _ := h.fetch(t)
	h.fetches = slices.DeleteFunc(h.fetches, func(x *Fetch) bool { return x == f })
	f.Close()
	f.Close()
}

func (h *history) lease(t *rapid.T) {
	k, b := h.draw(t)
	whole := h.Have(b.root()).Whole
	release, err := h.Lease(b.root(), "test")
	if whole != (err == nil) {
		t.Fatal(whole, err)
	}
	if err == nil {
		h.leases = append(h.leases, held{k, release})
	}
}

func (h *history) release(t *rapid.T) {
	if len(h.leases) == 0 {
		t.Skip("no leases")
	}
	i := rapid.IntRange(0, len(h.leases)-1).Draw(t, "lease")
	h.leases[i].release()
	h.leases[i].release()
	h.leases = slices.Delete(h.leases, i, i+1)
}

func (h *history) pinAll(t *rapid.T, in []int) {
	p := Pin{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Why: "test"}
	if rapid.Bool().Draw(t, "until") {
		p.Until = h.clock.Add(time.Minute)
	}
	for _, k := range in {
		p.Roots = append(p.Roots, h.all[k].root())
	}
	err := h.Pin(p)
	h.expect(t, err, ErrAbsent)
	if err == nil {
		h.pinned[p.Name] = in
	} else if !errors.Is(err, ErrAbsent) {
		delete(h.pinned, p.Name) // the one before or this one
	}
}

func (h *history) pin(t *rapid.T) {
	k, b := h.draw(t)
	if h.Have(b.root()).Whole {
		h.pinAll(t, []int{k})
	}
}

func (h *history) unpin(t *rapid.T) {
	name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
	delete(h.pinned, name)
	h.expect(t, h.Unpin(name), ErrAbsent)
}

func (h *history) later(t *rapid.T) {
	h.clock = h.clock.Add(time.Hour)
	clear(h.pinned) // some of them
	h.Sweep()
}

func (h *history) read(t *rapid.T) {
	k, b := h.draw(t)
	is := h.Have(b.root())
	r, err := h.Reader(b.root())
	if errors.Is(err, ErrAbsent) && !is.Whole {
		return
	}
	if h.sawRot(t, k, err) {
		return
	}
	h.expect(t, err)
	if err != nil {
		return
	}
	defer r.Close()
	off := rapid.IntRange(0, len(b.data)).Draw(t, "off")
	n := rapid.SampledFrom([]int{0, 1, 5000, mib, 1 << 30}).Draw(t, "n")
	p := make([]byte, min(n, len(b.data)-off))
	got, err := r.ReadAt(p, int64(off))
	if !bytes.Equal(p[:got], b.data[off:off+got]) {
		t.Fatalf("wrong bytes of %d were read", k)
	}
	if h.sawRot(t, k, err) {
		return
	}
	if !is.Whole {
		h.expect(t, err, ErrAbsent, io.EOF)
		return
	}
	h.expect(t, err)
	if err == nil && got < len(p) {
		t.Fatal("no error, and too little")
	}
}

func (h *history) sawRot(t *rapid.T, k int, err error) bool {
	rot := (*Rot)(nil)
	if !errors.As(err, &rot) {
		return false
	}
	root := h.all[k].root()
	if !h.rotten[k] || rot.Root != root {
		t.Fatal(err)
	}
	if h.Have(root).Whole {
		t.Fatal("it is rotten, and called whole")
	}
	return true
}

func (h *history) rot(t *rapid.T) {
	k, b := h.draw(t)
	name := rapid.SampledFrom([]string{wholeName(b.root()), partName(b.root())}).Draw(t, "name")
	name += rapid.SampledFrom([]string{"", "", proofEnd, mapEnd}).Draw(t, "end")
	if h.disk.rot(name, rapid.IntRange(0, 4<<20).Draw(t, "at")) {
		h.rotten[k] = true
	}
}

func (h *history) something(t *rapid.T) {
	actions := []func(*rapid.T){h.add, h.batch, h.begin, h.unpin, h.later, h.read}
	if len(h.fetches) > 0 {
		actions = append(actions, h.piece, h.done, h.done, h.closeFetch)
	}
	rapid.SampledFrom(actions).Draw(t, "what")(t)
}

// crash ends the process in the middle of something.
func (h *history) crash(t *rapid.T) {
	h.disk.cut = h.disk.ops + rapid.IntRange(1, 12).Draw(t, "cut")
	h.something(t)
	power := rapid.Bool().Draw(t, "power")
	h.disk.crash(power, func() bool { return rapid.Bool().Draw(t, "old") })
	if power {
		clear(h.got) // only what is whole was promised
	}
	h.reopen(t)
}

// failure has one change of the disk fail in the middle of something.
func (h *history) failure(t *rapid.T) {
	h.disk.fail = h.disk.ops + rapid.IntRange(1, 12).Draw(t, "fail")
	h.something(t)
	if h.disk.ops >= h.disk.fail {
		h.dirty = true
	}
	h.disk.fail = 0
}

func (h *history) check(t *rapid.T) {
	h.mu.Lock()
	bytes, loose := h.shelf.bytes, h.shelf.loose
	var sum int64
	for _, b := range h.shelf.blobs {
		if sum += b.cost; !b.whole && b.part == nil && b.leases == 0 {
			t.Fatal("a blob is known of which nothing is here")
		}
	}
	h.mu.Unlock()
	if bytes != sum {
		t.Fatalf("%d bytes are reserved for nothing", bytes-sum)
	}
	if bytes > h.quota && loose > 0 && !h.dirty {
		t.Fatalf("%d bytes, quota %d, and %d may go", bytes, h.quota, loose)
	}
	if rest := h.disk.names(making); len(rest) > 0 && !h.dirty {
		t.Fatalf("rubbish: %v", rest)
	}
	var used int64
	for _, name := range h.disk.wholes() {
		f, _ := h.disk.find(name)
		used += blocks(int64(len(f.now)))
	}
	if used > bytes && !h.dirty && len(h.rotten) == 0 {
		t.Fatalf("blobs take %d bytes, and %d are known of", used, bytes)
	}
	for k, b := range h.all {
		h.checkBlob(t, k, b)
	}
	for name, in := range h.pinned {
		for _, k := range in {
			if !h.rotten[k] && !h.Have(h.all[k].root()).Whole {
				t.Fatalf("%d was kept and pinned by %s, and is gone", k, name)
			}
		}
	}
	for _, l := range h.leases {
		if !h.rotten[l.of] && !h.Have(h.all[l.of].root()).Whole {
			t.Fatalf("%d is leased, and gone", l.of)
		}
	}
}

func (h *history) checkBlob(t *rapid.T, k int, b sample) {
	is := h.Have(b.root())
	if is.Pieces == nil {
		delete(h.got, k)
		return
	}
	if h.rotten[k] {
		return
	}
	name := partName(b.root())
	if is.Whole {
		name = wholeName(b.root())
		if is.Size != b.blob.Size() || !is.Pieces.Full() {
			t.Fatalf("%d has %d bytes", k, is.Size)
		}
	}
	f, err := h.disk.find(name)
	if is.Whole && (err != nil || !bytes.Equal(f.now, b.data)) {
		t.Fatalf("%d is called whole, and is not (%v)", k, err)
	}
	if !is.Whole && is.Pieces.Full() {
		return // it is checked before it becomes whole
	}
}

// The laws of doc.go over any history: of additions, fetches, leases, pins, rot, processes that are
// killed, machines that lose their power, and changes of the disk that fail.
func TestWholeIsWholeAndKeptIsKeptOverAnyHistory(t *testing.T) {
	long.Cases(t, 15)
	all := samples(0, 10, 5000, mib, mib+1, 2*mib+7, 5*mib)
	rapid.Check(t, func(t *rapid.T) {
		h := &history{
			disk: newMemDisk(), all: all, clock: time.Unix(1e9, 0),
			quota:  rapid.SampledFrom([]int64{1 << 40, 7 << 20, 3 << 20, 0}).Draw(t, "quota"),
			pinned: map[string][]int{}, got: map[int]map[int]bool{}, rotten: map[int]bool{},
		}
		h.disk.size = rapid.SampledFrom([]int64{0, 0, 9 << 20}).Draw(t, "disk")
		h.reopen(t)
		t.Repeat(map[string]func(*rapid.T){
			"add": h.add, "batch": h.batch, "begin": h.begin, "piece": h.piece, "piece again": h.piece, "done": h.done,
			"close": h.closeFetch, "lease": h.lease, "release": h.release, "pin": h.pin, "unpin": h.unpin, "later": h.later, "read": h.read,
			"rot": h.rot, "crash": h.crash, "failure": h.failure, "": h.check,
		})
	})
}

// What an addition has left that was killed, wherever it was, is on the disk once it is pinned.
func TestAPinIsNotAheadOfTheNamesItPins(t *testing.T) {
	b, seen := samples(mib + 1)[0], false
	for cut := 1; ; cut++ {
		d := newMemDisk()
		cfg := Config{Quota: 1 << 40}
		s, err := open(d, cfg)
		if err != nil {
			t.Fatal(err)
		}
		d.cut = d.ops + cut
		_, _, done := s.Add(t.Context(), bytes.NewReader(b.data), false)
		d.crash(false, nil)
		if s, err = open(d, cfg); err != nil {
			t.Fatal(err)
		}
		if s.Have(b.root()).Whole {
			seen = seen || done != nil
			if err := s.Pin(Pin{Name: "p", Roots: []piece.Root{b.root()}}); err != nil {
				t.Fatal(err)
			}
			d.crash(true, func() bool { return true })
			if s, err = open(d, cfg); err != nil {
				t.Fatal(err)
			}
			if !s.Have(b.root()).Whole || len(s.Pins()) != 1 {
				t.Fatalf("after %d changes it was pinned, and is gone", cut)
			}
		}
		if done == nil {
			break
		}
	}
	if !seen {
		t.Fatal("no addition was killed between its name and its end")
	}
}

// Wherever a fetch is killed while it ends, the next one has all pieces and ends.
func TestAFetchThatIsKilledAtItsEndHasNothingToFetchAgain(t *testing.T) {
	b := samples(mib + 1)[0]
	for cut := 1; ; cut++ {
		d := newMemDisk()
		s, err := open(d, Config{Quota: 1 << 40})
		if err != nil {
			t.Fatal(err)
		}
		f := fetch(t, s, b, 0, 1)
		d.cut = d.ops + cut
		done := f.Done()
		d.crash(false, nil)
		if s, err = open(d, Config{Quota: 1 << 40}); err != nil {
			t.Fatal(err)
		}
		f = fetch(t, s, b)
		if !f.Pieces().Full() {
			t.Fatalf("after %d changes pieces are missing", cut)
		}
		if err := f.Done(); err != nil {
			t.Fatalf("after %d changes: %v", cut, err)
		}
		f.Close()
		if err := reads(t, s, b); err != nil {
			t.Fatal(err)
		}
		if done == nil {
			break
		}
	}
}
