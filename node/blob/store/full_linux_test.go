package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/coveyproject/covey/node/blob/piece"

	"golang.org/x/sys/unix"
)

// A disk of 16 MiB that others write to as well.
func TestAFullDiskIsToldWithWhatIsNeededAndFreeAndLeavesNothingTorn(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skip("a small disk cannot be made here:", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	blobs := filepath.Join(dir, "blobs")
	s := openStore(t, blobs, Config{Quota: 1 << 30})
	filler := filepath.Join(dir, "filler")
	fill := func() {
		t.Helper()
		free, _, err := s.disk.room()
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filler, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(make([]byte, free))
		if err := errors.Join(err, f.Close()); err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
	}
	noRoom := func(err error, needed int64) {
		t.Helper()
		var full *NoRoom
		if !errors.As(err, &full) || !full.Disk || full.Needed < needed || full.Free >= full.Needed || full.Free > 17*mib {
			t.Fatal(err)
		}
		for _, d := range []string{making, partials} {
			if left, err := os.ReadDir(filepath.Join(blobs, d)); len(left) > 0 || err != nil {
				t.Fatal(left, err)
			}
		}
		if u := s.Usage(); u.Bytes != 0 {
			t.Fatal(u)
		}
	}
	all := samples(20*mib, 6*mib, 3*mib+1, 5000)
	large, mid, other, small := all[0], all[1], all[2], all[3]

	_, err := s.Begin(t.Context(), large.blob, false)
	noRoom(err, costOf(20*mib))
	for _, expected := range []int64{-1, 20 * mib} {
		b := s.Batch(true)
		_, _, err := b.Add(t.Context(), bytes.NewReader(large.data), expected)
		b.Close()
		noRoom(err, 16*mib)
	}
	// Others fill the disk while a file comes in: nobody could know before.
	b := s.Batch(true)
	_, _, err = b.Add(t.Context(), io.MultiReader(bytes.NewReader(mid.data[:5*mib]), calling(fill), bytes.NewReader(mid.data[5*mib:])), mid.blob.Size())
	b.Close()
	noRoom(err, costOf(6*mib))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}

	// What a fetch has begun to use is its own.
	f := fetch(t, s, mid, 5)
	fill()
	for _, i := range []int{0, 1, 2, 3, 4} {
		if err := f.Piece(i, mid.piece(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Done(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := reads(t, s, mid); err != nil {
		t.Fatal(err)
	}
	// What is pinned stays, and nothing else comes in; what is not makes place.
	fill()
	if err := s.Pin(Pin{Name: "p", Roots: []piece.Root{mid.root()}}); !errors.Is(err, ErrNoRoom) {
		t.Fatal(err)
	}
	release, err := s.Lease(mid.root(), "test")
	if err != nil {
		t.Fatal(err)
	}
	var full *NoRoom
	if _, _, err := s.Add(t.Context(), bytes.NewReader(small.data), true); !errors.As(err, &full) || !full.Disk {
		t.Fatal(err)
	}
	release()
	add(t, s, other)
	if s.Have(mid.root()).Pieces != nil {
		t.Fatal("there is room for both on a full disk")
	}
	if err := reads(t, s, other); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	add(t, s, mid)
	s = openStore(t, blobs, Config{Quota: 1 << 30})
	for _, b := range []sample{mid, other} {
		if err := reads(t, s, b); err != nil {
			t.Fatal(err)
		}
	}
}
