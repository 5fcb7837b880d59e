package quorum

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

func anEntry(t *testing.T, c any) []byte {
	t.Helper()
	b, err := wire.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return encoded(t, ledger.EncodedEntry{Epoch: taskstate.At(1, 1), Stamp: 1, By: "p", Commands: []cbor.RawMessage{b}})
}

// A peer that passed over what it cannot read would hold another ledger than the others from then
// on.
func TestNothingIsAppliedBeyondAnEntryOfANewerProgramAndAllOfItOnceItCanBeRead(t *testing.T) {
	p := &ownSeat{rep: ledger.NewReplica()}
	f := &feed{rep: p.rep, unread: &p.unread, ring: newRing(1 << 10), compared: &comparison{}, wakes: &wakes{}, log: slog.New(slog.DiscardHandler)}
	plain := anEntry(t, ledger.Command{Lead: &ledger.Lead{}})
	newer := anEntry(t, map[int]any{99: map[int]int{1: 1}})
	if _, err := f.apply(1, plain, ledger.ReadEntry); err != nil {
		t.Fatal(err)
	}
	if _, err := f.apply(2, newer, ledger.ReadEntry); !errors.Is(err, ErrNewer) {
		t.Fatal(err)
	}
	for _, index := range []uint64{3, 4} {
		if _, err := f.apply(index, plain, ledger.ReadEntry); !errors.Is(err, ErrNewer) || p.rep.Applied() != 1 {
			t.Fatalf("entry %d: %v, and the replica is at %d", index, err, p.rep.Applied())
		}
	}
	if _, err := f.apply(2, plain, ledger.ReadEntry); err != nil || p.unread.err() != nil { // as a program that reads it
		t.Fatal(err)
	}
	if _, err := f.apply(3, plain, ledger.ReadEntry); err != nil || p.rep.Applied() != 3 {
		t.Fatal(err)
	}
}

// An entry that is no entry is not a newer program's: what follows is applied, so that the chain
// tells others apart from this peer, which gives its seat up then.
func TestADamagedEntryIsNotTakenForOneOfANewerProgram(t *testing.T) {
	p := &ownSeat{rep: ledger.NewReplica()}
	f := &feed{rep: p.rep, unread: &p.unread, ring: newRing(1 << 10), compared: &comparison{}, wakes: &wakes{}, log: slog.New(slog.DiscardHandler)}
	whole := ledger.NewReplica()
	for index := uint64(1); index <= 4; index++ {
		data := anEntry(t, ledger.Command{Lead: &ledger.Lead{Chain: true}})
		e, err := ledger.ReadEntry(index, data)
		if err != nil {
			t.Fatal(err)
		}
		whole.Apply(e)
		if index == 3 {
			data = data[:len(data)-1]
		}
		if _, err := f.apply(index, data, ledger.ReadEntry); (err != nil) != (index == 3) || errors.Is(err, ErrNewer) {
			t.Fatalf("entry %d: %v", index, err)
		}
	}
	if err := p.unread.err(); err != nil || p.rep.Applied() != 4 {
		t.Errorf("it is at %d: %v", p.rep.Applied(), err)
	}
	right, ok := whole.ChainAt(4)
	if own, known := p.rep.ChainAt(4); !ok || !known || own.From != right.From || own.Sum == right.Sum {
		t.Errorf("nobody would see the difference: %+v, %+v", own, right)
	}
}

// The cluster speaks more than this program reads, since an entry that it can read: nothing in the
// newer dialect has to have been written yet.
func TestNothingIsAppliedOnceTheClusterSpeaksWhatThisProgramDoesNotRead(t *testing.T) {
	p := &ownSeat{rep: ledger.NewReplica()}
	f := &feed{rep: p.rep, unread: &p.unread, ring: newRing(1 << 10), compared: &comparison{}, wakes: &wakes{}, log: slog.New(slog.DiscardHandler)}
	founded := anEntry(t, ledger.Command{Found: &ledger.Found{Cluster: "c", Generation: 1, Founder: admission.Entry{Peer: "p", Cluster: "c"}}})
	raised := anEntry(t, ledger.Command{Reads: &ledger.ReadsDialect{Peer: "p", Dialect: wire.Dialect + 1}})
	for i, data := range [][]byte{founded, raised} {
		if _, err := f.apply(uint64(i+1), data, ledger.ReadEntry); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.apply(3, anEntry(t, ledger.Command{Lead: &ledger.Lead{}}), ledger.ReadEntry); !errors.Is(err, ErrNewer) || p.rep.Applied() != 2 {
		t.Errorf("%v, and the replica is at %d", err, p.rep.Applied())
	}
	b, err := p.rep.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readState(b); !errors.Is(err, wire.ErrUnknown) {
		t.Errorf("its snapshot is read: %v", err)
	}
}
