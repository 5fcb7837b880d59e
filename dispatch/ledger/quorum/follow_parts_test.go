package quorum

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// someLedger is an encoded state with a decision or two in it.
func someLedger(t testing.TB, jobs int) []byte {
	t.Helper()
	st := ledger.NewState()
	for i := range jobs {
		id := taskstate.JobID(rune('a' + i))
		st.Apply(ledger.Entry{Index: uint64(i + 1), Epoch: taskstate.At(1, 1), By: "a", Commands: []ledger.Command{{Submit: &ledger.Submit{Job: taskstate.Job{ID: id, Type: taskstate.BatchJob, Count: 1}}}}})
	}
	b, err := st.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestASnapshotIsTheSameInWhateverPartsItComes(t *testing.T) {
	whole := someLedger(t, 5)
	rapid.Check(t, func(r *rapid.T) {
		g, rest := gathering{}, whole
		for len(rest) > 0 {
			n := rapid.IntRange(1, len(rest)).Draw(r, "bytes")
			st, err := g.add(&snapshotPart{Data: rest[:n], Total: len(whole), Last: n == len(rest)})
			rest = rest[n:]
			if err != nil || (st != nil) != (len(rest) == 0) {
				r.Fatalf("with %d bytes to come: %v, %v", len(rest), st != nil, err)
			}
			if st == nil {
				continue
			}
			if back, err := st.Encode(); err != nil || !bytes.Equal(back, whole) {
				r.Fatalf("another state: %v", err)
			}
		}
	})
}

func TestPartsThatMakeNoSnapshotAreRefused(t *testing.T) {
	whole := someLedger(t, 1)
	n := len(whole)
	for what, parts := range map[string][]snapshotPart{
		"nothing":                 {{Total: n}},
		"more than was announced": {{Data: whole, Total: n - 1, Last: true}},
		"more in the second part": {{Data: whole[:5], Total: n}, {Data: whole, Total: n, Last: true}},
		"more than anybody keeps": {{Data: whole[:5], Total: maxSnapshot + 1}},
		"an end too soon":         {{Data: whole[:n-1], Total: n, Last: true}},
		"no ledger at all":        {{Data: []byte("hello"), Total: 5, Last: true}},
	} {
		g := gathering{}
		var st *ledger.State
		var err error
		for i := range parts {
			if st, err = g.add(&parts[i]); err != nil {
				break
			}
		}
		if st != nil || !errors.Is(err, errSnapshot) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// newFollowing is a peer, "b", that has nothing yet and knows who votes.
func newFollowing(t *testing.T, seats ...string) *following {
	t.Helper()
	n, err := Open(Config{Net: memnet.New().Host("b"), Self: "b", Incarnation: "1", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	n.authority.seats.Assume(seats)
	return &following{n: n, peer: "a"}
}

// Who follows can be elected while a word of the one it followed is under way here still.
func TestAnOlderWordOnWhoDecidesComesTooLate(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		d := newDirectory(&ownSeat{}, newWakes(), &Config{Self: "b"})
		var newest taskstate.Epoch
		for range rapid.IntRange(1, 10).Draw(r, "words") {
			e := taskstate.At(rapid.Uint64Range(1, 2).Draw(r, "generation"), rapid.Uint64Range(1, 5).Draw(r, "term"))
			d.setCoordinator(e.String(), e) // one decides in each epoch
			if newest.Less(e) {
				newest = e
			}
			if coord, epoch, ok := d.coordinator(); !ok || coord != newest.String() || epoch != newest {
				r.Fatalf("%s decides in %s, after word of %s", coord, epoch, newest)
			}
		}
	})
}

// largeEntry is an entry with a long list of items, encoded.
func largeEntry(t *testing.T, id taskstate.JobID) []byte {
	job := taskstate.Job{ID: id, Type: taskstate.BatchJob, Count: 100, Each: make([]string, 100)}
	for i := range job.Each {
		job.Each[i] = strings.Repeat("x", 50)
	}
	return encoded(t, ledger.Entry{Epoch: taskstate.At(1, 1), By: "a", Commands: []ledger.Command{{Submit: &ledger.Submit{Job: job}}}})
}

func TestAnEntryIsTheSameInWhateverPartsItComes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFollowing(t, "a")
		var frames []followFrame
		for i, id := range []taskstate.JobID{"one", "two"} {
			rest := largeEntry(t, id)
			for len(rest) > 0 {
				n := rapid.IntRange(1, len(rest)).Draw(r, "bytes")
				frames = append(frames, followFrame{Items: []item{{Index: uint64(i + 1), Data: rest[:n], More: n < len(rest)}}})
				rest = rest[n:]
			}
		}
		for i, fr := range frames {
			if err := f.handle(fr); err != nil {
				r.Fatalf("part %d: %v", i, err)
			}
		}
		f.n.place.rep.Read(func(s *ledger.State) {
			for _, id := range []taskstate.JobID{"one", "two"} {
				if j, ok := s.Job(id); !ok || len(j.Job().Each) != 100 {
					r.Fatalf("job %s did not arrive whole", id)
				}
			}
		})
	})
}

func TestPartsOfTwoEntriesAreNotTakenForOne(t *testing.T) {
	e := largeEntry(t, "one")
	for what, frames := range map[string][]item{
		"the next one before the end of this":  {{Index: 1, Data: e[:10], More: true}, {Index: 2, Data: e[10:]}},
		"parts that never end":                 {{Index: 1, Data: make([]byte, maxEntryBytes), More: true}, {Index: 1, Data: make([]byte, maxEntryBytes), More: true}, {Index: 1, Data: e, More: true}},
		"what is no entry":                     {{Index: 1, Data: []byte("hello")}},
		"an entry with a field of a newer one": {{Index: 1, Data: encoded(t, map[int]any{2: taskstate.At(1, 1), 3: 1, 4: "a", 5: []any{}, 99: 1})}},
	} {
		f := newFollowing(t, "a")
		var err error
		for _, it := range frames {
			if err = f.handle(followFrame{Items: []item{it}}); err != nil {
				break
			}
		}
		if err == nil || f.n.place.rep.Applied() != 0 {
			t.Errorf("%s: %v, and %d entries are applied", what, err, f.n.place.rep.Applied())
		}
	}
}

func TestWhatAFollowerHasIsNotAppliedAgain(t *testing.T) {
	f := newFollowing(t, "a")
	one := item{Index: 7, Data: largeEntry(t, "one")}
	for range 2 {
		if err := f.handle(followFrame{Items: []item{one}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.handle(followFrame{Items: []item{{Index: 6, Data: largeEntry(t, "two")}}}); err != nil {
		t.Fatal(err)
	}
	f.n.place.rep.Read(func(s *ledger.State) {
		if _, ok := s.Job("two"); ok || s.Index() != 7 || s.JobCount() != 1 {
			t.Errorf("%d jobs at index %d", s.JobCount(), s.Index())
		}
	})
}

// hello asks a node for its ledger and returns all it says.
func hello(t *testing.T, netw *memnet.Network, from, to string, h any) (out []followFrame) {
	t.Helper()
	c, err := netw.Host(from).Dial(t.Context(), to, FollowProtocol)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := wire.NewWriter(c, 0).Send(h); err != nil {
		t.Fatal(err)
	}
	for r := wire.NewReader(c, 0); ; {
		var fr followFrame
		if err := r.Read(&fr); err != nil {
			return out
		}
		out = append(out, fr)
	}
}

func TestAFollowerIsToldWhyItIsNotServed(t *testing.T) {
	netw, n := founded(t)
	n.Follow([]taskstate.PeerID{"b"})
	idle, err := Open(Config{Net: netw.Host("idle"), Self: "idle", Incarnation: "1", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = idle.Close() })
	for _, c := range []struct {
		why, at string
		hello   followHello
		want    string
	}{
		{"it does not vote", "idle", followHello{}, refuseNotVoter},
		{"the follower is of another cluster", "a", followHello{Cluster: "other", Generation: 1}, refuseForeign},
		{"the follower has a newer ledger", "a", followHello{Cluster: "c", Generation: 7}, refuseOlder},
		{"another cluster needs a copy", "a", followHello{Cluster: "other", Copy: true}, refuseForeign},
	} {
		got := hello(t, netw, "b", c.at, c.hello)
		if len(got) != 1 || got[0].Refuse == nil || got[0].Refuse.Code != c.want || got[0].Refuse.Generation != map[string]uint64{"a": 1}[c.at] {
			t.Errorf("%s: %+v", c.why, got)
		}
	}
	if n.Foreign() != 7 {
		t.Errorf("the voter heard of generation %d, want 7", n.Foreign())
	}
	if got := hello(t, netw, "b", "a", []int{1, 2}); len(got) != 0 {
		t.Errorf("what is no question is answered with %+v", got)
	}
}

func TestACopyIsServedWhole(t *testing.T) {
	netw, n := founded(t)
	got := hello(t, netw, "b", "a", followHello{Copy: true})
	g := gathering{}
	var st *ledger.State
	for _, fr := range got {
		var err error
		if fr.Part == nil {
			t.Fatalf("%+v", fr)
		}
		if st, err = g.add(fr.Part); err != nil {
			t.Fatal(err)
		}
	}
	want, err := n.place.rep.Encode()
	if err != nil || st == nil {
		t.Fatal(err, st)
	}
	if b, err := st.Encode(); err != nil || !bytes.Equal(b, want) {
		t.Errorf("another ledger than the one that is there: %v", err)
	}
}

// answering serves a protocol with one frame after another, and hangs up.
func answering(h *memnet.Host, protocol string, frames ...any) {
	h.Handle(protocol, func(_ string, c net.Conn) {
		defer c.Close()
		var ignored map[int]any
		if wire.NewReader(c, 0).Read(&ignored) != nil {
			return
		}
		for _, fr := range frames {
			if wire.NewWriter(c, 0).Send(fr) != nil {
				return
			}
		}
	})
}

func TestACopyThatDoesNotComeIsExplained(t *testing.T) {
	netw, n := founded(t)
	whole := someLedger(t, 3)
	half := len(whole) / 2
	for _, c := range []struct {
		what   string
		frames []any
		says   string // "" = it came
	}{
		{"all of it", []any{followFrame{Part: &snapshotPart{Data: whole[:half], Total: len(whole)}}, followFrame{Part: &snapshotPart{Data: whole[half:], Total: len(whole), Last: true}}}, ""},
		{"it is refused", []any{followFrame{Refuse: &followRefuse{Code: refuseBusy}}}, "refused: busy"},
		{"an older program sends entries", []any{followFrame{Synced: true}}, "update `peer` there"},
		{"it breaks off", []any{followFrame{Part: &snapshotPart{Data: whole[:half], Total: len(whole)}}}, io.EOF.Error()},
		{"it is no ledger", []any{followFrame{Part: &snapshotPart{Data: []byte("hello"), Total: 5, Last: true}}}, "malformed"},
		{"it is no frame", []any{"hello"}, "malformed"},
	} {
		answering(netw.Host("b"), FollowProtocol, c.frames...)
		st, err := n.fetch(t.Context(), "b")
		switch {
		case c.says == "" && (err != nil || st == nil || st.JobCount() != 3):
			t.Errorf("%s: %v", c.what, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.fetch(ctx, "b"); err == nil {
		t.Error("fetched although nobody waits for it any more")
	}
}

// A coordinator in bad hands sends a voter a job without what it runs, to have it wait for that.
func TestAVoterTakesNoBareJobFromAStream(t *testing.T) {
	job := taskstate.Job{ID: "one", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}
	if err := taskstate.SignOrder(&job, "c", "a", 1, nil, func([]byte) ([]byte, error) { return []byte("a"), nil }); err != nil {
		t.Fatal(err)
	}
	it := item{Index: 1, Data: encoded(t, ledger.Entry{Epoch: taskstate.At(1, 1), By: "a", Commands: []ledger.Command{{Submit: &ledger.Submit{Job: job.Bare()}}}})}
	guest := newFollowing(t, "a")
	if err := guest.entries([]item{it}); err != nil || guest.n.place.rep.Applied() != 1 {
		t.Errorf("a guest: %v, applied %d", err, guest.n.place.rep.Applied())
	}
	voter := newFollowing(t, "a", "b")
	if err := voter.entries([]item{it}); !errors.Is(err, errBare) || voter.n.place.rep.Applied() != 0 {
		t.Errorf("a voter: %v, applied %d", err, voter.n.place.rep.Applied())
	}
}
