package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// However often output grows and is looked at, and however full the notes get: each byte is dated
// by the first look that saw it or a later one, and those of the newer half exactly.
func TestAByteIsDatedByTheFirstLookThatSawIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdout.times")
	rapid.Check(t, func(t *rapid.T) {
		_ = os.Remove(path)
		x := times{path: path, count: -1}
		var all Times
		size, now := int64(0), int64(1)
		for range rapid.IntRange(0, 40).Draw(t, "looks") {
			grown := rapid.Int64Range(0, 3).Draw(t, "grown")
			size, now = size+grown, now+rapid.Int64Range(1, 200).Draw(t, "later")
			x.note(size, now)
			if grown > 0 {
				all = append(all, TimeMark{size, now})
			}
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0: // another supervisor takes over
				x = times{path: path, count: -1}
			case 1:
				if x.thin() != nil && len(all) > 0 {
					t.Fatal("what is kept cannot be thinned")
				}
			}
		}
		b, _ := os.ReadFile(path)
		kept := ReadTimes(bytes.NewReader(b))
		for at := range size {
			want, _ := all.When(at)
			got, end := kept.When(at)
			if got < want || end <= at {
				t.Fatalf("byte %d is dated %d (up to %d), it was seen at %d", at, got, end, want)
			}
		}
		if n := len(all); n > 0 {
			if at, _ := kept.When(size - 1); at != all[n-1].At {
				t.Fatalf("the last byte is dated %d, not %d", at, all[n-1].At)
			}
			if at := kept.Since(all[n-1].At+1, size, all[n-1].At); at != size {
				t.Fatalf("what came after all begins at %d of %d", at, size)
			}
		}
	})
}

func TestNotesThatAreFullKeepTheNewOnesAndStayBounded(t *testing.T) {
	x := times{path: filepath.Join(t.TempDir(), "stdout.times"), count: -1}
	var b []byte
	for i := range int64(maxTimes - 1) {
		b = appendMark(b, TimeMark{i + 1, i + 1000})
	}
	if err := os.WriteFile(x.path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	x.note(maxTimes, maxTimes+1000)
	b, err := os.ReadFile(x.path)
	kept := ReadTimes(bytes.NewReader(b))
	if err != nil || len(kept) != maxTimes*3/4 || x.count != len(kept) {
		t.Fatalf("%d marks, counted %d; %v", len(kept), x.count, err)
	}
	if at, _ := kept.When(maxTimes - 2); at != maxTimes-2+1000 {
		t.Errorf("a new mark is dated %d", at)
	}
	if at, _ := kept.When(0); at > 1001 {
		t.Errorf("the oldest byte is dated %d", at)
	}
}

func FuzzNotesThatATaskWroteItselfAreReadInOrder(f *testing.F) {
	f.Add(appendMark(appendMark(nil, TimeMark{5, 1000}), TimeMark{9, 900}))
	f.Add([]byte("no times at all, and more than one record"))
	f.Fuzz(func(t *testing.T, b []byte) {
		end := int64(0)
		for _, m := range ReadTimes(bytes.NewReader(b)) {
			if m.End <= end || m.At <= 0 {
				t.Fatalf("%v after %d", m, end)
			}
			end = m.End
		}
	})
}
