package journal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memjournal"
)

const (
	self = taskstate.PeerID("wren")
	life = taskstate.Incarnation("first-life")
	work = taskstate.JobID("work222222")
)

func testOwner() journal.Owner {
	return journal.Owner{Format: journal.Format, Peer: self, Incarnation: life}
}

func newJournal(t testing.TB) memjournal.Journal {
	t.Helper()
	kv, err := memjournal.New(testOwner())
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// fullTxn touches every bucket.
func fullTxn(n uint64) *journal.Txn {
	job := taskstate.Job{ID: work, Type: taskstate.BatchJob, Count: 1_000_000, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Resources: taskstate.Resources{MilliCPU: 1000}}
	status := taskstate.Status{Task: taskstate.Task(work, int(n), 1), Seq: 2, State: taskstate.Running, Index: 7, At: 1, Exit: taskstate.NoExit}
	body, err := taskstate.EncodeBatch(taskstate.Batch{Author: self, Incarnation: life, Number: n, Statuses: []taskstate.Status{status}})
	if err != nil {
		panic(err)
	}
	return &journal.Txn{
		State: journal.State{Fence: taskstate.At(1, n), Acked: n - 1, Last: n, Begun: 10 * n},
		Frames: []journal.Frame{{Number: n, Base: 10 * n, Epoch: taskstate.At(1, n), Grants: []session.Grant{
			{Job: work, Index: 7, Slots: []ledger.Slots{{First: 1, N: 9, Attempt: 1}}},
		}}},
		Jobs:    []*taskstate.Job{&job},
		Batches: []*journal.SealedBatch{{Number: n, Batch: journal.Batch{Body: body, Envelope: append([]byte("signed "), body...)}}},
		Tombs:   []journal.Tomb{{Number: n, Task: taskstate.Task("noop222222", int(n), 1)}},
		Live:    []taskstate.Status{status},
		Done:    []journal.Done{{Frame: n, Runs: []uint32{0, 2, 5, 1}}},
	}
}

func openTestJournal(t *testing.T, dir string) (*journal.File, *journal.Image) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, journal.FileName)); err != nil {
		if err := journal.Create(dir, journal.Head{Owner: testOwner()}); err != nil {
			t.Fatal(err)
		}
	}
	j, img, err := journal.Open(t.Context(), dir, testOwner(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return j, img
}

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	j, _ := openTestJournal(t, dir)
	kv := newJournal(t)
	for n := uint64(1); n <= 3; n++ {
		for range 2 { // a repetition changes nothing
			if err := errors.Join(j.Save(fullTxn(n)), fullTxn(n).Apply(kv)); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := &journal.Txn{
		State: fullTxn(3).State, GoneFrames: []journal.GoneFrame{{Number: 1, Acks: []uint64{0}}}, GoneSigned: []uint64{1}, GoneTombs: []uint64{1},
		GoneLive: []taskstate.TaskID{taskstate.Task(work, 1, 1)},
	}
	if err := errors.Join(j.Save(gone), gone.Apply(kv), j.Close()); err != nil {
		t.Fatal(err)
	}
	j, img := openTestJournal(t, dir)
	defer j.Close()
	want, err := journal.Load(kv, testOwner())
	if err != nil {
		t.Fatal(err)
	}
	opts := cmp.AllowUnexported(journal.Image{}, journal.Head{}, journal.Owner{}, journal.State{}, journal.ImageBatch{}, journal.ImageDone{}, journal.Tomb{}, taskstate.TaskID{}, taskstate.Status{}, taskstate.Epoch{}, ledger.Slots{})
	if d := cmp.Diff(want, img, opts); d != "" {
		t.Fatalf("the file differs from its twin in memory:\n%s", d)
	}
	if len(img.Frames) != 2 || len(img.Batches) != 2 || len(img.Tombs) != 2 || len(img.Live) != 2 || len(img.Done) != 2 {
		t.Fatalf("read %+v", img)
	}
}

func TestAJournalIsForOneProcessAtATime(t *testing.T) {
	dir := t.TempDir()
	j, _ := openTestJournal(t, dir)
	defer j.Close()
	_, _, err := journal.Open(t.Context(), dir, testOwner(), 0)
	if !errors.Is(err, journal.ErrInUse) || !strings.Contains(err.Error(), "data folder in use") {
		t.Fatalf("a second one got: %v", err)
	}
}

// TestADamagedJournalIsSaidToBe cuts and spoils a file everywhere: it is read as it was, or refused
// with advice; never a panic, never something else.
func TestADamagedJournalIsSaidToBe(t *testing.T) {
	dir := t.TempDir()
	j, _ := openTestJournal(t, dir)
	for n := uint64(1); n <= 20; n++ {
		if err := j.Save(fullTxn(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, journal.FileName))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	refused := 0
	try := func(name string, b []byte) {
		t.Helper()
		d := t.TempDir()
		if err := os.WriteFile(filepath.Join(d, journal.FileName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		j, img, err := journal.Open(t.Context(), d, testOwner(), 0)
		switch {
		case err == nil:
			j.Close()
			if img.State.Last < 19 {
				t.Fatalf("%s: read as if only %d batches had been", name, img.State.Last)
			}
		case !errors.Is(err, journal.ErrCorrupt):
			t.Fatalf("%s: %v", name, err)
		case strings.Contains(err.Error(), "pointer") || strings.Contains(err.Error(), "runtime error"):
			t.Fatalf("%s: no words for a person: %v", name, err)
		default:
			refused++
		}
	}
	for size := 0; size < len(whole); size += page/2 + 100 {
		try(fmt.Sprint("cut at ", size), whole[:size])
	}
	used := len(bytes.TrimRight(whole, "\x00"))
	for at := 0; at < used; at += page / 3 {
		b := bytes.Clone(whole)
		for i := range min(64, len(b)-at) {
			b[at+i] ^= 0xa5
		}
		try(fmt.Sprint("spoilt at ", at), b)
	}
	if refused == 0 {
		t.Fatal("no damage was noticed")
	}
}

// TestAFullDiskLosesNothing writes into a file system of one megabyte until it is full, then makes
// room.
func TestAFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "covey", dir).CombinedOutput(); err != nil {
		t.Skipf("cannot mount a small file system here: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", dir).Run() })
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 600<<10), 0o600); err != nil {
		t.Skip("the file system is smaller than asked for")
	}
	j, _ := openTestJournal(t, dir)
	n := uint64(0)
	var err error
	var stuck *journal.Txn
	for err == nil && n < 10_000 {
		n++
		stuck = fullTxn(n)
		stuck.Batches[0].Envelope = make([]byte, 32<<10)
		err = j.Save(stuck)
	}
	if err == nil {
		t.Fatal("the disk never filled")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(j.Save(stuck), j.Close()); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	j, img := openTestJournal(t, dir)
	defer j.Close()
	if uint64(len(img.Batches)) != n || img.State.Last != n {
		t.Fatalf("%d batches of %d are left", len(img.Batches), n)
	}
}

func FuzzARecordOfDebrisIsRefused(f *testing.F) {
	kv := newJournal(f)
	if err := fullTxn(1).Apply(kv); err != nil {
		f.Fatal(err)
	}
	for bucket, records := range kv {
		for k, v := range records {
			f.Add(bucket, []byte(k), v[:len(v)-4])
		}
	}
	f.Fuzz(func(t *testing.T, bucket string, key, value []byte) {
		kv := newJournal(t)
		if err := fullTxn(1).Apply(kv); err != nil {
			t.Fatal(err)
		}
		_ = kv.Put(bucket, key, binary.BigEndian.AppendUint32(value, crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)))) // past the checksum, to the decoders
		if img, err := journal.Load(kv, testOwner()); err == nil {
			worker.NewCore(self, life, session.Offer{Resources: taskstate.Resources{MilliCPU: 2000, Memory: 1 << 30}}, img, time.UnixMilli(1_700_000_000_000))
		}
	})
}
