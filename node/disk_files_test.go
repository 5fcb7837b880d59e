package node

import (
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/golden"
)

// aStart is one that says everything.
func aStart() lastBegun {
	return lastBegun{Number: 3, Before: 2, Stamps: []uint64{2, 3}, Place: "8:1:42", Host: "somewhere", Logs: []uint64{5, 6}, Stale: "it moved", Left: 7}
}

// wholeFile is the file that a start reads and this package writes, as it is written.
func wholeFile(t testing.TB) []byte {
	t.Helper()
	f := &folder{dir: t.TempDir()}
	if err := f.remember(aStart()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.path(startsName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What was written is read for ever.
func TestTheStartsOfAFolderAreWrittenAsTheyAlwaysWere(t *testing.T) {
	t.Parallel()
	whole := wholeFile(t)
	if err := golden.Check("testdata/files.txt", fmt.Sprintf("starts: %s", whole)); err != nil {
		t.Fatal(err)
	}
	if s := decodeStart(whole); !reflect.DeepEqual(s, aStart()) {
		t.Errorf("%+v", s)
	}
}

func TestNoFlippedBitMakesAStartAnotherOne(t *testing.T) {
	t.Parallel()
	golden.Torn(t, wholeFile(t), func(b []byte) bool { return decodeStart(b).Number != 0 })
}

func FuzzAStartFromDiskNeverPanics(f *testing.F) {
	f.Add([]byte(`{"number":3,"before":2,"stamps":[2],"chain":[1,2],"place":"8:1:42","host":"somewhere"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		decodeStart(line)
		if last := decodeStart(atomicfile.WithSum(line)); len(last.Stamps) > 2 || len(last.Logs) > 2 {
			t.Fatalf("%+v", last)
		}
	})
}
