package copies

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

func TestFramesAreAsTheirVersionHasThem(t *testing.T) {
	t.Parallel()
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"start": &ask{}, "start answer": &answer{}}})
}

func somebodyMet() map[taskstate.PeerID]pastProof {
	return map[taskstate.PeerID]pastProof{"b": {Nonce: 7, Proof: starts.Proof{Start: starts.Start{Number: 5, Before: 4}, Recent: []uint64{6, 7}, Halted: true, Sig: []byte("signed")}}}
}

// wholeFile is the file of who was met, as it is written.
func wholeFile(t testing.TB) []byte {
	t.Helper()
	m := met{path: filepath.Join(t.TempDir(), FileName)}
	if err := m.save(somebodyMet); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(m.path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What was written is read for ever.
func TestWhoWasMetIsWrittenAsItAlwaysWas(t *testing.T) {
	t.Parallel()
	whole := wholeFile(t)
	if err := golden.Check("testdata/files.txt", fmt.Sprintf("met: %s", whole)); err != nil {
		t.Fatal(err)
	}
	if m := decodeMet(whole); !reflect.DeepEqual(m, somebodyMet()) {
		t.Errorf("%+v", m)
	}
}

func TestNoFlippedBitMakesWhoWasMetAnotherOne(t *testing.T) {
	t.Parallel()
	golden.Torn(t, wholeFile(t), func(b []byte) bool { return decodeMet(b) != nil })
}

func FuzzWhoWasMetFromDiskNeverPanics(f *testing.F) {
	line, _ := atomicfile.Summed(wholeFile(f))
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		decodeMet(line)
		for _, p := range decodeMet(atomicfile.WithSum(line)) {
			if !p.Proof.Sane() {
				t.Fatalf("%+v", p)
			}
		}
	})
}
