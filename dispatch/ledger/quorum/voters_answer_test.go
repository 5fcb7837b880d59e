package quorum

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

func TestEveryQuestionToAVoterHasItsAnswer(t *testing.T) {
	_, n := founded(t)
	n.authority.seats.Hold("c", 1, 50, []string{"a", "b"})
	n.cfg.MayVote = func(p taskstate.PeerID) bool { return p == "role" }
	for _, c := range []struct {
		what, caller string
		ask          voterAsk
		says         string // of the refusal; "" = answered
		none         bool
	}{
		{"how far is your log", "b", voterAsk{Status: &seatAsk{Generation: 1, Server: "a/1"}}, "", false},
		{"the same to a seat that is taken", "b", voterAsk{Prepare: &seatAsk{Generation: 1, Server: "a/1"}}, "", false},
		{"how new is your copy", "b", voterAsk{Copy: &copyAsk{}}, "", false},
		{"from a stranger", "mallory", voterAsk{Status: &seatAsk{Generation: 1, Server: "a/1"}}, "mallory: it holds no seat", false},
		{"from a possible voter", "role", voterAsk{Status: &seatAsk{Generation: 1, Server: "a/1"}}, "role: it holds no seat", false},
		{"sit down, from a possible voter", "role", voterAsk{Prepare: &seatAsk{Generation: 1, Server: "a/1"}}, "role: it holds no seat", false},
		{"may I stand, from a possible voter", "role", voterAsk{Probe: &probeAsk{Generation: 1, Permit: "role/1", Term: 1}}, "only a peer that holds a seat", false},
		{"may another stand", "b", voterAsk{Probe: &probeAsk{Generation: 1, Permit: "a/1", Term: 1}}, "only a peer that holds a seat", false},
		{"may I stand in a term nobody has reached", "b", voterAsk{Probe: &probeAsk{Generation: 1, Permit: "b/1", Term: 1<<64 - 1}}, "in a term that can be", false},
		{"sit down in a ledger nobody has", "b", voterAsk{Prepare: &seatAsk{Generation: 1<<64 - 1, Server: "a/1"}}, "beyond what any honest peer knows", false},
		{"a copy for a stranger", "mallory", voterAsk{Copy: &copyAsk{}}, "not known here", false},
		{"nothing", "b", voterAsk{}, "an empty question", false},
		{"let somebody else go", "b", voterAsk{Leave: &Voter{Peer: "c", Incarnation: "1"}}, "a voter leaves for itself only", false},
		{"a seat of a life that is over", "b", voterAsk{Status: &seatAsk{Generation: 1, Server: "a/0"}}, errNoSeat.Error(), true},
		{"a seat of another ledger", "b", voterAsk{Status: &seatAsk{Generation: 2, Server: "a/1"}}, errNoSeat.Error(), true},
		{"sit down for another life", "b", voterAsk{Prepare: &seatAsk{Generation: 1, Server: "a/2"}}, "this is a/1", true},
		{"sit down in an older ledger", "b", voterAsk{Prepare: &seatAsk{Generation: 0, Server: "a/1"}}, "generation 1 here, 0 there", false},
		{"sit down in a newer ledger", "b", voterAsk{Prepare: &seatAsk{Generation: 7, Server: "a/1"}}, "generation 1 here, 7 there", true},
	} {
		a, err := n.answerVoter(t.Context(), c.caller, c.ask)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || a.None != c.none {
			t.Errorf("%s: %+v, %v; want %q", c.what, a, err, c.says)
		}
		if c.says == "" && c.ask.Copy == nil && a.Last == 0 {
			t.Errorf("%s: the log of a founder is empty", c.what)
		}
		if c.ask.Copy != nil && c.says == "" && (a.Copy == nil || a.Copy.Seat != "a/1" || a.Copy.Generation != 1 || a.Copy.Index == 0) {
			t.Errorf("%s: %+v", c.what, a.Copy)
		}
	}
	if a, err := n.answerVoter(t.Context(), "b", voterAsk{Marks: []mark.Signed{{}}}); err != nil || a.Last > 0 {
		t.Errorf("who only shows marks is told %+v, %v", a, err)
	}
	if n.Foreign() != 7 {
		t.Errorf("it heard of generation %d, want 7", n.Foreign())
	}
}

func TestAPeerThatStopsTakesNoSeat(t *testing.T) {
	n, err := Open(Config{Net: memnet.New().Host("b"), Self: "b", Incarnation: "1", Draw: firstSeat, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.prepare("a", seatAsk{Generation: 1, Server: "b/1"}); err == nil || !strings.Contains(err.Error(), "stopping") || n.HasSeat() {
		t.Errorf("it sat down: %v", err)
	}
}

func TestWhatAVoterAnswersIsToldAsItsWord(t *testing.T) {
	netw, n := founded(t)
	for _, c := range []struct {
		what   string
		answer any
		says   string
	}{
		{"no, and why", voterAnswer{Why: "my disk is full"}, "b: my disk is full"},
		{"yes, and no copy", voterAnswer{OK: true}, "update `peer` there"},
		{"what is no answer", "hello", "malformed"},
	} {
		answering(netw.Host("b"), VoterProtocol, c.answer)
		if _, err := n.AskCopy(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.what, err, c.says)
		}
	}
	answering(netw.Host("b"), VoterProtocol, voterAnswer{OK: true, Copy: &Copy{Generation: 3, Index: 5}})
	if c, err := n.AskCopy(t.Context(), "b"); err != nil || c.Generation != 3 || c.Index != 5 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := n.AskCopy(t.Context(), "nobody"); err == nil {
		t.Error("nobody answered")
	}
}

func TestCopiesAreOrderedByGenerationThenEpochThenIndex(t *testing.T) {
	anyCopy := rapid.Custom(func(r *rapid.T) Copy {
		small := rapid.Uint64Range(0, 2)
		return Copy{Generation: small.Draw(r, "generation"), Epoch: taskstate.At(small.Draw(r, "epoch"), small.Draw(r, "term")), Index: small.Draw(r, "index"), Stamp: rapid.Int64Range(0, 2).Draw(r, "stamp")}
	})
	// rank is the same order as one number.
	rank := func(c Copy) int {
		return int(((c.Generation*3+c.Epoch.Generation)*3+c.Epoch.Term)*3 + c.Index)
	}
	rapid.Check(t, func(r *rapid.T) {
		a, b := anyCopy.Draw(r, "a"), anyCopy.Draw(r, "b")
		got := a.Compare(b)
		if (got < 0) != (rank(a) < rank(b)) || (got > 0) != (rank(a) > rank(b)) {
			r.Fatalf("%+v and %+v: %d", a, b, got)
		}
	})
}

func TestAServersNameIsReadAsItIsWritten(t *testing.T) {
	for _, v := range []Voter{{Peer: "a", Incarnation: "1"}, {Peer: "12D3Koo", Incarnation: "x/y", Voting: true}} {
		peer, inc, err := parseServer(v.server())
		if err != nil || peer != v.Peer || inc != v.Incarnation {
			t.Errorf("%s is read as %s of %s: %v", v.server(), inc, peer, err)
		}
		if listens := strings.HasSuffix(v.String(), " (not voting)"); listens == v.Voting || !strings.HasPrefix(v.String(), v.server()) {
			t.Errorf("%+v is shown as %s", v, v)
		}
	}
	for _, bad := range []string{"", "a", "a/", "/1", "/"} {
		if _, _, err := parseServer(bad); err == nil || !strings.Contains(err.Error(), "PEER/INCARNATION") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestVotersAreOddAndTwoMajoritiesMeet(t *testing.T) {
	for n := range 40 {
		v := targetVoters(n)
		if v%2 == 0 || v > MaxVoters || v > max(n, 1) || v+2 <= min(n, MaxVoters) {
			t.Errorf("%d peers have %d voters", n, v)
		}
		if m := majority(v); 2*m <= v || 2*(m-1) > v {
			t.Errorf("%d of %d voters are a majority", m, v)
		}
	}
}
