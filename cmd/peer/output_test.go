package main

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

func TestSizesAreReadInThreeDigits(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1023: "1023B", 1024: "1KiB", 1536: "1.5KiB", 1000 << 20: "1000MiB", 1023 << 30: "1023GiB", 1 << 40: "1TiB", 1<<20 - 1: "1024KiB",
		12_345_678: "11.8MiB", 1 << 62: "4096PiB",
	} {
		if got := bytesText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	whole := regexp.MustCompile(`^(\d{1,4}B|\d{1,4}(\.\d{1,2})?[KMGTP]iB)$`)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<62).Draw(t, "bytes") >> rapid.IntRange(0, 62).Draw(t, "shift")
		if got := bytesText(n); !whole.MatchString(got) {
			t.Fatalf("%d: %s", n, got)
		}
	})
}

func TestNumbersHaveNoExponent(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", 0.001: "0", 0.126: "0.13", 9.994: "9.99", 9.996: "10", 12.34: "12.3", 99.96: "100", 128: "128", 1024: "1024", 1e6: "1000000"} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestDurationsHaveTwoPlaces(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1234 * time.Microsecond: "1ms", 999_600 * time.Microsecond: "1s", 12_340 * time.Millisecond: "12.3s", 59_960 * time.Millisecond: "1m0s",
		61 * time.Second: "1m1s", time.Hour: "1h0m", 3*time.Hour + 12*time.Minute + 29*time.Second: "3h12m", 47*time.Hour + 59*time.Minute: "47h59m",
		48 * time.Hour: "2d", 1000 * time.Hour: "41d",
	} {
		if got := short(d); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestARowIsOneLineWhateverIsInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"a\nb", "\x1b[31m", "\r", "tab\there", "\u202eback", "ä", "", "日本", "\x00", "\u0085"}))
		g := table("ONE", "TWO", "THREE")
		rows := rapid.IntRange(0, 4).Draw(t, "rows")
		for range rows {
			g.add(cell.Draw(t, "1"), cell.Draw(t, "2"), cell.Draw(t, "3")+".")
		}
		var b bytes.Buffer
		cells := slices.Clone(g.rows)
		g.write(&b)
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != rows+1 {
			t.Fatalf("%d lines for %d rows:\n%s", len(lines), rows, b.String())
		}
		at := strings.Index(lines[0], "THREE")
		for i, line := range lines {
			if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
				t.Fatalf("it speaks to the terminal: %q", line)
			}
			if runes := []rune(line); i > 0 && string(runes[at:at+len([]rune(cells[i-1][2]))]) != cells[i-1][2] {
				t.Fatalf("the third column is not at %d: %q", at, line)
			}
		}
		if !utf8.ValidString(b.String()) {
			t.Fatalf("no text: %q", b.String())
		}
	})
}

func TestALongTableIsWrittenPieceByPiece(t *testing.T) {
	var b strings.Builder
	rows := taskRows{out: &b, carry: (&cli{}).carry}
	for n := range taskPiece + 2 {
		if err := rows.add(api.Task{ID: fmt.Sprintf("j.%d.1", n+1), State: "pending"}); err != nil {
			t.Fatal(err)
		}
		if early := b.Len() > 0; early != (n+1 >= taskPiece) {
			t.Fatalf("%d tasks, written: %v", n+1, early)
		}
	}
	rows.write()
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if len(lines) != taskPiece+3 || !strings.HasPrefix(lines[0], "TASK      STATE ") || strings.Count(b.String(), "TASK") != 1 {
		t.Fatalf("%d lines, the first %q", len(lines), lines[0])
	}
	if at := strings.Index(lines[taskPiece+2], "pending"); at != strings.Index(lines[1], "pending") {
		t.Errorf("columns move: %q after %q", lines[taskPiece+2], lines[1])
	}
	b.Reset()
	none := taskRows{out: &b, carry: (&cli{}).carry}
	none.write()
	if !strings.HasPrefix(b.String(), "TASK") {
		t.Errorf("an empty table has its header: %q", b.String())
	}
}

func TestATableThatMustFitATerminalDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := table("ID", "NAME", "STATE", "NOTE")
		g.room = rapid.IntRange(20, 100).Draw(t, "columns")
		notes := rapid.SliceOfN(rapid.StringMatching(`[a-z ]{0,120}[a-z]`), 1, 5).Draw(t, "notes")
		name := rapid.StringMatching(`[a-z]{1,63}`).Draw(t, "name")
		for _, n := range notes {
			g.add("k3v5q7x2ab", name, "running", n)
		}
		var b bytes.Buffer
		g.write(&b)
		for _, line := range strings.Split(b.String(), "\n") {
			if utf8.RuneCountInString(line) > g.room {
				t.Fatalf("%d columns, %d may be: %q", utf8.RuneCountInString(line), g.room, line)
			}
		}
		if states := strings.Count(b.String(), "running"); g.room >= 40 && states != len(notes) {
			t.Fatalf("a long name takes the room of %d states:\n%s", len(notes)-states, &b)
		}
		for _, n := range notes {
			if shown := clip(n, g.room-2); !strings.Contains(b.String(), strings.TrimRight(shown, " ")) {
				t.Fatalf("%q is not in\n%s", shown, &b)
			}
		}
	})
}
