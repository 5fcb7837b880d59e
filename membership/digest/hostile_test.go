package digest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"

	"pgregory.net/rapid"
)

// Whatever another peer says of its marks, this one's own fit a frame: else it could exchange with
// nobody any more.
func TestNoMarksOfOthersKeepAStoreFromSayingItsOwn(t *testing.T) {
	s := digest.NewStore(0)
	for n := range 20 {
		inc := strings.Repeat("x", 100_000+n)
		s.Believe("liar", []digest.Mark{{Stream: digest.Stream{Author: "liar", Incarnation: inc}, Floor: 1, Contiguous: 1, Top: 1}})
	}
	if b, err := wire.Marshal(s.Marks()); err != nil || len(b) > 1000 {
		t.Errorf("its marks have %d bytes, %v", len(b), err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := digest.NewStore(0)
		name := rapid.SampledFrom([]string{"liar", "a", "", strings.Repeat("y", 129), strings.Repeat("z", 128)})
		number := rapid.OneOf(rapid.Uint64Range(0, 9), rapid.SampledFrom([]uint64{1 << 40, 1 << 62, 1<<62 + 1, 1<<64 - 1}), rapid.Uint64())
		s.Add(batch("a", 1))
		for range rapid.IntRange(1, 5).Draw(t, "times") {
			m := digest.Mark{Stream: digest.Stream{Author: name.Draw(t, "author"), Incarnation: name.Draw(t, "incarnation")}, Floor: number.Draw(t, "floor"), Contiguous: number.Draw(t, "contiguous"), Top: number.Draw(t, "top")}
			s.Believe("liar", []digest.Mark{m})
			for _, r := range append(s.Reached(m.Stream.Author, []digest.Mark{m}), s.Wants([]digest.Mark{m})...) {
				if r.From == 0 || r.From > r.To || r.To > m.Top || r.Stream.Author == "" || len(r.Stream.Author+r.Stream.Incarnation) > 256 {
					t.Fatalf("of %+v it wants %+v", m, r)
				}
			}
		}
		for _, m := range s.Marks() {
			if len(m.Stream.Author) > 128 || len(m.Stream.Incarnation) > 128 || m.Stream.Author == "" || m.Floor > m.Contiguous || m.Contiguous > m.Top {
				t.Fatalf("it says %+v", m)
			}
		}
		if !s.Add(batch("a", 2)) || s.Mark("a", "i").Contiguous != 2 {
			t.Fatalf("what another says keeps an author's own batch out: %+v", s.Mark("a", "i"))
		}
	})
}

func TestMissingGivesWhatIsAskedForAndStaysWithinItsBudget(t *testing.T) {
	s := digest.NewStore(0)
	for _, n := range []uint64{1, 2, 3, 7, 8} {
		s.Add(sized("a", "i", n, 1000))
	}
	stream := digest.Stream{Author: "a", Incarnation: "i"}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Uint64Range(0, 10), rapid.SampledFrom([]uint64{1 << 63, 1<<64 - 1}))
		r := digest.Range{Stream: stream, From: number.Draw(t, "from"), To: number.Draw(t, "to")}
		var want []uint64
		for _, n := range []uint64{1, 2, 3, 7, 8} {
			if r.From > 0 && n >= r.From && n <= r.To {
				want = append(want, n)
			}
		}
		got, more := s.Missing([]digest.Range{r, {Stream: digest.Stream{Author: "nobody"}, From: 1, To: 9}}, 1<<30)
		if more || !slices.EqualFunc(got, want, func(e digest.Envelope, n uint64) bool { return e.Number == n }) {
			t.Fatalf("%+v: %d envelopes, more: %v, want %v", r, len(got), more, want)
		}
		budget := rapid.IntRange(0, 8000).Draw(t, "budget")
		part, more := s.Missing([]digest.Range{r}, budget)
		if more != (len(part) < len(want)) || len(want) > 0 && len(part) == 0 {
			t.Fatalf("with %d bytes %d of %d, more: %v", budget, len(part), len(want), more)
		}
	})
}

// against talks to p0 as p1 would, in the caller's words.
func against(network *memnet.Network, talk func(c net.Conn, r *wire.Reader, w *wire.Writer)) {
	c, err := network.Host("p1").Dial(context.Background(), "p0", digest.Protocol)
	if err != nil {
		panic(err)
	}
	defer c.Close()
	talk(c, wire.NewReader(c, 0), wire.NewWriter(c, 0))
}

func TestAPartnerThatBreaksTheRulesIsLeftAtOnce(t *testing.T) {
	var tooMany []digest.Mark
	for range 4097 {
		tooMany = append(tooMany, digest.Mark{Stream: digest.Stream{Author: "a", Incarnation: "i"}, Top: 1})
	}
	for what, first := range map[string]any{"words": "hello", "too many marks": tooMany, "a map": map[string]int{"a": 1}} {
		nodes(t, 1, func(network *memnet.Network, _ []*node) {
			against(network, func(c net.Conn, r *wire.Reader, w *wire.Writer) {
				_ = w.Send(first)
				var ms []digest.Mark
				if err := r.Read(&ms); !errors.Is(err, io.EOF) {
					t.Errorf("%s: answered %v, %v", what, ms, err)
				}
			})
		})
	}
	nodes(t, 1, func(network *memnet.Network, _ []*node) {
		against(network, func(c net.Conn, r *wire.Reader, w *wire.Writer) {
			_ = w.Send([]digest.Mark{})
			var ms []digest.Mark
			if err := r.Read(&ms); err != nil {
				t.Error(err)
			}
			_ = w.Send(make([]digest.Range, 4097))
			var p any
			if err := r.Read(&p); !errors.Is(err, io.EOF) {
				t.Errorf("too many wants: %v, %v", p, err)
			}
		})
	})
}

func TestASilentPartnerIsLeftAfterItsDeadline(t *testing.T) {
	nodes(t, 1, func(network *memnet.Network, _ []*node) {
		began := time.Now()
		against(network, func(_ net.Conn, r *wire.Reader, _ *wire.Writer) {
			var ms []digest.Mark
			if err := r.Read(&ms); !errors.Is(err, io.EOF) || time.Since(began) > 6*time.Second {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
		})
	})
}

func TestNoMoreThanTwoExchangesAreServedForOnePeer(t *testing.T) {
	nodes(t, 1, func(network *memnet.Network, _ []*node) {
		var open []net.Conn
		for range 3 {
			c, err := network.Host("p1").Dial(context.Background(), "p0", digest.Protocol)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			synctest.Wait()
		}
		for i, c := range open {
			_ = wire.NewWriter(c, 0).Send([]digest.Mark{})
			var ms []digest.Mark
			if err := wire.NewReader(c, 0).Read(&ms); (err == nil) != (i < 2) {
				t.Errorf("exchange %d: %v", i+1, err)
			}
			c.Close()
		}
		synctest.Wait()
		against(network, func(_ net.Conn, r *wire.Reader, w *wire.Writer) { // there is room again
			_ = w.Send([]digest.Mark{})
			var ms []digest.Mark
			if err := r.Read(&ms); err != nil {
				t.Error(err)
			}
		})
	})
}
