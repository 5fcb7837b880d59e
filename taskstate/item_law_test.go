package taskstate_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// Whatever bytes a file's name has: as an item it is text, and its task gets the same bytes.
func TestAnItemOfAnyBytesTravelsAsTextAndComesBackToTheByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\\x0af")))).Draw(t, "raw"))
		item := taskstate.EscapeItem(raw)
		got, ok := taskstate.UnescapeItem(item)
		if !ok || got != raw || !utf8.ValidString(item) {
			t.Fatalf("%q travels as %q and comes back as %q (%v)", raw, item, got, ok)
		}
		j := taskstate.Job{Escaped: true}
		if j.RawItem(item) != raw || (&taskstate.Job{}).RawItem(item) != item {
			t.Fatalf("a task gets %q of %q", j.RawItem(item), raw)
		}
	})
}

func TestAnItemHasOneWayToBeEscaped(t *testing.T) {
	for _, item := range []string{`\`, `a\b`, `\x`, `\xg0`, `\xFF`, `\x41`, `\xc3\xa4`, `\n`, "\xff"} {
		if raw, ok := taskstate.UnescapeItem(item); ok {
			t.Errorf("%q passes for %q", item, raw)
		}
	}
	for item, want := range map[string]string{`a\\b`: `a\b`, `caf\xe9`: "caf\xe9", "ä": "ä", "": ""} {
		if raw, ok := taskstate.UnescapeItem(item); !ok || raw != want {
			t.Errorf("%q is %q (%v)", item, raw, ok)
		}
	}
	if strings.Contains(taskstate.EscapeItem("a\x00b"), `\x`) {
		t.Error("a zero byte is a character, and refused as that")
	}
}
