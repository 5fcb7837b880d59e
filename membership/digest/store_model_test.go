package digest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/coveyproject/covey/membership/digest"

	"pgregory.net/rapid"
)

// plainStore is a Store written for the reader: every number is looked at one by one, and nothing
// is ever dropped for lack of room.
type plainStore map[digest.Stream]*plainStream

type plainStream struct {
	floor, contiguous, top uint64
	held                   map[uint64]digest.Envelope
}

func (s plainStore) of(k digest.Stream) *plainStream {
	if s[k] == nil {
		s[k] = &plainStream{held: map[uint64]digest.Envelope{}}
	}
	return s[k]
}

func (s plainStore) add(e digest.Envelope) bool {
	st := s.of(digest.Stream{Author: e.Author, Incarnation: e.Incarnation})
	st.top = max(st.top, e.Number)
	if _, have := st.held[e.Number]; have || e.Number <= st.contiguous {
		return false
	}
	st.held[e.Number] = e
	st.settle()
	return true
}

// settle moves the mark over what is there, and forgets what is settled, but for the newest.
func (st *plainStream) settle() {
	st.contiguous = max(st.contiguous, st.floor)
	for st.held[st.contiguous+1].Number != 0 {
		st.contiguous++
	}
	newest := slices.Max(append(slices.Collect(maps.Keys(st.held)), 0))
	for n := range st.held {
		if n <= st.floor && n < newest {
			delete(st.held, n)
		}
	}
}

func (s plainStore) retire(k digest.Stream, upTo uint64) {
	st := s.of(k)
	st.floor = max(st.floor, upTo)
	st.settle()
}

// believe: an author's own word counts, of others only as far as signatures bear it out.
func (s plainStore) believe(from string, m digest.Mark) {
	switch {
	case m.Floor == 0:
	case m.Stream.Author == from:
		s.retire(m.Stream, m.Floor)
	case s[m.Stream] != nil:
		s.retire(m.Stream, min(m.Floor, s[m.Stream].top))
	}
}

// wants are the numbers between both marks that are not here, one by one.
func (s plainStore) wants(m digest.Mark) (out []uint64) {
	st := s[m.Stream]
	if st == nil {
		st = &plainStream{}
	}
	for n := max(st.contiguous, m.Floor) + 1; n <= m.Top; n++ {
		if st.held[n].Number == 0 {
			out = append(out, n)
		}
	}
	return out
}

func (s plainStore) marks() (out []digest.Mark) {
	for k, st := range s {
		out = append(out, digest.Mark{Stream: k, Floor: st.floor, Contiguous: st.contiguous, Top: max(st.top, st.contiguous)})
	}
	slices.SortFunc(out, func(a, b digest.Mark) int {
		return slices.Compare([]string{a.Stream.Author, a.Stream.Incarnation}, []string{b.Stream.Author, b.Stream.Incarnation})
	})
	return out
}

// one by one what ranges mean.
func numbers(ranges []digest.Range) (out []uint64) {
	for _, r := range ranges {
		for n := r.From; n <= r.To; n++ {
			out = append(out, n)
		}
	}
	return out
}

const highest = 20 // number in these histories

func TestAStoreDoesWhatItsPlainTwinDoes(t *testing.T) {
	anyStream := rapid.Custom(func(t *rapid.T) digest.Stream {
		return digest.Stream{Author: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "author"), Incarnation: rapid.SampledFrom([]string{"", "i"}).Draw(t, "incarnation")}
	})
	anyNumber := rapid.Uint64Range(1, highest)
	rapid.Check(t, func(r *rapid.T) {
		real, plain := digest.NewStore(0), plainStore{}
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			k := anyStream.Draw(r, "stream")
			switch rapid.SampledFrom([]string{"add", "add", "add", "add", "retire", "believe", "forget"}).Draw(r, "step") {
			case "add":
				e := sized(k.Author, k.Incarnation, anyNumber.Draw(r, "number"), 3)
				if got, want := real.Add(e), plain.add(e); got != want {
					r.Fatalf("%d of %v is fresh: %t, want %t", e.Number, k, got, want)
				}
			case "retire":
				n := rapid.Uint64Range(0, highest).Draw(r, "up to")
				real.Retire(k.Author, k.Incarnation, n)
				plain.retire(k, n)
			case "believe":
				m := digest.Mark{Stream: k, Floor: rapid.Uint64Range(0, highest).Draw(r, "floor"), Top: highest}
				from := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(r, "from")
				real.Believe(from, []digest.Mark{m})
				plain.believe(from, m)
			case "forget":
				real.Forget(k.Author)
				for o := range plain {
					if o.Author == k.Author {
						delete(plain, o)
					}
				}
			}
			compareStores(r, real, plain, anyStream.Draw(r, "looked at"))
		}
	})
}

// compareStores asks both everything there is to ask.
func compareStores(r *rapid.T, real *digest.Store, plain plainStore, k digest.Stream) {
	if got, want := real.Marks(), plain.marks(); !slices.Equal(got, want) {
		r.Fatalf("marks %+v, want %+v", got, want)
	}
	held, bytes := 0, 0
	for _, st := range plain {
		for _, e := range st.held {
			held, bytes = held+1, bytes+len(e.Body)+len(e.Sig)+160
		}
	}
	if b, n := real.Size(); b != bytes || n != held {
		r.Fatalf("%d envelopes of %d bytes, want %d of %d", n, b, held, bytes)
	}
	st := plain[k]
	if st == nil {
		st = &plainStream{}
	}
	var all []digest.Envelope
	for n := range uint64(highest + 2) {
		got, ok := real.Held(k.Author, k.Incarnation, n)
		want, have := st.held[n]
		if ok != have || fmt.Sprint(got) != fmt.Sprint(want) {
			r.Fatalf("number %d of %v is held: %t, want %t", n, k, ok, have)
		}
		if have {
			all = append(all, want)
		}
	}
	m := digest.Mark{Stream: k, Floor: rapid.Uint64Range(0, highest).Draw(r, "their floor"), Top: rapid.Uint64Range(0, highest+5).Draw(r, "their top")}
	m.Floor = min(m.Floor, m.Top)
	if got, want := numbers(real.Wants([]digest.Mark{m})), plain.wants(m); !slices.Equal(got, want) {
		r.Fatalf("of %+v it wants %v, want %v", m, got, want)
	}
	got, more := real.Missing([]digest.Range{{Stream: k, From: 1, To: highest}}, 1<<20)
	if more || fmt.Sprint(got) != fmt.Sprint(all) {
		r.Fatalf("it gives %v (more: %t), want %v", got, more, all)
	}
}

func TestWhatLiesBelowAllThatIsHeldIsAskedOfWhoHasNothingAbove(t *testing.T) {
	a, b := digest.NewStore(0), digest.NewStore(0)
	a.Add(batch("x", 2))
	b.Add(batch("x", 1))
	atA, atB := level(a, b, "a", "b")
	if len(atA) != 1 || len(atB) != 1 || a.Mark("x", "i") != b.Mark("x", "i") || a.Mark("x", "i").Contiguous != 2 {
		t.Errorf("one exchange brought %d and %d: %+v and %+v", len(atA), len(atB), a.Mark("x", "i"), b.Mark("x", "i"))
	}
}

// Whatever the budget, asking again for what did not fit brings everything, in order and once.
func TestABudgetOnlyCutsAnAnswerIntoPieces(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := digest.NewStore(0)
		var want []uint64
		for _, n := range rapid.SliceOfNDistinct(rapid.Uint64Range(1, 40), 1, 20, rapid.ID).Draw(r, "numbers") {
			s.Add(sized("a", "i", n, rapid.IntRange(0, 2000).Draw(r, "bytes")))
			want = append(want, n)
		}
		slices.Sort(want)
		budget, from := rapid.IntRange(0, 4000).Draw(r, "budget"), uint64(1)
		var got []uint64
		for more := true; more; {
			var part []digest.Envelope
			part, more = s.Missing([]digest.Range{{Stream: digest.Stream{Author: "a", Incarnation: "i"}, From: from, To: 100}}, budget)
			if len(part) == 0 {
				r.Fatal("an answer with nothing in it, and more to come")
			}
			size := 0
			for _, e := range part {
				got, from, size = append(got, e.Number), e.Number+1, size+len(e.Body)
			}
			if len(part) > 1 && size > budget {
				r.Fatalf("%d bytes with a budget of %d", size, budget)
			}
		}
		if !slices.Equal(got, want) {
			r.Fatalf("it gave %v, want %v", got, want)
		}
	})
}

func TestWhatNoAuthorCanSealIsNotSealed(t *testing.T) {
	sign := func([]byte) ([]byte, error) { return []byte("sig"), nil }
	long := string(make([]byte, 129))
	for what, seal := range map[string]func() (digest.Envelope, error){
		"no author":          func() (digest.Envelope, error) { return digest.Seal("", "i", 1, nil, sign) },
		"a long author":      func() (digest.Envelope, error) { return digest.Seal(long, "i", 1, nil, sign) },
		"a long incarnation": func() (digest.Envelope, error) { return digest.Seal("a", long, 1, nil, sign) },
		"number 0":           func() (digest.Envelope, error) { return digest.Seal("a", "i", 0, nil, sign) },
		"a number too high":  func() (digest.Envelope, error) { return digest.Seal("a", "i", 1<<62+1, nil, sign) },
		"a large body":       func() (digest.Envelope, error) { return digest.Seal("a", "i", 1, zeroes(digest.MaxBody+1), sign) },
		"a large signature": func() (digest.Envelope, error) {
			return digest.Seal("a", "i", 1, nil, func([]byte) ([]byte, error) { return zeroes(513), nil })
		},
		"no signature": func() (digest.Envelope, error) {
			return digest.Seal("a", "i", 1, nil, func([]byte) ([]byte, error) { return nil, fmt.Errorf("the key is gone") })
		},
	} {
		e, err := seal()
		if err == nil {
			t.Errorf("%s: it is sealed", what)
			continue
		}
		if _, err := e.Encode(); err == nil {
			t.Errorf("%s: what is no envelope has an encoding", what)
		}
		if digest.NewStore(0).Add(e) {
			t.Errorf("%s: what is no envelope is kept", what)
		}
	}
	for what, e := range map[string]digest.Envelope{
		"the longest names": {Author: long[1:], Incarnation: long[1:], Number: 1},
		"the last number":   {Author: "a", Number: 1 << 62},
		"the largest body":  {Author: "a", Number: 1, Body: zeroes(digest.MaxBody)},
	} {
		b, err := e.Encode()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if back, err := digest.Decode(b); err != nil || back.Number != e.Number || len(back.Body) != len(e.Body) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// zeroes is so many bytes.
func zeroes(n int) []byte { return make([]byte, n) }
