package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/copies"
)

// The two files of one word are read by every later version.
func TestAnIncarnationAndAnIdentityGivenUpAreWrittenAsTheyAlwaysWere(t *testing.T) {
	t.Parallel()
	f := &folder{dir: t.TempDir()}
	if err := f.writeRenounced(copies.Renounced{Peer: "p1", Number: 7, Sig: []byte("signed")}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.path(renouncedName))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(f.dir, "incarnation")
	drawn, err := readIncarnation(path)
	if err != nil {
		t.Fatal(err)
	}
	word, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("renounced: %sincarnation: %s", b, strings.ReplaceAll(string(word), string(drawn), fmt.Sprintf("%d hexadecimal digits", len(drawn))))
	if err := golden.Check("testdata/words.txt", got); err != nil {
		t.Error(err)
	}
}
