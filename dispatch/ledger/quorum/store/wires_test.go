package store

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/internal/golden"
)

func TestSnapshotsBeginAsTheyAlwaysDid(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: "file " + strings.TrimSpace(snapMagic), Frames: map[string]any{"head": &snapHead{}}})
}

func TestAnEntrysChecksumIsOfTheSameAsEver(t *testing.T) {
	got := sum(&raft.Log{Index: 7, Term: 3, Type: raft.LogCommand, Data: []byte("data"), AppendedAt: time.Unix(1_700_000_000, 5)})
	golden.Freeze(t, "an entry's extensions, kind 1", hex.EncodeToString(got[:]))
}
