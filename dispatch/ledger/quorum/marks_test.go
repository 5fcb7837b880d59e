package quorum

import (
	"crypto/sha256"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
)

// Who starts hears from others how far it had come before its seat is open.
func TestAVoterThatHeardOfAnOlderMarkOfItsOwnIsNotTurnedBack(t *testing.T) {
	_, n := founded(t)
	n.cfg.Sign = func(b []byte) ([]byte, error) { sum := sha256.Sum256(b); return sum[:], nil }
	s := n.place.seat.Load()
	now, ok := s.store.Acknowledged()
	if !ok || now.Index < 2 {
		t.Fatalf("a founder's mark is %+v", now)
	}
	older := now
	older.Index--
	n.marks.attest(older)
	other := now
	other.Server = "b/1"
	n.marks.attest(other)
	shown := n.marks.show(s)
	if len(shown) != 2 || shown[0].Mark != now || shown[1].Mark != other {
		t.Errorf("it shows %+v, want its own mark as it is now, and b's", shown)
	}
	voter := &seenMarks{}
	voter.book.Add(mark.Signed{Mark: now})
	if voter.turnedBack(now.Server, now.Generation, shown) {
		t.Error("a voter that knows the newer mark takes it for turned back")
	}
}
