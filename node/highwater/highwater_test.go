package highwater

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/taskstate"
)

// cluster is what others have signed, as the digests know it.
type cluster struct {
	marks  []digest.Mark
	seated bool
}

func (f *cluster) says(author, inc string, top uint64) {
	for i := range f.marks {
		if f.marks[i].Stream.Author == author {
			f.marks[i].Stream.Incarnation, f.marks[i].Top = inc, top
			return
		}
	}
	f.marks = append(f.marks, digest.Mark{Stream: digest.Stream{Author: author, Incarnation: inc}, Top: top})
}

func (f *cluster) open(path string) *File {
	return Open(Config{Path: path, Newest: func() []digest.Mark { return f.marks }, Seated: func() bool { return f.seated }, Log: slog.New(slog.DiscardHandler)})
}

// begin runs a file until the bubble's test ends it.
func begin(t *testing.T, h *File) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestWhatAWorkerSaidLastIsRememberedAcrossARestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "heard")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		f, want := &cluster{}, map[string]digest.Mark{}
		path := filepath.Join(dir, Name)
		h := f.open(path)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			author := fmt.Sprint("peer", rapid.IntRange(0, 5).Draw(t, "author"))
			m := want[author]
			if rapid.IntRange(0, 4).Draw(t, "lost") == 0 {
				m = digest.Mark{Stream: digest.Stream{Incarnation: m.Stream.Incarnation + "x"}}
			}
			m.Top += rapid.Uint64Range(1, 1<<40).Draw(t, "more")
			want[author] = m
			f.says(author, m.Stream.Incarnation, m.Top)
			if rapid.Bool().Draw(t, "all forgotten in memory") {
				f.marks = nil
				f.says(author, m.Stream.Incarnation, m.Top)
			}
			if err := h.save(); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "restart") {
				h = f.open(path)
			}
			for a, m := range want {
				if got := h.Highest(a, taskstate.Incarnation(m.Stream.Incarnation)); got != m.Top {
					t.Fatalf("%s has said %d in life %q, and %d is remembered", a, m.Top, m.Stream.Incarnation, got)
				}
				if got := h.Highest(a, taskstate.Incarnation(m.Stream.Incarnation)+"x"); got != 0 {
					t.Fatalf("%d is remembered of a life that is not there", got)
				}
			}
		}
	})
}

func TestARecordThatIsHurtIsForgottenAndTheOthersAreNot(t *testing.T) {
	f := &cluster{}
	path := filepath.Join(t.TempDir(), Name)
	for i := range 4 {
		f.says(fmt.Sprint("peer", i), "one", uint64(100+i))
	}
	if err := f.open(path).save(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil || len(whole) != 4*recordBytes {
		t.Fatal(len(whole), err)
	}
	for bit := 0; bit < 8*recordBytes; bit += 7 {
		hurt := append([]byte(nil), whole...)
		hurt[recordBytes+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, hurt, 0o600); err != nil {
			t.Fatal(err)
		}
		h := f.open(path)
		for i, want := range []uint64{100, 0, 102, 103} {
			if got := h.Highest(fmt.Sprint("peer", i), "one"); got != want {
				t.Fatalf("bit %d: of peer%d %d is remembered, not %d", bit, i, got, want)
			}
		}
		if err := h.save(); err != nil || h.Highest("peer1", "one") != 101 {
			t.Fatalf("bit %d: it is not remembered again: %v", bit, err)
		}
	}
}

func TestAPeerThatMayCoordinateRemembersAtOnceAndOthersNotMoreThanOnceASecond(t *testing.T) {
	for _, seated := range []bool{true, false} {
		t.Run(fmt.Sprint(seated), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &cluster{seated: seated}
				path := filepath.Join(t.TempDir(), Name)
				h := f.open(path)
				begin(t, h)
				f.says("peer", "one", 1)
				h.Noted()
				synctest.Wait()
				if got := f.open(path).Highest("peer", "one"); got != 1 {
					t.Fatalf("the first batch is not on disk at once: %d", got)
				}
				f.says("peer", "one", 2)
				h.Noted()
				time.Sleep(2 * pauseSeated)
				synctest.Wait()
				if got := f.open(path).Highest("peer", "one"); (got == 2) != seated {
					t.Fatalf("after %s %d is on disk", 2*pauseSeated, got)
				}
				time.Sleep(pauseOther)
				synctest.Wait()
				if got := f.open(path).Highest("peer", "one"); got != 2 {
					t.Fatalf("after a second %d is on disk", got)
				}
			})
		})
	}
}

func TestAFullFileMakesRoomForWhoIsHere(t *testing.T) {
	f := &cluster{}
	path := filepath.Join(t.TempDir(), Name)
	for i := range maxRecords {
		f.says(fmt.Sprint("peer", i), "one", 1)
	}
	h := f.open(path)
	if err := h.save(); err != nil {
		t.Fatal(err)
	}
	f.marks = f.marks[:maxRecords-1]
	f.says("newcomer", "one", 7)
	for range 2 {
		if err := h.save(); err != nil || h.Highest("newcomer", "one") != 7 {
			t.Fatalf("of a newcomer %d is remembered: %v", h.Highest("newcomer", "one"), err)
		}
		h = f.open(path)
	}
	if h.Highest("peer0", "one") != 1 || h.Highest(fmt.Sprint("peer", maxRecords-1), "one") != 0 {
		t.Error("who is here made room, or who is not did not")
	}
}

func TestTheFileIsWrittenAsItAlwaysWas(t *testing.T) {
	f := &cluster{}
	f.says("12D3KooWPeerOne", "0123456789abcdef", 1)
	f.says("12D3KooWPeerTwo", "fedcba9876543210", 1<<40)
	path := filepath.Join(t.TempDir(), Name)
	if err := f.open(path).save(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := golden.Check("testdata/heard", strings.TrimSpace(hex.Dump(b))+"\n"); err != nil {
		t.Error(err)
	}
}

func FuzzRecord(f *testing.F) {
	b, err := encode(record{Author: "peer", Incarnation: "one", Number: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(make([]byte, recordBytes))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), Name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		h := (&cluster{}).open(path)
		for a, i := range h.at {
			again, err := encode(h.saved[i])
			if err != nil || a == "" {
				t.Fatalf("%q was read and cannot be written: %v", a, err)
			}
			if m, err := decode(again); err != nil || m != h.saved[i] {
				t.Fatalf("%+v is read as %+v: %v", h.saved[i], m, err)
			}
		}
	})
}
