package swarm_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/swarm"
)

// dumb is what the swarm has to agree with, kept in the plainest way.
type dumb struct {
	size   map[piece.Root]int64
	done   map[swarm.Piece]bool
	has    map[string]map[swarm.Piece]bool
	barred map[string]map[swarm.Piece]bool
	struck map[string]int
	asked  map[string][]question // under way, oldest first
	live   map[swarm.Piece]map[string]*turn
}

// turn is a piece being asked of one peer.
type turn struct {
	since      time.Time
	asked, got int
}

type question struct {
	swarm.Block
	of *turn
}

func newDumb() *dumb {
	return &dumb{
		map[piece.Root]int64{},
		map[swarm.Piece]bool{},
		map[string]map[swarm.Piece]bool{},
		map[string]map[swarm.Piece]bool{},
		map[string]int{},
		map[string][]question{},
		map[swarm.Piece]map[string]*turn{},
	}
}

// ask checks what the swarm wants to ask for.
func (d *dumb) ask(t *rapid.T, name string, b swarm.Block, now time.Time) {
	off, n := piece.Span(d.size[b.Root], b.Index)
	if _, wanted := d.size[b.Root]; !wanted || d.done[b.Piece] || d.barred[name][b.Piece] || d.struck[name] >= swarm.Strikes {
		t.Fatalf("%s is asked for %v: wanted %v, here %v, sent wrong %v, %d strikes", name, b, wanted, d.done[b.Piece], d.barred[name][b.Piece], d.struck[name])
	}
	turns := d.live[b.Piece]
	if turns == nil {
		turns = map[string]*turn{}
		d.live[b.Piece] = turns
	}
	if turns[name] == nil {
		if !d.has[name][b.Piece] {
			t.Fatalf("%s is asked for what it has not", name)
		}
		for other, o := range turns {
			if now.Sub(o.since) < swarm.Late {
				t.Fatalf("%s is asked for a piece that %s is asked for since %v", name, other, now.Sub(o.since))
			}
		}
		if len(turns) > 1 {
			t.Fatal("three are asked for one piece")
		}
		turns[name] = &turn{since: now}
	}
	if at := off + int64(turns[name].asked); b.Off != at || b.N < 0 || turns[name].asked+b.N > n {
		t.Fatalf("%s is asked for %d bytes at %d of piece %d, want them at %d", name, b.N, b.Off, b.Index, at)
	}
	turns[name].asked += b.N
	d.asked[name] = append(d.asked[name], question{b, turns[name]})
}

// pop is the oldest question to a peer, and whether its answer is still wanted.
func (d *dumb) pop(name string) (q question, wanted bool) {
	q, d.asked[name] = d.asked[name][0], d.asked[name][1:]
	return q, d.live[q.Piece][name] == q.of
}

func (d *dumb) under(name string) (n int) {
	for _, b := range d.asked[name] {
		n += b.N
	}
	return n
}

func (d *dumb) leave(name string) {
	delete(d.asked, name)
	delete(d.has, name)
	for _, who := range d.live {
		delete(who, name)
	}
}

func TestTheSwarmAgreesWithADumbOne(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		s, d, now := swarm.New(rapid.Uint64().Draw(t, "seed")), newDumb(), time.Unix(1e9, 0)
		roots, order := map[piece.Root]int{}, []piece.Root{}
		for i := range rapid.IntRange(1, 4).Draw(t, "blobs") {
			root := piece.Root{byte(i + 1)}
			size := rapid.Int64Range(0, 5*piece.Size).Draw(t, "size")
			n := piece.Count(size)
			done := piece.NewBitmap(n)
			for k := range n - 1 {
				if rapid.Bool().Draw(t, "here") {
					done.Set(k)
					d.done[swarm.Piece{Root: root, Index: k}] = true
				}
			}
			d.size[root], roots[root], order = size, n, append(order, root)
			s.Want(root, size, done, "")
		}
		tell := func(name string, all bool) {
			d.has[name] = map[swarm.Piece]bool{}
			for _, root := range order {
				has := piece.NewBitmap(roots[root])
				for i := range roots[root] {
					if all || rapid.Bool().Draw(t, "has") {
						has.Set(i)
						d.has[name][swarm.Piece{Root: root, Index: i}] = true
					}
				}
				s.Holds(name, root, has)
			}
		}
		missing := func(root piece.Root) (n int) {
			for i := range roots[root] {
				if !d.done[swarm.Piece{Root: root, Index: i}] {
					n++
				}
			}
			return n
		}
		checked := func(name string, at swarm.Piece, right bool) {
			complete, banned := s.Checked(name, at, right)
			if !right {
				if d.barred[name] == nil {
					d.barred[name] = map[swarm.Piece]bool{}
				}
				d.barred[name][at] = true
				d.struck[name]++
				delete(d.live[at], name)
			} else {
				d.done[at] = true
				delete(d.live, at)
			}
			if banned != (!right && d.struck[name] >= swarm.Strikes) || complete != (right && missing(at.Root) == 0) {
				t.Fatalf("%s banned: %v with %d strikes, complete: %v with %d missing", name, banned, d.struck[name], complete, missing(at.Root))
			}
			if complete {
				delete(d.size, at.Root)
			}
		}
		arrive := func(name string, right bool) {
			b, out, ok := s.Arrived(name, now)
			if ok != (len(d.asked[name]) > 0) {
				t.Fatalf("from %s a block came: %v, with %d under way", name, ok, len(d.asked[name]))
			} else if !ok {
				return
			}
			q, wanted := d.pop(name)
			want := swarm.Stale
			if wanted {
				q.of.got += b.N
				want = swarm.Part
				if _, n := piece.Span(d.size[b.Root], b.Index); q.of.got == n {
					want = swarm.Whole
				}
			}
			if b != q.Block || out != want {
				t.Fatalf("%v from %s is %d, want %v, %d", b, name, out, q.Block, want)
			}
			if out == swarm.Whole {
				checked(name, b.Piece, right)
			}
		}
		next := func(name string) bool {
			b, ok := s.Next(name, now)
			if ok {
				if d.under(name) >= s.Window(name) || len(d.asked[name]) >= swarm.MaxBlocks {
					t.Fatalf("%d bytes in %d blocks are under way from %s, the window is %d", d.under(name), len(d.asked[name]), name, s.Window(name))
				}
				d.ask(t, name, b, now)
			}
			if s.Under(name) != d.under(name) {
				t.Fatalf("under way from %s: %d, want %d", name, s.Under(name), d.under(name))
			}
			return ok
		}
		joined := map[string]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(swarm.Late/2)).Draw(t, "later")))
			name := rapid.SampledFrom(names).Draw(t, "who")
			switch rapid.IntRange(0, 11).Draw(t, "what") {
			case 0:
				s.Join(name, time.Duration(rapid.IntRange(0, 100).Draw(t, "way"))*time.Millisecond, now)
				if !joined[name] {
					d.struck[name], d.barred[name] = 0, nil
				}
				joined[name] = true
				tell(name, false)
			case 1:
				s.Leave(name)
				joined[name] = false
				d.leave(name)
			case 2:
				if len(d.asked[name]) > 0 {
					q, wanted := d.pop(name)
					if wanted {
						delete(d.live[q.Piece], name)
					}
					for i := range roots[q.Root] {
						delete(d.has[name], swarm.Piece{Root: q.Root, Index: i})
					}
				}
				s.Refused(name)
			case 3, 4, 5, 6:
				next(name)
			default:
				arrive(name, rapid.IntRange(0, 5).Draw(t, "right") > 0)
			}
		}
		// Whatever happened, one that has all and is right brings the rest.
		for _, name := range names {
			s.Leave(name)
			d.leave(name)
		}
		s.Join("good", 0, now)
		tell("good", true)
		for range 1000 {
			if s.Wanted() == 0 {
				break
			}
			now = now.Add(time.Millisecond)
			for next("good") {
			}
			arrive("good", true)
		}
		if s.Wanted() != len(d.size) || s.Wanted() != 0 {
			t.Fatalf("%d blobs are still wanted, %d", s.Wanted(), len(d.size))
		}
	})
}

// link delivers what is asked for one after the other, at a rate, after a way.
type link struct {
	rate float64
	way  time.Duration
	busy time.Time
}

func (l *link) ask(n int, now time.Time) (arrives time.Time) {
	begin := now.Add(l.way / 2)
	if l.busy.After(begin) {
		begin = l.busy
	}
	l.busy = begin.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
	return l.busy.Add(l.way / 2)
}

func TestALinkIsFilledAndItsQueueStaysShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.SampledFrom([]float64{1.25e6, 12.5e6, 125e6}).Draw(t, "rate")
		way := time.Duration(rapid.IntRange(1, 120).Draw(t, "way")) * time.Millisecond
		l := &link{rate: rate, way: way}
		s, begun := swarm.New(1), time.Unix(1e9, 0)
		size := int64(piece.MaxSize / 1024)
		root := piece.Root{1}
		s.Want(root, size, piece.NewBitmap(piece.Count(size)), "")
		s.Join("a", way, begun)
		s.Holds("a", root, piece.FullBitmap(piece.Count(size)))
		var due []time.Time
		now, worst, bytes := begun, time.Duration(0), 0
		for now.Sub(begun) < 10*time.Second {
			for {
				b, ok := s.Next("a", now)
				if !ok {
					break
				}
				due = append(due, l.ask(b.N, now))
			}
			now, due = due[0], due[1:]
			b, out, _ := s.Arrived("a", now)
			if out == swarm.Whole {
				s.Checked("a", b.Piece, true)
			}
			if now.Sub(begun) > 3*time.Second {
				bytes += b.N
				worst = max(worst, l.busy.Sub(now))
			}
		}
		if worst > way+2*swarm.Target {
			t.Errorf("the queue of a link of %.0f bytes/s and %v is %v long", rate, way, worst)
		}
		most := min(rate, swarm.MaxWindow/way.Seconds()) * 7
		if float64(bytes) < 0.85*most {
			t.Errorf("%d bytes came over a link of %.0f bytes/s and %v in 7 s, %.0f could", bytes, rate, way, most)
		}
	})
}

func TestALatePieceIsAskedOfASecondPeer(t *testing.T) {
	s, now, root := swarm.New(1), time.Unix(1e9, 0), piece.Root{1}
	s.Want(root, 1000, piece.NewBitmap(1), "")
	for _, name := range []string{"a", "b"} {
		s.Join(name, 0, now)
		s.Holds(name, root, piece.FullBitmap(1))
	}
	for i, c := range []struct {
		name  string
		after time.Duration
		asked bool
	}{{"a", 0, true}, {"b", 0, false}, {"b", swarm.Late - 1, false}, {"b", swarm.Late, true}, {"a", 9 * swarm.Late, false}} {
		if _, ok := s.Next(c.name, now.Add(c.after)); ok != c.asked {
			t.Errorf("question %d, of %s after %v: %v", i, c.name, c.after, ok)
		}
	}
	_, out, _ := s.Arrived("b", now)
	if complete, _ := s.Checked("b", swarm.Piece{Root: root}, true); out != swarm.Whole || !complete {
		t.Error("the second did not bring it", out)
	}
	if _, out, ok := s.Arrived("a", now); !ok || out != swarm.Stale {
		t.Error("what the first brings then is", out)
	}
}

func TestTwoFetchersBeginAtDifferentPlaces(t *testing.T) {
	places := map[string]bool{}
	for seed := range uint64(20) {
		s, now, root := swarm.New(seed*0x9e3779b97f4a7c15), time.Unix(1e9, 0), piece.Root{1}
		s.Want(root, 100*piece.Size, piece.NewBitmap(100), "")
		s.Join("a", 0, now)
		s.Join("b", 0, now)
		s.Holds("a", root, piece.FullBitmap(100))
		b, _ := s.Next("a", now)
		places[fmt.Sprint(b.Index)] = true
	}
	if len(places) < 10 {
		t.Errorf("20 fetchers begin at %d places", len(places))
	}
}

func TestWhoSaysHowLongABlobIsShowsItsEndFirst(t *testing.T) {
	s, now, root := swarm.New(1), time.Unix(1e9, 0), piece.Root{1}
	s.Want(root, 3*piece.Size, piece.NewBitmap(3), "a")
	for _, name := range []string{"a", "b"} {
		s.Join(name, 0, now)
		s.Holds(name, root, piece.FullBitmap(3))
	}
	if b, ok := s.Next("b", now); ok {
		t.Fatalf("b is asked for %v", b)
	}
	for {
		b, ok := s.Next("a", now)
		if !ok {
			t.Fatal("a is not asked to the end")
		}
		if b.Index != 2 {
			t.Fatalf("a is asked for %v first", b)
		}
		if _, ok := s.Next("b", now.Add(2*swarm.Late)); ok {
			t.Fatal("b is asked for what a has to show")
		}
		now = now.Add(time.Millisecond)
		if _, out, _ := s.Arrived("a", now); out == swarm.Whole {
			break
		}
	}
	s.Checked("a", swarm.Piece{Root: root, Index: 2}, true)
	if _, ok := s.Next("b", now); !ok {
		t.Error("b is not asked after that")
	}
}

// shared is a blob of 100 pieces that a has, and of which b has the first 50.
func shared(now time.Time) (*swarm.Swarm, piece.Root) {
	s, root, half := swarm.New(1), piece.Root{1}, piece.NewBitmap(100)
	for i := range 50 {
		half.Set(i)
	}
	s.Want(root, 100*piece.Size, piece.NewBitmap(100), "")
	for _, name := range []string{"a", "b"} {
		s.Join(name, time.Millisecond, now)
	}
	s.Holds("a", root, piece.FullBitmap(100))
	s.Holds("b", root, half)
	return s, root
}

// give has a peer answer all it is asked for, each block after took; it returns the pieces. none:
// it is asked for nothing any more.
func give(s *swarm.Swarm, name string, now *time.Time, took time.Duration, pieces int) (came []int, none bool) {
	for len(came) < pieces {
		if _, ok := s.Next(name, *now); !ok {
			return came, true
		}
		*now = now.Add(took)
		b, out, _ := s.Arrived(name, *now)
		if out == swarm.Whole {
			came = append(came, b.Index)
			s.Checked(name, b.Piece, true)
		}
	}
	return came, false
}

// Part of case 23.
func TestWhoeverHasAllIsAskedForWhatFellowsDoNotHave(t *testing.T) {
	now := time.Unix(1e9, 0)
	s, _ := shared(now)
	came, none := give(s, "a", &now, time.Millisecond, 100)
	if len(came) != 50 || !none {
		t.Errorf("%d pieces are asked of it", len(came))
	}
	for _, i := range came {
		if i < 50 {
			t.Errorf("it is asked for piece %d, which another has that fetches the same", i)
		}
	}
	if came, _ := give(s, "b", &now, time.Millisecond, 100); len(came) != 50 {
		t.Errorf("%d pieces are asked of the other", len(came))
	}
}

func TestAFellowThatIsSlowOrStallsIsNotWaitedFor(t *testing.T) {
	for name, took := range map[string]time.Duration{"it gives a third": 3 * time.Millisecond, "it gives nothing": 0} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			s, _ := shared(now)
			give(s, "a", &now, time.Millisecond, 50)
			if took > 0 {
				give(s, "b", &now, took, 2)
			} else {
				s.Next("b", now)
				if _, none := give(s, "a", &now, time.Millisecond, 1); !none {
					t.Error("it was not waited for at all")
				}
				now = now.Add(swarm.Stalled + 1)
			}
			if came, _ := give(s, "a", &now, time.Millisecond, 10); len(came) != 10 {
				t.Errorf("%d pieces are asked of the one that has all", len(came))
			}
		})
	}
}
