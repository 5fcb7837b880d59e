package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p/wire"

	"pgregory.net/rapid"
)

type note struct {
	Words []string          `cbor:"1,keyasint,omitempty"`
	Bytes []byte            `cbor:"2,keyasint,omitempty"`
	Env   map[string]string `cbor:"3,keyasint,omitempty"`
	N     int64             `cbor:"4,keyasint"`
}

func anyNote(t *rapid.T) note {
	var n note
	if w := rapid.SliceOf(rapid.String()).Draw(t, "words"); len(w) > 0 {
		n.Words = w
	}
	if b := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"); len(b) > 0 {
		n.Bytes = b
	}
	if m := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "env"); len(m) > 0 {
		n.Env = m
	}
	n.N = rapid.Int64().Draw(t, "n")
	return n
}

func frame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func same(a, b note) bool {
	x, err1 := wire.Marshal(a)
	y, err2 := wire.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

func TestEveryFrameArrivesAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		notes := rapid.SliceOf(rapid.Custom(anyNote)).Draw(t, "notes")
		var stream bytes.Buffer
		w := wire.NewWriter(&stream, 0)
		for _, n := range notes {
			if err := w.Write(n); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		r := wire.NewReader(&stream, 0)
		var got []note // compared at the end: a later frame must not write over an earlier one
		for range notes {
			var n note
			if err := r.Read(&n); err != nil {
				t.Fatal(err)
			}
			got = append(got, n)
		}
		for i := range notes {
			if !same(got[i], notes[i]) {
				t.Fatalf("frame %d: got %+v, want %+v", i, got[i], notes[i])
			}
		}
		if err := r.Read(&note{}); err != io.EOF {
			t.Fatalf("after the last frame: %v, want io.EOF", err)
		}
	})
}

func TestNothingLeavesBeforeFlush(t *testing.T) {
	var stream bytes.Buffer
	w := wire.NewWriter(&stream, 0)
	if err := w.Write(note{N: 1}); err != nil {
		t.Fatal(err)
	}
	if stream.Len() != 0 {
		t.Errorf("%d bytes left before Flush", stream.Len())
	}
	if err := w.Send(note{N: 2}); err != nil {
		t.Fatal(err)
	}
	r := wire.NewReader(&stream, 0)
	for want := int64(1); want <= 2; want++ {
		var n note
		if err := r.Read(&n); err != nil || n.N != want {
			t.Fatalf("got %d (%v), want %d", n.N, err, want)
		}
		if left := r.Buffered(); (left == 0) != (want == 2) {
			t.Errorf("after frame %d %d bytes wait", want, left)
		}
	}
}

func TestAFrameAboveTheCapIsRefusedOnBothSides(t *testing.T) {
	w := wire.NewWriter(io.Discard, 16)
	if err := w.Write(note{Bytes: make([]byte, 64)}); !errors.Is(err, wire.ErrTooLarge) {
		t.Errorf("writing: %v, want ErrTooLarge", err)
	}
	if err := w.Send(note{N: 1}); err != nil {
		t.Errorf("a refused frame must leave the writer usable: %v", err)
	}
	r := wire.NewReader(bytes.NewReader(append(frame(strings.Repeat("x", 17)), frame("\xa0")...)), 16)
	for range 2 { // the second time too: its position in the stream is lost
		if err := r.Read(&note{}); !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("reading: %v, want ErrTooLarge", err)
		}
	}
}

func TestAStreamThatEndsInsideAFrameIsNotACleanEnd(t *testing.T) {
	whole := frame("\xa1\x04\x05")
	for cut := range whole {
		err := wire.NewReader(bytes.NewReader(whole[:cut]), 0).Read(&note{})
		if want := io.ErrUnexpectedEOF; cut > 0 && !errors.Is(err, want) {
			t.Errorf("cut after %d bytes: %v, want %v", cut, err, want)
		}
		if cut == 0 && err != io.EOF {
			t.Errorf("empty stream: %v, want io.EOF", err)
		}
	}
}

func TestAnEmptyFrameIsNotTheEndOfTheStream(t *testing.T) {
	r := wire.NewReader(bytes.NewReader(append(frame(""), frame("\xa1\x04\x05")...)), 0)
	err := r.Read(&note{})
	if !errors.Is(err, wire.ErrMalformed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want only ErrMalformed", err)
	}
	var n note
	if err := r.Read(&n); err != nil || n.N != 5 {
		t.Errorf("the frame after it: %+v, %v", n, err)
	}
}

func TestAPassedDeadlineBetweenFramesLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		r := wire.NewReader(b, 0)
		_ = b.SetReadDeadline(time.Now().Add(time.Second))
		if err := r.Read(&note{}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("got %v, want a passed deadline", err)
		}
		_ = b.SetReadDeadline(time.Time{})
		go func() { _ = wire.NewWriter(a, 0).Send(note{N: 7}) }()
		var n note
		if err := r.Read(&n); err != nil || n.N != 7 {
			t.Errorf("got %+v, %v", n, err)
		}
	})
}

func TestAPassedDeadlineInsideAFrameSticks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		go func() { _, _ = a.Write(frame("\xa1\x04\x05")[:6]) }()
		r := wire.NewReader(b, 0)
		_ = b.SetReadDeadline(time.Now().Add(time.Second))
		first := r.Read(&note{})
		_ = b.SetReadDeadline(time.Time{})
		if again := r.Read(&note{}); first == nil || again != first {
			t.Errorf("got %v, then %v: the position in the stream is lost", first, again)
		}
	})
}

// FuzzReader feeds a reader what a stranger may send: it must end, keep its cap, and never panic.
func FuzzReader(f *testing.F) {
	f.Add(frame("\xa1\x04\x05"))
	f.Add(append(frame(""), frame("\xf6")...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := wire.NewReader(bytes.NewReader(stream), 4096)
		for range len(stream)/4 + 2 {
			var n note
			err := r.Read(&n)
			if err == nil {
				if _, err := wire.Marshal(n); err != nil {
					t.Fatalf("what was read does not encode: %v", err)
				}
				continue
			}
			if !errors.Is(err, wire.ErrMalformed) {
				return
			}
		}
		t.Fatal("the reader read more frames than the stream can hold")
	})
}

func TestAnnouncingALargeFrameTakesNoRoom(t *testing.T) {
	head := binary.BigEndian.AppendUint32(nil, wire.MaxFrame)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const readers = 64
	for range readers {
		var v []byte
		if err := wire.NewReader(bytes.NewReader(append(head, 1, 2, 3)), 0).Read(&v); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / readers; each > 256<<10 {
		t.Errorf("three bytes of an announced megabyte took %d bytes of memory", each)
	}
}

func TestFramesOfEverySizeArriveWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(64<<10-8, 64<<10+8), rapid.IntRange(0, wire.MaxFrame-8)), 1, 4).Draw(t, "sizes")
		var b bytes.Buffer
		w := wire.NewWriter(&b, 0)
		for i, n := range sizes {
			if err := w.Send(bytes.Repeat([]byte{byte(i + 1)}, n)); err != nil {
				t.Fatal(err)
			}
		}
		r := wire.NewReader(iotest.HalfReader(&b), 0)
		for i, n := range sizes {
			var got []byte
			if err := r.Read(&got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i + 1)}, n)) {
				t.Fatalf("frame %d of %d bytes: %d bytes, %v", i, n, len(got), err)
			}
		}
	})
}
