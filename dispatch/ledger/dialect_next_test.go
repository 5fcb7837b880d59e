//go:build nextdialect

package ledger_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
)

func TestTheNextDialectHasACommandMoreWhoseOutcomeIsInSnapshots(t *testing.T) {
	l := newLog(t)
	c := ledger.Command{NextCommand: ledger.NextCommand{Note: &ledger.Note{Text: "kept"}}}
	if err, old := l.Dialects().Speaks(c), new(ledger.DialectError); !errors.As(err, &old) || len(old.Peers) != 2 {
		t.Errorf("two members read less: %v", err)
	}
	before := encode(t, l.State)
	l.must(reads("p1", 2), reads("p2", 2))
	if err := l.Dialects().Speaks(c); err != nil {
		t.Error(err)
	}
	l.must(c)
	again, err := ledger.DecodeState(encode(t, l.State))
	if err != nil || ledger.NoteOf(l.State) != "kept" || ledger.NoteOf(again) != "kept" {
		t.Errorf("the note after a snapshot: %v", err)
	}
	if bytes.Contains(before, []byte{0x18, 99}) {
		t.Error("a snapshot in which nothing is new has the new field")
	}
}
