package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the pieces in which output comes, each line is whole, is under its task's name once, and
// none is lost.
func TestLinesOfSeveralTasksAreWholeAndUnderTheirNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		p := newPrefixer()
		tasks := []string{"j.1.1", "j.2.1", "k.1.3"}
		sent := map[string]string{}
		for range rapid.IntRange(0, 30).Draw(t, "pieces") {
			task := rapid.SampledFrom(tasks).Draw(t, "task")
			piece := rapid.StringMatching(`[a-z\n]{0,6}`).Draw(t, "piece")
			sent[task] += piece
			if err := p.writeAt(task, &out, []byte(piece), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, task := range tasks {
			if err := p.end(task); err != nil {
				t.Fatal(err)
			}
		}
		got := map[string]string{}
		for line := range strings.Lines(out.String()) {
			name, text, ok := strings.Cut(line, " | ")
			if !ok || !strings.HasSuffix(text, "\n") {
				t.Fatalf("%q", line)
			}
			got[name] += text
		}
		for _, task := range tasks {
			want := sent[task]
			if want != "" && !strings.HasSuffix(want, "\n") {
				want += "\n"
			}
			if got[slotOf(task)] != want {
				t.Fatalf("%s: %q, sent %q", task, got[slotOf(task)], want)
			}
		}
	})
}

func TestALineWithoutAnEndIsNotKeptForEver(t *testing.T) {
	var out bytes.Buffer
	p := newPrefixer()
	for range 10 {
		if err := p.writeAt("j.1.1", &out, make([]byte, maxHeldLine), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() < 9*maxHeldLine || p.lines[lineKey{"j.1.1", &out}].Len() > maxHeldLine {
		t.Errorf("%d bytes written", out.Len())
	}
}
