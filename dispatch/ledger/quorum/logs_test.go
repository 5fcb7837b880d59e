package quorum

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/taskstate"
)

// Every term begins with an entry that says nothing. Two terms of one number that have decided
// nothing yet differ in it all the same.
func TestTheFirstEntriesOfTwoLeadersOfOneTermContradictEachOther(t *testing.T) {
	first := func(at time.Time) *logPoint {
		return &logPoint{Index: 20, Term: 3, Sum: entrySum(&raft.Log{Index: 20, Term: 3, Type: raft.LogNoop, AppendedAt: at})}
	}
	at := time.Unix(1_800_000_000, 7)
	if !first(at).contradicts(first(at.Add(1))) || first(at).contradicts(first(at.UTC())) {
		t.Error("entries of two leaders are taken for one, or one for two")
	}
}

func TestAVoterWhoseLogContradictsTheMajorityGivesItsSeatUpAndNoLaterOne(t *testing.T) {
	entry := func(term uint64, sum byte) *logPoint {
		return &logPoint{Index: 7, Term: term, Sum: []byte(strings.Repeat(string(rune(sum)), 32))}
	}
	for name, c := range map[string]struct {
		own    []*logPoint // at the beginning and at the end
		others map[taskstate.PeerID]*logPoint
		gives  bool
		says   string
	}{
		"the others agree":                 {[]*logPoint{entry(3, 'a'), entry(3, 'a')}, map[string]*logPoint{"b": entry(3, 'b'), "c": entry(3, 'b')}, true, "is only here"},
		"one agrees with it":               {[]*logPoint{entry(3, 'a'), entry(3, 'a')}, map[string]*logPoint{"b": entry(3, 'b'), "c": entry(3, 'a')}, false, ""},
		"no majority agrees":               {[]*logPoint{entry(3, 'a'), entry(3, 'a')}, map[string]*logPoint{"b": entry(3, 'b')}, false, "type `peer recover`"},
		"a later term decided another one": {[]*logPoint{entry(3, 'a'), entry(3, 'a')}, map[string]*logPoint{"b": entry(4, 'b'), "c": entry(4, 'b')}, true, "is only here"},
		"it has no seat by now":            {[]*logPoint{nil, nil}, map[string]*logPoint{"b": entry(3, 'b'), "c": entry(3, 'b')}, false, ""},
		"it took another seat meanwhile":   {[]*logPoint{entry(3, 'a'), entry(3, 'b')}, map[string]*logPoint{"b": entry(3, 'b'), "c": entry(3, 'b')}, false, ""},
	} {
		looked, gave := 0, 0
		x := &comparison{
			self: "a", log: slog.New(slog.DiscardHandler), found: func(string) { gave++ },
			voters: func() []Voter {
				return []Voter{{Peer: "a", Voting: true}, {Peer: "b", Voting: true}, {Peer: "c", Voting: true}}
			},
			point: func(uint64) *logPoint { looked++; return c.own[min(looked, len(c.own))-1] },
			ask: func(_ context.Context, peer taskstate.PeerID, q voterAsk, _ time.Duration) (voterAnswer, error) {
				if q.Log == nil || q.Log.Index != 7 {
					t.Errorf("%s: the question is %+v", name, q)
				}
				return voterAnswer{Log: c.others[peer]}, nil
			},
		}
		said := x.investigateLogs(t.Context(), 7)
		if (gave == 1) != c.gives || gave > 1 || c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%s: it gives %d seats up and says %q", name, gave, said)
		}
	}
}
