package quorum

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// founded is a running ledger of one voter, "a/1", on its own network.
func founded(t testing.TB) (*memnet.Network, *Node) {
	netw := memnet.New()
	n, err := Open(Config{Net: netw.Host("a"), Self: "a", Incarnation: "1", Draw: firstSeat, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	f := ledger.Found{Cluster: "c", Generation: 1, Founder: admission.Entry{Cluster: "c", Peer: "a", Roles: admission.AllRoles(), By: "a"}}
	if err := n.Found(context.Background(), f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close(); _ = netw.Close() })
	return netw, n
}

func TestARaftStreamIsForOneLedgerAndOneLifeAndFromWhoHoldsASeat(t *testing.T) {
	netw, n := founded(t)
	n.authority.seats.Hold("c", 1, 50, []string{"a", "b"}) // b holds a seat, mallory and one that may get one do not
	n.cfg.MayVote = func(p taskstate.PeerID) bool { return p == "role" }
	for _, c := range []struct {
		why, caller, to string
		generation      uint64
		want            string // of the error; "" = accepted
	}{
		{"all is well", "b", "a/1", 1, ""},
		{"meant for a disk that was lost", "b", "a/0", 1, "was lost with its disk"},
		{"an older ledger", "b", "a/1", 0, "generation 1 here, 0 there"},
		{"a newer ledger", "b", "a/1", 7, "generation 1 here, 7 there"},
		{"not a possible voter", "mallory", "a/1", 1, "it holds no seat"},
		{"a possible voter", "role", "a/1", 1, "it holds no seat"},
	} {
		var heard uint64
		s := newStreamLayer(netw.Host(c.caller), c.generation, Voter{Peer: c.caller, Incarnation: "1"}, func(_ string, g uint64, _ ...string) { heard = g }, func() {})
		conn, err := s.Dial(raft.ServerAddress(c.to), time.Second)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.why, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.why, err, c.want)
		}
		if conn != nil {
			_ = conn.Close()
		}
		if c.generation == 0 && heard != 1 {
			t.Errorf("the older side did not hear of generation 1")
		}
		_ = s.Close()
	}
	if n.Foreign() != 7 {
		t.Errorf("the node heard of generation %d, want 7", n.Foreign())
	}
}

func TestNobodySpeaksForAnotherPeer(t *testing.T) {
	netw, n := founded(t)
	n.Follow([]taskstate.PeerID{"b", "c"})
	s := newStreamLayer(netw.Host("b"), 1, Voter{Peer: "c", Incarnation: "1"}, func(string, uint64, ...string) {}, func() {})
	defer s.Close()
	if _, err := s.Dial("a/1", time.Second); err == nil || !strings.Contains(err.Error(), "speaks for") {
		t.Errorf("b called as c: %v", err)
	}
}

func TestWhoseGreetingWasOvertakenByANewerOneGreetsAgain(t *testing.T) {
	for _, c := range []struct {
		what    string
		newer   bool // the dialling voter acknowledges more while its greeting is under way
		greeted int
	}{{"it was overtaken", true, 2}, {"its folder was turned back", false, 1}} {
		netw := memnet.New()
		now := mark.Mark{Server: "b/1", Generation: 1, Term: 1, Index: 5}
		greeted := 0
		netw.Host("a").Handle(RaftProtocol, func(_ string, conn net.Conn) {
			var h raftHello
			if err := wire.NewReader(conn, raftHelloCap).Read(&h); err != nil {
				t.Error(err)
			}
			if greeted++; c.newer {
				now.Index = 6
			}
			_ = wire.NewWriter(conn, raftHelloCap).Send(raftAnswer{OK: h.Marks[0].Mark.Index == 6, Generation: 1, Why: "turned back"})
		})
		s := newStreamLayer(netw.Host("b"), 1, Voter{Peer: "b", Incarnation: "1"}, func(string, uint64, ...string) {}, func() {})
		s.show = func() []mark.Signed { return []mark.Signed{{Mark: now}} }
		if _, err := s.Dial("a/1", time.Second); (err == nil) != c.newer || err != nil && !strings.Contains(err.Error(), "turned back") {
			t.Errorf("%s: %v", c.what, err)
		}
		_ = s.Close()
		_ = netw.Close()
		if greeted != c.greeted {
			t.Errorf("%s: it greeted %d times, want %d", c.what, greeted, c.greeted)
		}
	}
}

func TestClosingTheStreamLayerEndsItsStreams(t *testing.T) {
	netw := memnet.New()
	defer netw.Close()
	s := newStreamLayer(netw.Host("a"), 1, Voter{Peer: "a", Incarnation: "1"}, nil, func() {})
	c, err := s.dialSelfAccepted()
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a stream outlived its layer")
	}
	if _, err := s.Accept(); err == nil {
		t.Error("accepted after Close")
	}
	if _, err := s.Dial("a/1", time.Second); err == nil {
		t.Error("dialled after Close")
	}
}

// dialSelfAccepted dials itself with somebody accepting.
func (s *streamLayer) dialSelfAccepted() (net.Conn, error) {
	go func() { _, _ = s.Accept() }()
	return s.Dial(raft.ServerAddress(s.self.server()), time.Second)
}

func TestAVoterWhoseLogIsMissingGivesNoVoteAndSaysSo(t *testing.T) {
	netw := memnet.New()
	dir := t.TempDir()
	open := func() (*Node, error) {
		return Open(Config{Net: netw.Host("a"), Self: "a", Incarnation: "1", Draw: firstSeat, Dir: dir})
	}
	n, err := open()
	if err != nil {
		t.Fatal(err)
	}
	f := ledger.Found{Cluster: "c", Generation: 1, Founder: admission.Entry{Cluster: "c", Peer: "a", Roles: admission.AllRoles(), By: "a"}}
	if err := n.Found(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(n.folder.seatDir(1)); err != nil {
		t.Fatal(err)
	}
	if n, err = open(); err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	if l := n.Lost(); n.place.seat.Load() != nil || l == nil || l.Server != "a/1" || !strings.Contains(l.Why, "missing") {
		t.Errorf("opened without its log: %v, lost %+v", n.place.seat.Load(), l)
	}
}

func TestTheRingServesWhatItHasAndKnowsWhatItHasNot(t *testing.T) {
	r := newRing(100)
	r.reset(5)
	for i := uint64(6); i < 40; i += 2 {
		r.add(i, make([]byte, 10), ledger.Public{})
	}
	if _, ok := r.after(5, 1000); ok {
		t.Error("entries that fell out are still promised")
	}
	items, ok := r.after(25, 25)
	if !ok || len(items) != 2 || items[0].Index != 26 || items[1].Index != 28 {
		t.Errorf("after 25: %v %v", items, ok)
	}
	if items, ok := r.after(38, 1000); !ok || len(items) != 0 {
		t.Errorf("after the last: %v %v", items, ok)
	}
	if items, ok := r.after(37, 1); !ok || len(items) != 1 {
		t.Errorf("one entry larger than the limit: %v %v", items, ok)
	}
	r.reset(50)
	if _, ok := r.after(49, 1000); ok {
		t.Error("served from before a reset")
	}
}

// FuzzAFollowerSurvivesAnyFrame feeds a follower what a broken or hostile voter could send.
func FuzzAFollowerSurvivesAnyFrame(f *testing.F) {
	entry, _ := wire.Marshal(ledger.Entry{Epoch: taskstate.At(1, 2), By: "a", Commands: []ledger.Command{{Lead: &ledger.Lead{}}}})
	state, _ := ledger.NewState().Encode()
	for _, fr := range []followFrame{
		{Synced: true},
		{Items: []item{{Index: 1, Data: entry}}},
		{Items: []item{{Index: 2, Data: entry[:3], More: true}}},
		{Part: &snapshotPart{Data: state, Total: len(state), Last: true}},
		{Refuse: &followRefuse{Code: "busy", Voters: []string{"x"}}},
		{Mark: &bookmark{Coordinator: "b", Epoch: taskstate.At(1, 2), Voters: []Voter{{Peer: "b", Incarnation: "1", Voting: true}}, VotersIndex: 3}},
	} {
		b, _ := wire.Marshal(fr)
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		n, err := Open(Config{Net: memnet.New().Host("a"), Self: "a", Incarnation: "1", Draw: firstSeat, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		s := &following{n: n, peer: "b"}
		for _, b := range [][]byte{one, two, one} {
			var fr followFrame
			if wire.Unmarshal(b, &fr) == nil && s.handle(fr) != nil {
				return
			}
		}
	})
}

// FuzzAVoterAnswersAnyQuestion feeds the voter protocol what any admitted peer could send.
func FuzzAVoterAnswersAnyQuestion(f *testing.F) {
	for _, ask := range []voterAsk{
		{Status: &seatAsk{Generation: 1, Server: "a/1"}}, {Prepare: &seatAsk{Generation: 1, Server: "a/1"}}, {Leave: &Voter{Peer: "b", Incarnation: "1"}},
	} {
		b, _ := wire.Marshal(ask)
		f.Add(b)
	}
	_, n := founded(f)
	n.Follow([]taskstate.PeerID{"b"})
	f.Fuzz(func(t *testing.T, b []byte) {
		var ask voterAsk
		if wire.Unmarshal(b, &ask) == nil {
			_, _ = n.answerVoter(t.Context(), "b", ask)
		}
	})
}
