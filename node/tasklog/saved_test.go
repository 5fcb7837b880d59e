package tasklog

import (
	"errors"
	"strings"
	"testing"
)

// savedStream is what is kept of a stream.
func savedStream(text string) Saved { return Saved{strings.NewReader(text), int64(len(text))} }

// Case 34: what is kept reads as it did where the task ran.
func TestKeptOutputReadsAsItDidWhereTheTaskRan(t *testing.T) {
	long := strings.Repeat("0123456789abcdef\n", 3*MaxChunk/17)
	o := newOwner(t, 0, false)
	o.write(Stdout, long)
	o.write(Stderr, "one\ntwo\nthree\n")
	o.age(Stdout, 3000)
	o.age(Stderr, 3000)
	streams := func(name string) Saved {
		return map[string]Saved{Stdout: savedStream(long), Stderr: savedStream("one\ntwo\nthree\n")}[name]
	}
	for _, req := range []Request{
		AllOutput(task, true), AllOutput(task, false),
		{Task: task, Parts: []Part{{Stream: Stdout, Offset: 100_000}, {Stream: Stderr, Offset: 4}}},
		{Task: task, Parts: []Part{{Stream: Stderr, Offset: 14}}},
		{Task: task, Parts: []Part{{Stream: Stderr}, {Stream: Stdout}}, Tail: 2, Times: true},
		{Task: task, Parts: []Part{{Stream: Stderr}}, Since: 3001},
	} {
		var here, kept got
		if err := o.store.Copy(t.Context(), req, here.chunk); err != nil {
			t.Fatal(err)
		}
		if err := CopySaved(t.Context(), req, 3000, streams, kept.chunk); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{Stdout, Stderr} {
			if here.of(s) != kept.of(s) {
				t.Errorf("%+v: %s has %d bytes, and kept it has %d", req, s, len(here.of(s)), len(kept.of(s)))
			}
		}
	}
	var none got
	if err := CopySaved(t.Context(), AllOutput(task, false), 0, func(string) Saved { return Saved{} }, none.chunk); err != nil || none.of(Stdout) != "" {
		t.Error(err)
	}
	gone := errors.New("gone")
	if err := CopySaved(t.Context(), AllOutput(task, false), 0, streams, func(Chunk) error { return gone }); !errors.Is(err, gone) {
		t.Error(err)
	}
}
