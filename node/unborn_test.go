package node

import (
	"testing"

	"covey/dispatch/ledger"
)

// newUnborn is a peer that has all its parts and does not run: its replica is fed by the test, and it hears it.
func newUnborn(t *testing.T) *Node {
	t.Helper()
	n, err := New(small(t, Config{}))
	if err != nil {
		t.Fatal(err)
	}
	undo := n.observe()
	t.Cleanup(func() {
		for _, f := range undo {
			f()
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// snapshotOf is a copy of a peer's decided state, as it travels.
func snapshotOf(t *testing.T, l *living) (s *ledger.State) {
	t.Helper()
	var b []byte
	var err error
	l.replica.Read(func(s *ledger.State) { b, err = s.Encode() })
	if err == nil {
		s, err = ledger.DecodeState(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}
