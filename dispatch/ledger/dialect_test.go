package ledger_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

func reads(peer taskstate.PeerID, dialect int) ledger.Command {
	return ledger.Command{Reads: &ledger.ReadsDialect{Peer: peer, Dialect: dialect}}
}

// members reads out who is in, the peers of a new log.
func members(s *ledger.State) (out []taskstate.PeerID) {
	for m := range s.Members() {
		if m.In() {
			out = append(out, m.Entry.Peer)
		}
	}
	return out
}

type later struct {
	Field string `cbor:"1,keyasint,omitempty" dialect:"2"`
}

func TestTheClusterSpeaksTheLeastOfWhatItsMembersReadAndNeverLessAgain(t *testing.T) {
	l := newLog(t)
	all := members(l.State)
	last := all[len(all)-1]
	for _, p := range all[:len(all)-1] {
		l.must(reads(p, 2))
		if l.Dialects().Spoken() != 1 {
			t.Fatal("one member reads 1 still")
		}
	}
	var e *ledger.DialectError
	if err := l.Dialects().Speaks(&later{"new"}); !errors.As(err, &e) || !slices.Equal(e.Peers, []string{last}) {
		t.Errorf("it is to name %s: %v", last, err)
	}
	if err := l.Dialects().Speaks(&later{}); err != nil {
		t.Errorf("nothing new is said: %v", err)
	}
	l.must(reads(last, 3))
	if err := l.Dialects().Speaks(&later{"new"}); err != nil || l.Dialects().Spoken() != 2 {
		t.Errorf("dialect %d: %v", l.Dialects().Spoken(), err)
	}
	l.refuses(ledger.CodeDialect, reads(last, 1))
	l.refuses(ledger.CodeInvalid, reads(last, 0))
	l.refuses(ledger.CodeUnknown, reads("nobody", 2))
	l.must(invite("t2", 0))
	l.refuses(ledger.CodeDialect, admit("old", "t2"))
	back, err := ledger.DecodeState(encode(t, l.State))
	if err != nil || back.Dialects().Spoken() != 2 {
		t.Fatalf("%v", err)
	}
}

func TestARemovedPeerHoldsNobodyUp(t *testing.T) {
	l := newLog(t)
	all := members(l.State)
	for _, p := range all[:len(all)-1] {
		l.must(reads(p, 2))
	}
	l.must(ledger.Command{Remove: &ledger.Remove{Peer: all[len(all)-1]}})
	if l.Dialects().Spoken() != 2 {
		t.Errorf("dialect %d", l.Dialects().Spoken())
	}
}

// Members come and go with this version and that. What they say is decided, in steps however
// small, none of which is refused; and at no step does the cluster speak what one of them has just
// said that it does not read. Only who does not read even what is spoken already holds nobody up.
func TestWhatMembersSayIsDecidedWithoutAWordThatOneOfThemDoesNotRead(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := newLog(t)
		for _, p := range []taskstate.PeerID{"p3", "p4"} {
			l.must(ledger.Command{Admit: &ledger.Admit{Entry: entryFor(p, admission.Worker), Dialect: rapid.IntRange(0, 3).Draw(r, "admitted with")}})
		}
		for range rapid.IntRange(1, 6).Draw(r, "rounds") {
			who := rapid.SliceOfDistinct(rapid.SampledFrom(append(members(l.State), "stranger")), rapid.ID).Draw(r, "who")
			say, least := map[taskstate.PeerID]int{}, 9
			before, steps := l.Dialects().Spoken(), 0
			for _, p := range who {
				say[p] = rapid.IntRange(1, 4).Draw(r, "says")
				if p != "stranger" && say[p] >= before {
					least = min(least, say[p])
				}
			}
			for limit := rapid.IntRange(1, 5).Draw(r, "limit"); ; steps++ {
				news := l.Dialects().Heard(say, limit)
				if len(news) == 0 {
					break
				}
				if len(news) > limit || steps > len(say) {
					r.Fatalf("%d commands where there may be %d, in step %d", len(news), limit, steps)
				}
				l.must(news...)
				if d := l.Dialects().Spoken(); d < before || d > max(before, least) {
					r.Fatalf("the cluster speaks %d, spoke %d, and the least that was said is %d", d, before, least)
				}
			}
			for p, said := range say {
				if m, ok := l.Member(p); ok && m.Reads() != said && said >= l.Dialects().Spoken() {
					r.Fatalf("%s said %d and is known to read %d", p, said, m.Reads())
				}
			}
		}
	})
}

func TestAMemberThatComesInAgainReadsWhatItSaysThen(t *testing.T) {
	l := newLog(t)
	back := func(dialect int, at int64) ledger.Command {
		e := entryFor("p2", admission.Worker)
		e.At = at
		return ledger.Command{Admit: &ledger.Admit{Entry: e, Dialect: dialect}}
	}
	l.must(reads("p2", 2), back(0, 10))
	if m, _ := l.Member("p2"); m.Reads() != 2 {
		t.Errorf("other roles are no other program: %+v", m)
	}
	l.must(back(1, 20))
	if m, _ := l.Member("p2"); m.Reads() != 1 {
		t.Errorf("it lost its data, and has another program: %+v", m)
	}
	l.must(reads("p1", 2), reads("p2", 2))
	l.refuses(ledger.CodeDialect, back(1, 30))
}
