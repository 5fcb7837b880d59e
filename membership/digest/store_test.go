package digest_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/p2p/memnet"

	"pgregory.net/rapid"
)

// batch is envelope number n of an author, sealed.
func batch(author string, n uint64) digest.Envelope { return sized(author, "i", n, int(n%7)) }

func sized(author, inc string, n uint64, size int) digest.Envelope {
	body := append([]byte(fmt.Sprintf("%s/%s/%d", author, inc, n)), make([]byte, size)...)
	e, err := digest.Seal(author, inc, n, body, memnet.New().Host(author).Sign)
	if err != nil {
		panic(err)
	}
	return e
}

// level is one exchange without a network: both sides compare marks and pull. It returns what was
// fresh at a and at b.
func level(a, b *digest.Store, nameA, nameB string) (atA, atB []digest.Envelope) {
	pull := func(to, from *digest.Store, name string, theirs []digest.Mark) (news []digest.Envelope) {
		to.Believe(name, theirs)
		got, _ := from.Missing(to.Wants(theirs), 1<<30)
		for _, e := range got {
			if to.Add(e) {
				news = append(news, e)
			}
		}
		to.Believe(name, theirs)
		return news
	}
	ma, mb := a.Marks(), b.Marks()
	return pull(a, b, nameB, mb), pull(b, a, nameA, ma)
}

func TestTheMarkStaysBelowTheFirstHole(t *testing.T) {
	s := digest.NewStore(0)
	for _, n := range []uint64{1, 2, 4, 5, 7} {
		if !s.Add(batch("a", n)) {
			t.Fatalf("%d is not fresh", n)
		}
	}
	if m := s.Mark("a", "i"); m.Contiguous != 2 || m.Top != 7 {
		t.Fatalf("mark %+v, want 2 of 7", m)
	}
	s.Add(batch("a", 3))
	if m := s.Mark("a", "i"); m.Contiguous != 5 {
		t.Fatalf("mark %+v, want 5", m)
	}
	if s.Add(batch("a", 3)) || s.Add(batch("a", 7)) {
		t.Error("a repetition is fresh")
	}
}

func TestWhatIsRetiredGoesAndTheMarkStays(t *testing.T) {
	s := digest.NewStore(0)
	for n := range uint64(6) {
		s.Add(batch("a", n+1))
	}
	s.Retire("a", "i", 4)
	if _, n := s.Size(); n != 2 {
		t.Errorf("%d envelopes are held, want 2", n)
	}
	if m := s.Mark("a", "i"); m.Contiguous != 6 || m.Floor != 4 {
		t.Errorf("mark %+v", m)
	}
	if s.Add(batch("a", 2)) {
		t.Error("what is settled is fresh again")
	}
	s.Retire("a", "i", 10)
	if m := s.Mark("a", "i"); m.Contiguous != 10 {
		t.Errorf("retiring beyond the mark left it at %+v", m)
	}
}

func TestAWantNamesOnlyTheHoles(t *testing.T) {
	s := digest.NewStore(0)
	for _, n := range []uint64{1, 2, 4, 5, 7} {
		s.Add(batch("a", n))
	}
	stream := digest.Stream{Author: "a", Incarnation: "i"}
	got := s.Wants([]digest.Mark{{Stream: stream, Contiguous: 9, Top: 9}})
	want := []digest.Range{{Stream: stream, From: 3, To: 3}, {Stream: stream, From: 6, To: 6}, {Stream: stream, From: 8, To: 9}}
	if !slices.Equal(got, want) {
		t.Errorf("wants %v, want %v", got, want)
	}
	if got := s.Wants([]digest.Mark{{Stream: stream, Floor: 3, Contiguous: 5, Top: 5}}); len(got) != 0 {
		t.Errorf("wants %v from a peer that has nothing new", got)
	}
}

func TestALyingFloorHidesNothingThatComesLater(t *testing.T) {
	s := digest.NewStore(0)
	s.Add(batch("a", 1))
	s.Add(batch("a", 5))
	stream := digest.Stream{Author: "a", Incarnation: "i"}
	s.Believe("liar", []digest.Mark{{Stream: stream, Floor: 1 << 40, Contiguous: 1 << 40, Top: 1 << 40}})
	if m := s.Mark("a", "i"); m.Contiguous != 5 {
		t.Fatalf("mark %+v after a lie, want 5: as far as the author's signature was seen", m)
	}
	if !s.Add(batch("a", 6)) {
		t.Error("the next batch is not fresh")
	}
	s.Believe("a", []digest.Mark{{Stream: stream, Floor: 20}})
	if m := s.Mark("a", "i"); m.Contiguous != 20 {
		t.Errorf("the author's own floor is not believed: %+v", m)
	}
}

func TestAFullStoreDropsTheOldestOfTheLargestAuthor(t *testing.T) {
	s := digest.NewStore(20_000)
	s.Add(sized("small", "i", 1, 1000))
	for n := range uint64(50) {
		s.Add(sized("large", "i", n+1, 1000))
	}
	if bytes, _ := s.Size(); bytes > 20_000 {
		t.Errorf("%d bytes are held", bytes)
	}
	if m := s.Mark("large", "i"); m.Contiguous != 50 {
		t.Errorf("what was merged is no hole: %+v", m)
	}
	small := digest.Range{Stream: digest.Stream{Author: "small", Incarnation: "i"}, From: 1, To: 1}
	if got, _ := s.Missing([]digest.Range{small}, 1<<20); len(got) != 1 {
		t.Error("the small author paid for the large one")
	}
}

func TestAParkedEnvelopeThatIsDroppedIsAHoleAgain(t *testing.T) {
	s := digest.NewStore(5_000)
	for n := range uint64(20) {
		s.Add(sized("a", "i", n+2, 1000)) // 1 never came
	}
	m := s.Mark("a", "i")
	wants := s.Wants([]digest.Mark{{Stream: m.Stream, Contiguous: 21, Top: 21}})
	if m.Contiguous != 0 || len(wants) != 1 || wants[0].From != 1 || wants[0].To < 10 {
		t.Errorf("mark %+v, wants %v", m, wants)
	}
}

func TestIncarnationsPerAuthorAreBounded(t *testing.T) {
	s := digest.NewStore(0)
	s.Add(batch("b", 1))
	for i := range 100 {
		s.Add(sized("a", fmt.Sprint(i), 1, 10))
	}
	marks := s.Marks()
	if len(marks) > 9 {
		t.Errorf("%d streams are kept", len(marks))
	}
	if s.Mark("b", "i").Contiguous != 1 || s.Mark("a", "99").Contiguous != 1 {
		t.Error("the wrong ones went")
	}
	s.Forget("a")
	if len(s.Marks()) != 1 {
		t.Error("a forgotten author is still there")
	}
}

// TestAnyDeliveryConvergesAfterExchanges: whatever order, loss, repetition and retirement, once
// each peer has exchanged around the ring and back all have everything that was not settled, given
// to them exactly once, and their marks say so. (Of an author of whom everything is settled a peer
// may never have seen a signature; its mark may then stay where it is.)
func TestAnyDeliveryConvergesAfterExchanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peers := rapid.IntRange(2, 4).Draw(t, "peers")
		var all []digest.Envelope
		authors := []string{"a", "b"}
		last := map[string]uint64{}
		for _, author := range authors {
			last[author] = uint64(rapid.IntRange(1, 12).Draw(t, "batches of "+author))
			for n := range last[author] {
				all = append(all, batch(author, n+1))
			}
		}
		stores := make([]*digest.Store, peers)
		seen := make([]map[string]int, peers)
		for i := range stores {
			stores[i], seen[i] = digest.NewStore(0), map[string]int{}
			heard := rapid.SliceOfN(rapid.SampledFrom(all), 0, 2*len(all)).Draw(t, fmt.Sprint("heard by ", i))
			if i == 0 { // every batch is somewhere: its author has it
				heard = append(heard, all...)
			}
			for _, e := range heard {
				if stores[i].Add(e) {
					seen[i][string(e.Body)]++
				}
			}
		}
		settled := map[string]uint64{}
		if rapid.Bool().Draw(t, "some are settled") {
			for _, author := range authors {
				n := last[author]
				settled[author] = uint64(rapid.IntRange(0, int(n)).Draw(t, "settled of "+author))
				stores[rapid.IntRange(0, peers-1).Draw(t, "who knows")].Retire(author, "i", settled[author])
			}
		}
		for range 2 {
			for i := range stores {
				j := (i + 1) % peers
				atI, atJ := level(stores[i], stores[j], fmt.Sprint("p", i), fmt.Sprint("p", j))
				for _, e := range atI {
					seen[i][string(e.Body)]++
				}
				for _, e := range atJ {
					seen[j][string(e.Body)]++
				}
			}
		}
		for i, s := range stores {
			for author, n := range last {
				if m := s.Mark(author, "i"); m.Contiguous != n && settled[author] < n {
					t.Fatalf("p%d has %s up to %d of %d", i, author, m.Contiguous, n)
				}
			}
			for _, e := range all {
				if c := seen[i][string(e.Body)]; c > 1 || c == 0 && e.Number > settled[e.Author] {
					t.Fatalf("p%d was given %s %d times", i, e.Body, c)
				}
			}
		}
	})
}

// TestMarksNeverPassAHole compares the store with a dumb one that keeps a set of numbers.
func TestMarksNeverPassAHole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := digest.NewStore(3_000)
		known := map[uint64]bool{}
		var mark uint64
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := uint64(rapid.IntRange(1, 30).Draw(t, "number"))
				fresh := s.Add(sized("a", "i", n, 100))
				if fresh && n <= mark {
					t.Fatalf("%d is fresh below the mark %d", n, mark)
				}
				known[n] = true
			},
			"retire": func(t *rapid.T) {
				n := uint64(rapid.IntRange(1, 30).Draw(t, "up to"))
				s.Retire("a", "i", n)
				for i := range n {
					known[i+1] = true
				}
			},
			"": func(t *rapid.T) {
				m := s.Mark("a", "i")
				if m.Contiguous < mark {
					t.Fatalf("the mark went back from %d to %d", mark, m.Contiguous)
				}
				mark = m.Contiguous
				for n := range mark {
					if !known[n+1] {
						t.Fatalf("the mark %d passed the hole %d; known %v", mark, n+1, slices.Sorted(maps.Keys(known)))
					}
				}
				if bytes, n := s.Size(); bytes > 3_000 || bytes < 0 || n < 0 {
					t.Fatalf("%d bytes in %d envelopes", bytes, n)
				}
			},
		})
	})
}

func TestAnEnvelopeComesBackAsItWas(t *testing.T) {
	e := batch("a", 3)
	b, err := e.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := digest.Decode(b)
	if err != nil || string(got.Body) != string(e.Body) || got.Number != 3 || got.Verify(memnet.Verify) != nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	for i, forge := range []func(*digest.Envelope){
		func(e *digest.Envelope) { e.Author = "b" },
		func(e *digest.Envelope) { e.Incarnation = "j" },
		func(e *digest.Envelope) { e.Number++ },
		func(e *digest.Envelope) { e.Body = []byte("other") },
	} {
		f := e
		forge(&f)
		if f.Verify(memnet.Verify) == nil {
			t.Errorf("forgery %d passes", i)
		}
	}
}

func TestWhatIsNoEnvelopeIsRefused(t *testing.T) {
	if _, err := digest.Seal("a", "i", 0, nil, memnet.New().Host("a").Sign); err == nil {
		t.Error("number 0 is sealed")
	}
	if _, err := digest.Seal("a", "i", 1, make([]byte, digest.MaxBody+1), memnet.New().Host("a").Sign); err == nil {
		t.Error("a body above the cap is sealed")
	}
	for _, b := range [][]byte{nil, {0x80}, []byte("text"), make([]byte, 1<<20)} {
		if _, err := digest.Decode(b); err == nil {
			t.Errorf("%d bytes of nonsense are an envelope", len(b))
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, _ := batch("a", 1).Encode()
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := digest.Decode(b)
		if err != nil {
			return
		}
		again, err := e.Encode()
		if err != nil || string(again) != string(b) {
			t.Fatalf("decoded %x, encoded %x (%v)", b, again, err)
		}
	})
}

func TestTheStoreShowsWhatItHoldsByNumberAndNothingElse(t *testing.T) {
	s := digest.NewStore(0)
	e := digest.Envelope{Author: "a", Incarnation: "1", Number: 3, Body: []byte("three")}
	s.Add(e)
	if got, ok := s.Held("a", "1", 3); !ok || string(got.Body) != "three" {
		t.Error(got, ok)
	}
	for _, no := range []digest.Envelope{{Author: "a", Incarnation: "1", Number: 2}, {Author: "a", Incarnation: "2", Number: 3}, {Author: "b", Incarnation: "1", Number: 3}} {
		if got, ok := s.Held(no.Author, no.Incarnation, no.Number); ok {
			t.Error(no, "is", got)
		}
	}
}
