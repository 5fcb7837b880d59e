package mark_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
)

// sign and verify are those of a world in which a signature is the signer's name and what was
// signed.
func sign(name string) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) { return append([]byte(name), b[len(b)-8:]...), nil }
}

func verify(name string, b, sig []byte) error {
	if want, _ := sign(name)(b); !bytes.Equal(want, sig) {
		return errors.New("a bad signature")
	}
	return nil
}

func signed(t *testing.T, by string, m mark.Mark) mark.Signed {
	t.Helper()
	s, err := mark.Sign(m, sign(by))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAMarkCountsOnlyIfItsOwnerSignedIt(t *testing.T) {
	m := mark.Mark{Server: "p/1", Generation: 1, Term: 2, Index: 300, Voted: 70000, Decided: 80000}
	if err := signed(t, "p", m).Check(verify); err != nil {
		t.Error(err)
	}
	forged := signed(t, "p", m)
	forged.Mark.Decided = 90000
	for what, s := range map[string]mark.Signed{
		"another's": signed(t, "q", m), "another number": forged, "no server": signed(t, "", mark.Mark{Server: "p"}), "no signature": {Mark: m},
		"a long one": {Mark: m, Sig: make([]byte, 10<<10)},
	} {
		if s.Check(verify) == nil {
			t.Errorf("%s: it counts", what)
		}
	}
}

func TestABookKeepsTheNewestMarkOfEachServer(t *testing.T) {
	var b mark.Book
	at := func(server string, generation, index uint64) mark.Signed {
		return signed(t, "p", mark.Mark{Server: server, Generation: generation, Term: 1, Index: index})
	}
	for i, c := range []struct {
		s    mark.Signed
		news bool
	}{{at("p/1", 1, 5), true}, {at("p/1", 1, 4), false}, {at("p/1", 1, 5), false}, {at("q/1", 1, 3), true}, {at("p/1", 1, 9), true}, {at("p/1", 2, 1), true}} {
		if b.Add(c.s) != c.news {
			t.Errorf("mark %d: news is %v", i, !c.news)
		}
	}
	data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if b, err = mark.DecodeBook(data); err != nil {
		t.Fatal(err)
	}
	if got, ok := b.Of("p/1", 1); !ok || got.Mark.Index != 9 || len(b.In(1)) != 2 || len(b.In(2)) != 1 {
		t.Errorf("after a restart: %+v; %d and %d marks", got, len(b.In(1)), len(b.In(2)))
	}
	for i := range uint64(40) {
		b.Add(at("x/"+string(rune('a'+i)), 7, i))
	}
	if n := len(b.In(7)); n > 16 || n == 0 || len(b.In(1)) > 0 {
		t.Errorf("it keeps %d marks of the newest generation, and %d of the oldest", n, len(b.In(1)))
	}
	if _, err := mark.DecodeBook([]byte("garbage")); err == nil {
		t.Error("garbage is a book")
	}
}
