package node

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	"covey/internal/golden"
	"covey/p2p/starts"
	"covey/taskstate"
)

// aStart is one that says everything.
func aStart() lastBegun {
	return lastBegun{Number: 3, Before: 2, Stamps: []uint64{2, 3}, Chain: []uint64{1, 2}, Place: "8:1:42", Host: "somewhere"}
}

func somebodyMet() map[taskstate.PeerID]pastProof {
	return map[taskstate.PeerID]pastProof{"b": {Nonce: 7, Proof: starts.Proof{Start: starts.Start{Number: 5, Before: 4}, Recent: []uint64{6, 7}, Halted: true, Sig: []byte("signed")}}}
}

// wholeFiles are the files that a start reads and this package writes, as they are written.
func wholeFiles(t testing.TB) map[string][]byte {
	t.Helper()
	f := &folder{dir: t.TempDir()}
	m := met{path: f.path(metName)}
	for _, err := range []error{f.remember(aStart()), m.save(somebodyMet)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all := map[string][]byte{}
	for name, path := range map[string]string{"starts": f.path(startsName), "met": f.path(metName)} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = b
	}
	return all
}

// What was written is read for ever.
func TestTheFilesOfAFolderAreWrittenAsTheyAlwaysWere(t *testing.T) {
	t.Parallel()
	all := wholeFiles(t)
	got := fmt.Sprintf("starts: %smet: %s", all["starts"], all["met"])
	if err := golden.Check("testdata/files.txt", got); err != nil {
		t.Fatal(err)
	}
	if s := decodeStart(all["starts"]); !reflect.DeepEqual(s, aStart()) {
		t.Errorf("%+v", s)
	}
	if m := decodeMet(all["met"]); !reflect.DeepEqual(m, somebodyMet()) {
		t.Errorf("%+v", m)
	}
}

func TestNoFlippedBitMakesAStartOrWhoWasMetAnotherOne(t *testing.T) {
	t.Parallel()
	all := wholeFiles(t)
	for name, read := range map[string]func([]byte) bool{
		"starts": func(b []byte) bool { return decodeStart(b).Number != 0 },
		"met":    func(b []byte) bool { return decodeMet(b) != nil },
	} {
		whole := all[name]
		for i := range 8 * len(whole) {
			torn := slices.Clone(whole)
			torn[i/8] ^= 1 << (i % 8)
			if read(torn) {
				t.Fatalf("%s with bit %d flipped is believed: %q", name, i, torn)
			}
		}
		for n := range whole {
			if read(whole[:n]) {
				t.Fatalf("%s cut after %d bytes is believed", name, n)
			}
		}
	}
}

func FuzzAStartFromDiskNeverPanics(f *testing.F) {
	f.Add([]byte(`{"number":3,"before":2,"stamps":[2],"chain":[1,2],"place":"8:1:42","host":"somewhere"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		decodeStart(line)
		if last := decodeStart(withSum(line)); len(last.Chain) > maxChain || len(last.Stamps) > 2 {
			t.Fatalf("%+v", last)
		}
	})
}

func FuzzWhoWasMetFromDiskNeverPanics(f *testing.F) {
	line, _ := summed(wholeFiles(f)["met"])
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		decodeMet(line)
		for _, p := range decodeMet(withSum(line)) {
			if !p.Proof.Sane() {
				t.Fatalf("%+v", p)
			}
		}
	})
}
