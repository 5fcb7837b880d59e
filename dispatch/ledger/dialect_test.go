package ledger_test

import (
	"errors"
	"slices"
	"testing"

	"covey/dispatch/ledger"
	"covey/taskstate"
)

func reads(peer taskstate.PeerID, dialect int) ledger.Command {
	return ledger.Command{Reads: &ledger.Reads{Peer: peer, Dialect: dialect}}
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

func TestWhoeverIsRemovedHoldsNobodyUp(t *testing.T) {
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
