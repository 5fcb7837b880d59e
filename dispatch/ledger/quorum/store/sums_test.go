package store

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// flipIn turns one bit of a file around, and back.
func flipIn(t *testing.T, path string, at int64, bit int) (back func()) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	was := b[0]
	b[0] ^= 1 << bit
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	return func() {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			_, err = f.WriteAt([]byte{was}, at)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// What makes sense is for the owner of the log to say.
func soundEntry(data []byte) error {
	if string(data) != "sense" {
		return errors.New("nonsense")
	}
	return nil
}

func soundState(content []byte) error {
	if !bytes.HasPrefix(content, []byte("state ")) {
		return errors.New("nonsense")
	}
	return nil
}

func confEntry(index uint64) *raft.Log {
	c := raft.Configuration{Servers: []raft.Server{{ID: "p/1", Address: "p/1"}}}
	return &raft.Log{Index: index, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(c), AppendedAt: time.Unix(7, 9)}
}

// What is read is what was written, or rotten, or not there: whichever bit of the file flips,
// before the log is opened or after.
func TestNoFlippedBitMakesAnEntryAnotherOne(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir, Log: quiet, Entry: soundEntry})
	if err != nil {
		t.Fatal(err)
	}
	var logs []*raft.Log
	for i := range uint64(12) {
		logs = append(logs, &raft.Log{Index: i + 1, Term: 1, Type: raft.LogCommand, Data: bytes.Repeat([]byte{byte(i)}, 10+int(i)), AppendedAt: time.Unix(5, int64(i))})
	}
	logs = append(logs, confEntry(13))
	if err := errors.Join(s.StoreLogs(logs[:6]), s.StoreLogs(logs[6:])); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(path) != 1 {
		t.Fatal(path, err)
	}
	b, err := os.ReadFile(path[0])
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(b, "\x00"))
	check := func(s *Log, what string, at int64) (bad int) {
		for _, want := range logs {
			var got raft.Log
			err := s.GetLog(want.Index, &got)
			rot := new(damaged)
			switch {
			case errors.As(err, &rot), errors.Is(err, raft.ErrLogNotFound):
				bad++
			case err != nil:
				t.Errorf("%s byte %d: %v", what, at, err)
			case !got.AppendedAt.Equal(want.AppendedAt):
				t.Errorf("%s byte %d: entry %d was appended at %s", what, at, want.Index, got.AppendedAt)
			default:
				got.AppendedAt = want.AppendedAt
				if !reflect.DeepEqual(&got, want) {
					t.Errorf("%s byte %d: entry %d is now %+v", what, at, want.Index, got)
				}
			}
		}
		return bad
	}
	if check(s, "nothing flipped", 0) > 0 {
		t.Fatal("a log that is whole cannot be read")
	}
	noticed := 0
	for at := range int64(used) {
		back := flipIn(t, path[0], at, int(at)%8)
		noticed += min(1, check(s, "under the open log", at))
		back()
	}
	if noticed < used*3/4 {
		t.Errorf("of %d flipped bits %d were noticed", used, noticed)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	pristine := t.TempDir()
	if err := os.CopyFS(pristine, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		dir := filepath.Join(t.TempDir(), "d")
		if err := os.CopyFS(dir, os.DirFS(pristine)); err != nil {
			t.Fatal(err)
		}
		at := r.Int64N(int64(used))
		flipIn(t, filepath.Join(dir, filepath.Base(path[0])), at, r.IntN(8))
		s, err := Open(Config{Dir: dir, Log: quiet, Entry: soundEntry})
		if err != nil {
			continue
		}
		check(s, "before opening", at)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestEntriesWithoutAChecksumAreReadOnlyWhereTheyWereBefore(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{Dir: dir, Log: quiet, Entry: soundEntry})
	if err != nil {
		t.Fatal(err)
	}
	old := []*raft.Log{{Index: 1, Term: 1, Type: raft.LogCommand, Data: []byte("sense")}, confEntry(2), {Index: 3, Term: 1, Type: raft.LogNoop}, {Index: 4, Term: 1, Type: raft.LogCommand, Data: []byte("nonsense")}, {Index: 5, Term: 1, Type: raft.LogConfiguration, Data: []byte("nonsense")}, {Index: 6, Term: 1, Type: 77}}
	if err := s.wal.StoreLogs(old); err != nil {
		t.Fatal(err)
	}
	var l raft.Log
	if err := s.GetLog(1, &l); err == nil {
		t.Error("an entry of this version lost its checksum, and is believed")
	}
	if err := s.wal.SetUint64([]byte(keySummed), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Config{Dir: dir, Log: quiet, Entry: soundEntry}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range []bool{true, true, true, false, false, false} {
		if err := s.GetLog(uint64(i+1), &l); (err == nil) != want {
			t.Errorf("entry %d: %v", i+1, err)
		}
	}
	if !s.Unsummed() || s.summed != 7 {
		t.Errorf("checksums begin with entry %d", s.summed)
	}
	if err := s.StoreLogs([]*raft.Log{{Index: 7, Term: 1, Type: raft.LogNoop}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.GetLog(7, &l), s.DeleteRange(1, 6)); err != nil || s.Unsummed() {
		t.Error(err, s.Unsummed())
	}
}

func TestAFlippedBitInASnapshotIsNoticedWhereverItIs(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSnapshots(dir, quiet, soundState, fromBefore)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("state 9")
	conf := raft.Configuration{Servers: []raft.Server{{ID: "p/1", Address: "p/1"}}}
	_, trans := raft.NewInmemTransport("p/1")
	sink, err := s.Create(1, 9, 3, conf, 2, trans)
	if err == nil {
		err = persist(sink, body)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := sink.ID()
	meta, r, err := s.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, body) || meta.Size != int64(len(body)) || meta.Index != 9 {
		t.Fatalf("%x %+v %v", b, meta, err)
	}
	r.Close()
	for _, file := range []string{"state.bin", "meta.json"} {
		path := filepath.Join(dir, "snapshots", id, file)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range int64(len(b)) {
			back := flipIn(t, path, at, int(at)%8)
			if err := s.prove(id); err == nil {
				if m, _, err := s.Open(id); err != nil || m.Index != 9 || m.Term != 3 || m.ConfigurationIndex != 2 || !reflect.DeepEqual(m.Configuration, conf) {
					t.Errorf("%s byte %d: now it says %+v", file, at, m)
				}
			}
			back()
		}
	}
	// The newest that can be read stays; what cannot is out of raft's way.
	flipIn(t, filepath.Join(dir, "snapshots", id, "state.bin"), 40, 0)
	if err := s.keepSound(); err != nil {
		t.Fatal(err)
	}
	if l, err := s.List(); err != nil || len(l) > 0 {
		t.Error(l, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "damaged-"+id)); err != nil {
		t.Error(err)
	}
}

// fromBefore makes a content of now of one that was written before snapshots had a head.
func fromBefore(content []byte) ([]byte, error) {
	if b, ok := bytes.CutPrefix(content, []byte("before ")); ok {
		return append([]byte("state "), b...), nil
	}
	return nil, errors.New("nonsense")
}

func TestASnapshotFromBeforeSnapshotsHadAHeadIsConverted(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSnapshots(dir, quiet, soundState, fromBefore)
	if err != nil {
		t.Fatal(err)
	}
	_, trans := raft.NewInmemTransport("p/1")
	write := func(index uint64, content string) string {
		sink, err := s.FileSnapshotStore.Create(1, index, 3, raft.Configuration{}, 2, trans)
		if err == nil {
			err = persist(sink, []byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
		return sink.ID()
	}
	good, bad := write(9, "before 9"), write(10, "neither")
	if err := s.keepSound(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "damaged-"+bad)); err != nil {
		t.Error(err)
	}
	meta, r, err := s.Open(good)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || string(b) != "state 9" || meta.Size != 7 {
		t.Errorf("%q %+v %v", b, meta, err)
	}
}
