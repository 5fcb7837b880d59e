package blob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
)

// scene is a network of sources and fetchers in virtual time.
type scene struct {
	t       *testing.T
	net     *memnet.Network
	members []string
}

func play(t *testing.T, f func(t *testing.T, s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, net: memnet.New()}
		f(t, s)
		if err := s.net.Close(); err != nil {
			t.Error(err)
		}
	})
}

// source makes a peer serve a store.
func (s *scene) source(name string, m *memory) *Server {
	s.members = append(s.members, name)
	srv := Serve(s.net.Host(name), m, ServerConfig{})
	s.t.Cleanup(srv.Close)
	return srv
}

func (s *scene) fetch(name string, m *memory, wants ...Want) (Report, error) {
	return s.fetchFor(s.t.Context(), name, m, wants...)
}

func (s *scene) fetchFor(ctx context.Context, name string, m *memory, wants ...Want) (Report, error) {
	f := Fetcher{Net: s.net.Host(name), Self: name, Keep: m}
	return f.Fetch(ctx, Request{Peers: func() []string { return s.members }, Wants: slices.Values(wants)})
}

func (s *scene) same(m *memory, blobs ...[]byte) {
	s.t.Helper()
	for i, b := range blobs {
		if got := m.whole(piece.Sum(b)); !bytes.Equal(got, b) {
			s.t.Errorf("of blob %d there are %d bytes of %d, or others", i, len(got), len(b))
		}
	}
}

func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func want(b []byte) Want { return Want{piece.Sum(b), int64(len(b))} }

func TestBlobsOfEverySizeComeWhetherTheirSizeIsKnownOrNot(t *testing.T) {
	var blobs [][]byte
	for i, n := range []int{0, 1, 1000, piece.Size - 1, piece.Size, piece.Size + 1, 3*piece.Size + 5} {
		blobs = append(blobs, noise(n, byte(i)))
	}
	for _, known := range []bool{false, true} {
		play(t, func(t *testing.T, s *scene) {
			s.source("a", newMemory(blobs...))
			s.source("b", newMemory())
			here := newMemory()
			var wants []Want
			for _, b := range blobs {
				w := want(b)
				if !known {
					w.Size = -1
				}
				wants = append(wants, w, w)
			}
			r, err := s.fetch("me", here, wants...)
			if err != nil {
				t.Fatal(err)
			}
			s.same(here, blobs...)
			if len(r.Bad) != 0 || r.Blobs < len(blobs) || r.From["a"] != r.Bytes {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestThousandsOfSmallBlobsComeInOneGo(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(10 * time.Millisecond)
		var blobs [][]byte
		var wants []Want
		for i := range 3000 {
			b := fmt.Appendf(nil, "blob %d", i)
			blobs, wants = append(blobs, b), append(wants, want(b))
		}
		s.source("a", newMemory(blobs...))
		here, begun := newMemory(), time.Now()
		if r, err := s.fetch("me", here, wants...); err != nil || r.Blobs != 3000 {
			t.Fatal(r, err)
		}
		s.same(here, blobs...)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %v on a way of 20 ms", took)
		}
	})
}

func TestALiarIsNamedAndItsPiecesComeFromAnother(t *testing.T) {
	b := noise(24*piece.Size, 1)
	root := piece.Sum(b)
	for name, lie := range map[string]func(m *memory){
		"wrong bytes": func(m *memory) {
			m.raw = func(_ piece.Root, b []byte, _ int64) error { b[0] ^= 1; return nil }
		},
		"wrong bytes but for the end": func(m *memory) {
			m.raw = func(_ piece.Root, b []byte, off int64) error {
				if off < 23*piece.Size {
					b[len(b)-1] ^= 1
				}
				return nil
			}
		},
		"a wrong proof": func(m *memory) {
			m.values = func(p piece.Proof) piece.Proof { p = slices.Clone(p); p[3][0] ^= 1; return p }
		},
		"a wrong size": func(m *memory) {
			m.claims = func(piece.Root, int64) (int64, *piece.Bitmap) {
				return 24*piece.Size - 1, piece.FullBitmap(24)
			}
		},
		"parents for pieces": func(m *memory) { // each value covers two pieces: it joins, but nothing fits it
			m.claims = func(piece.Root, int64) (int64, *piece.Bitmap) { return 12 * piece.Size, piece.FullBitmap(12) }
			m.values = func(p piece.Proof) piece.Proof { return p[:12] }
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, s *scene) {
				s.net.Delay(5 * time.Millisecond)
				bad := newMemory(b)
				lie(bad)
				s.source("a liar", bad)
				honest := newMemory(b)
				honest.slow = time.Second
				s.source("true", honest)
				here := newMemory()
				r, err := s.fetch("me", here, Want{root, -1})
				if err != nil {
					t.Fatal(err)
				}
				s.same(here, b)
				if r.Bad["a liar"] == 0 || r.Bad["true"] != 0 {
					t.Errorf("named are %v", r.Bad)
				}
			})
		})
	}
}

// Acceptance case 12, among peers; cmd/peer/testdata/putrot.txtar has the command.
func TestWhereAllLieNothingIsKeptAndTheErrorNamesThem(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		b := noise(4*piece.Size, 1)
		for _, name := range []string{"a", "b"} {
			m := newMemory(b)
			m.raw = func(_ piece.Root, b []byte, _ int64) error { b[7]++; return nil }
			s.source(name, m)
		}
		here := newMemory()
		r, err := s.fetch("me", here, want(b))
		var m *Missing
		if !errors.As(err, &m) || !errors.Is(err, ErrNobody) || len(r.Bad) != 2 || len(m.Wrong) != 2 || m.Wrong[0].Root != piece.Sum(b) {
			t.Fatal(r, err)
		}
		if here.whole(piece.Sum(b)) != nil {
			t.Error("it is said to be whole")
		}
	})
}

func TestASourceLooksAtWhatItIsToldIsWrong(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(5 * time.Millisecond)
		b := noise(8*piece.Size, 1)
		rotten := newMemory(slices.Clone(b))
		rotten.blobs[piece.Sum(b)].data[2*piece.Size+9] ^= 1
		s.source("rotten", rotten)
		fetched := make(chan error, 1)
		here := newMemory()
		go func() {
			_, err := s.fetch("me", here, want(b))
			fetched <- err
		}()
		time.Sleep(time.Second)
		rotten.mu.Lock()
		if !slices.Contains(rotten.verified, 2) {
			t.Errorf("it looked at %v", rotten.verified)
		}
		rotten.mu.Unlock()
		if _, has := rotten.Have(piece.Sum(b)); has.Has(2) {
			t.Error("it still says that it has it")
		}
		if err := <-fetched; !errors.Is(err, ErrNobody) {
			t.Error(err)
		}
		s.source("another", newMemory(b))
		if r, err := s.fetch("me", here, want(b)); err != nil || r.Bytes != piece.Size {
			t.Errorf("%+v, %v: the rest is one piece", r, err)
		}
		s.same(here, b)
	})
}

func TestASourceThatStallsIsPassedBy(t *testing.T) {
	for _, after := range []int32{0, 1, 6} { // before it has shown what the blob is, or later
		play(t, func(t *testing.T, s *scene) {
			s.net.Delay(time.Millisecond)
			b := noise(16*piece.Size, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stalls, honest := newMemory(b), newMemory(b)
			var n atomic.Int32
			stalls.raw = func(piece.Root, []byte, int64) error {
				if n.Add(1) > after {
					<-ctx.Done()
				}
				return nil
			}
			honest.slow = time.Millisecond // the other one is asked first to show what the blob is
			s.source("stalls", newMemoryRaw(stalls, b))
			s.source("true", honest)
			here, begun := newMemory(), time.Now()
			if _, err := s.fetch("me", here, Want{piece.Sum(b), -1}); err != nil {
				t.Fatal(err)
			}
			s.same(here, b)
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("with one that stalls after %d blocks it took %v", after, took)
			}
			cancel()
		})
	}
}

// hesitant is a network on which the first bytes of the first answer come by themselves, and the
// rest a while later.
type hesitant struct{ Dialer }

// Dial implements Dialer.
func (h hesitant) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	c, err := h.Dialer.Dial(ctx, peer, protocol)
	if err != nil {
		return nil, err
	}
	mine, theirs := net.Pipe()
	go func() {
		_, _ = io.Copy(c, theirs)
		_ = c.Close()
	}()
	go func() {
		_, _ = io.CopyN(theirs, c, 2)
		time.Sleep(3 * lookEvery)
		_, _ = io.Copy(theirs, c)
		_ = theirs.Close()
	}()
	return mine, nil
}

func TestAnAnswerThatComesInPartsIsWaitedFor(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		b := noise(3*piece.Size, 1)
		s.source("slow", newMemory(b))
		here, begun := newMemory(), time.Now()
		f := Fetcher{Net: hesitant{s.net.Host("me")}, Self: "me", Keep: here}
		r := Request{Peers: func() []string { return s.members }, Wants: slices.Values([]Want{want(b)})}
		if _, err := f.Fetch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		s.same(here, b)
		if took := time.Since(begun); took > 2*3*lookEvery {
			t.Errorf("it took %v: the stream was given up", took)
		}
	})
}

// newMemoryRaw is m, which sends what it should whatever its hook does.
func newMemoryRaw(m *memory, data []byte) *memory {
	then := m.raw
	m.raw = func(r piece.Root, b []byte, off int64) error {
		copy(b, data[off:])
		return then(r, b, off)
	}
	return m
}

// Acceptance case 9.
func TestSourcesThatDieInTheMiddleOfAPieceCostAPieceEach(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(time.Millisecond)
		b := noise(32*piece.Size, 1)
		for i := range 2 {
			name, m := fmt.Sprint("dies", i), newMemory(b)
			var n atomic.Int32
			m.raw = func(piece.Root, []byte, int64) error {
				if n.Add(1) == 7 {
					go s.net.Kill(name)
				}
				return nil
			}
			s.source(name, newMemoryRaw(m, b))
		}
		s.source("lives", newMemory(b))
		here := newMemory()
		r, err := s.fetch("me", here, want(b))
		if err != nil {
			t.Fatal(err)
		}
		s.same(here, b)
		if r.Bytes != int64(len(b)) || here.taken[piece.Sum(b)] > 34 {
			t.Errorf("%d bytes, %d pieces", r.Bytes, here.taken[piece.Sum(b)])
		}
	})
}

func TestABusySourceIsAskedAgain(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		b := noise(2*piece.Size, 1)
		srv := s.source("a", newMemory(b))
		for i := range MaxPullers {
			if !srv.pullers.Enter(fmt.Sprint(i)) {
				t.Fatal("no place for", i)
			}
		}
		time.AfterFunc(20*time.Second, func() { srv.pullers.Leave("3") })
		here, begun := newMemory(), time.Now()
		if _, err := s.fetch("me", here, want(b)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < 20*time.Second || took > 50*time.Second {
			t.Errorf("it took %v", took)
		}
		s.same(here, b)
		for i := range MaxPullers {
			if i != 3 {
				srv.pullers.Leave(fmt.Sprint(i))
			}
		}
	})
}

// Each has a place where another waits for one, as when a peer whose disk was lost brings all it
// kept in several fetches at once.
func TestFetchesOfOnePeerThatHoldEachOthersPlacesAllEnd(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		x, y := noise(100, 1), noise(100, 2)
		s.source("a", newMemory(x))
		s.source("b", newMemory(y))
		slow := newMemory() // keeps the fetches waiting until they have met the other source
		slow.slow = 5 * time.Second
		s.source("slow", slow)
		begun := time.Now()
		var all sync.WaitGroup
		for i := range 2 * maxPullersPerPeer {
			first := s.members[i%2]
			all.Go(func() {
				here := newMemory()
				f := Fetcher{Net: s.net.Host("me"), Self: "me", Keep: here}
				_, err := f.Fetch(t.Context(), Request{Wants: slices.Values([]Want{want(x), want(y)}), Peers: func() []string {
					if time.Since(begun) < time.Second {
						return []string{first, "slow"}
					}
					return s.members
				}})
				if took := time.Since(begun); err != nil || took > time.Minute {
					t.Errorf("one that began at %s ended after %v: %v", first, took, err)
				}
				s.same(here, x, y)
			})
		}
		all.Wait()
	})
}

func TestACutIsWaitedOutAndWhatCameIsNotFetchedAgain(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(5 * time.Millisecond)
		b := noise(40*piece.Size, 1)
		m := newMemory(b)
		var n atomic.Int32
		m.raw = func(piece.Root, []byte, int64) error {
			if n.Add(1) == 60 {
				s.net.Cut("a", "me")
				time.AfterFunc(35*time.Second, s.net.Heal)
			}
			return nil
		}
		s.source("a", newMemoryRaw(m, b))
		here := newMemory()
		r, err := s.fetch("me", here, want(b))
		if err != nil {
			t.Fatal(err)
		}
		s.same(here, b)
		if r.Bytes != int64(len(b)) {
			t.Errorf("%d bytes came of %d", r.Bytes, len(b))
		}
	})
}

// Acceptance case 10, without the kill -9 (cmd/peer/testdata/getresume.txtar has it).
func TestAFetchThatWasBrokenOffGoesOnWhereItWas(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(5 * time.Millisecond)
		b := noise(40*piece.Size, 1)
		m := newMemory(b)
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int32
		m.raw = func(piece.Root, []byte, int64) error {
			if n.Add(1) == 80 {
				cancel()
			}
			return nil
		}
		s.source("a", newMemoryRaw(m, b))
		here := newMemory()
		first, err := s.fetchFor(ctx, "me", here, Want{piece.Sum(b), -1})
		if !errors.Is(err, context.Canceled) || first.Bytes == 0 {
			t.Fatal(first, err)
		}
		then, err := s.fetch("me", here, Want{piece.Sum(b), -1})
		if err != nil {
			t.Fatal(err)
		}
		s.same(here, b)
		if all := first.Bytes + then.Bytes; all != int64(len(b)) {
			t.Errorf("%d and %d bytes came of %d", first.Bytes, then.Bytes, len(b))
		}
	})
}

// Acceptance case 24.
func TestTwoFetchersTakeFromThreeSourcesAndFromEachOther(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(5 * time.Millisecond)
		b := noise(64*piece.Size, 1)
		for _, name := range []string{"a", "b", "c"} {
			m := newMemory(b)
			m.raw = func(piece.Root, []byte, int64) error { time.Sleep(2 * time.Millisecond); return nil }
			s.source(name, newMemoryRaw(m, b))
		}
		type end struct {
			r   Report
			err error
		}
		ends := make(chan end, 2)
		stores := []*memory{newMemory(), newMemory()}
		for i, m := range stores {
			s.source(fmt.Sprint("f", i), m)
		}
		for i, m := range stores {
			go func() {
				r, err := s.fetch(fmt.Sprint("f", i), m, want(b))
				ends <- end{r, err}
			}()
		}
		var all []map[string]int64
		for range stores {
			e := <-ends
			if e.err != nil {
				t.Fatal(e.err)
			}
			all = append(all, e.r.From)
		}
		for _, m := range stores {
			s.same(m, b)
		}
		for _, name := range []string{"a", "b", "c"} {
			for _, from := range all {
				if from[name] < int64(len(b))/10 {
					t.Errorf("%s gave less than a tenth: %v", name, all)
				}
			}
		}
	})
}

// Acceptance case 31.
func TestAStrangerAndARemovedPeerGetNothing(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		b := noise(3*piece.Size, 1)
		root := piece.Sum(b)
		var removed atomic.Bool
		srv := Serve(s.net.Host("a"), newMemory(b), ServerConfig{Admitted: func(p string) bool { return p == "member" && !removed.Load() }})
		defer srv.Close()
		ask := func(c net.Conn, q question) (a answer, err error) {
			c.SetDeadline(time.Now().Add(time.Minute))
			_ = wire.NewWriter(c, 0).Send(q)
			err = wire.NewReader(c, 0).Read(&a)
			return a, err
		}
		dial := func(name string) net.Conn {
			c, err := s.net.Host(name).Dial(t.Context(), "a", Protocol)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		have := question{Have: [][]byte{root[:]}}
		stranger := dial("stranger")
		defer stranger.Close()
		if a, err := ask(stranger, have); err == nil {
			t.Errorf("a stranger hears %+v", a)
		}
		member := dial("member")
		defer member.Close()
		if a, err := ask(member, have); err != nil || len(a.Held) != 1 || a.Held[0].Size != int64(len(b)) {
			t.Fatalf("a member hears %+v, %v", a, err)
		}
		removed.Store(true)
		if a, err := ask(member, question{Get: spanOf(root, 0, 10)}); err == nil {
			t.Errorf("a removed peer hears %+v", a)
		}
	})
}

func TestSourcesThatHaveNothingMoreMakePlaceForOthers(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(time.Millisecond)
		a, b := noise(4*piece.Size, 1), noise(2*piece.Size, 2)
		late := newMemory(b)
		late.slow = 2 * time.Second
		for i := range MaxSources {
			m := newMemory(a)
			m.raw = func(piece.Root, []byte, int64) error { time.Sleep(200 * time.Millisecond); return nil }
			s.source(fmt.Sprint(i), newMemoryRaw(m, a))
		}
		s.source("late", late)
		here, begun := newMemory(), time.Now()
		if _, err := s.fetch("me", here, want(a), want(b)); err != nil {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
		s.same(here, a, b)
	})
}

func TestALiarThatComesAgainIsStillALiar(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.net.Delay(time.Millisecond)
		b := noise(32*piece.Size, 1)
		liar := newMemory(b)
		var sent atomic.Int32
		liar.raw = func(_ piece.Root, b []byte, off int64) error {
			if b[0] ^= 1; (off+int64(len(b)))%piece.Size == 0 && sent.Add(1)%2 == 0 {
				go func() { time.Sleep(100 * time.Millisecond); s.net.Reset("liar", "me") }()
			}
			return nil
		}
		s.source("liar", liar)
		slow := newMemory(b)
		slow.raw = func(piece.Root, []byte, int64) error { time.Sleep(500 * time.Millisecond); return nil }
		s.source("true", newMemoryRaw(slow, b))
		here := newMemory()
		r, err := s.fetch("me", here, want(b))
		if err != nil {
			t.Fatal(err)
		}
		s.same(here, b)
		if r.Bad["liar"] > 2*3 {
			t.Errorf("it was believed %d times", r.Bad["liar"])
		}
	})
}

func TestADiskThatIsFullEndsTheFetchWithItsWord(t *testing.T) {
	full := errors.New("no room: 3 needed, 2 free")
	for _, n := range []int{1000, 3 * piece.Size} {
		play(t, func(t *testing.T, s *scene) {
			b := noise(n, 1)
			s.source("a", newMemory(b))
			here := newMemory()
			here.room = full
			if _, err := s.fetch("me", here, want(b)); !errors.Is(err, full) {
				t.Error(err)
			}
		})
	}
}

func TestWhereNobodyHasItTheFetchEndsSoonAndNamesWhoCouldNotBeAsked(t *testing.T) {
	play(t, func(t *testing.T, s *scene) {
		s.source("a", newMemory())
		s.source("dead", newMemory())
		s.net.Kill("dead")
		begun := time.Now()
		_, err := s.fetch("me", newMemory(), want(noise(10, 1)))
		var m *Missing
		if !errors.As(err, &m) || !slices.Equal(m.Absent, []string{"a"}) || m.Failed["dead"] != "it does not run where it was" || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}

// Peers that say whatever they like, as fast as they can.
func TestWhateverPeersSayMemoryStaysSmall(t *testing.T) {
	big := answer{Held: []held{{Size: MaxProof / valueSize * piece.Size, Map: []byte{1}}}}
	play(t, func(t *testing.T, s *scene) {
		root := piece.Root{1, 2, 3}
		for name, say := range map[string]func(q question, w *wire.Writer, c net.Conn) error{
			"endless": func(_ question, w *wire.Writer, c net.Conn) error {
				for {
					if _, err := c.Write(make([]byte, 64<<10)); err != nil {
						return err
					}
				}
			},
			"a blob of 512 GiB with a proof of nothing": func(q question, w *wire.Writer, c net.Conn) error {
				if q.Have != nil {
					return w.Send(big)
				}
				if err := w.Send(answer{Raw: q.Proof.N * valueSize}); err != nil {
					return err
				}
				_, err := c.Write(make([]byte, q.Proof.N*valueSize))
				return err
			},
			"more than was asked for": func(q question, w *wire.Writer, _ net.Conn) error {
				if q.Have != nil {
					return w.Send(big)
				}
				return w.Send(answer{Raw: 1 << 50})
			},
			"other lists": func(question, *wire.Writer, net.Conn) error { return nil },
			"too many": func(q question, w *wire.Writer, _ net.Conn) error {
				return w.Send(answer{Held: make([]held, 1000)})
			},
			"answers to nothing": func(q question, w *wire.Writer, _ net.Conn) error {
				for {
					if err := w.Send(answer{}); err != nil {
						return err
					}
				}
			},
		} {
			s.members = append(s.members, name)
			s.net.Host(name).Handle(Protocol, func(_ string, c net.Conn) {
				defer c.Close()
				r, w := wire.NewReader(c, 0), wire.NewWriter(c, 0)
				for {
					var q question
					if r.Read(&q) != nil || say(q, w, c) != nil {
						return
					}
				}
			})
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		here := newMemory()
		_, err := s.fetch("me", here, Want{root, -1})
		if !errors.Is(err, ErrNobody) {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 256<<20 {
			t.Errorf("the heap grew by %d MiB", grown>>20)
		}
		if len(here.blobs) != 0 {
			t.Error("something was kept")
		}
	})
}
