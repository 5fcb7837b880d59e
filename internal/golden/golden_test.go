package golden

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheFirstLineThatDiffersIsFound(t *testing.T) {
	for _, c := range []struct {
		a, b    string
		line    int
		is, was string
	}{
		{"", "", 0, "", ""},
		{"a\nb\n", "a\nb\n", 0, "", ""},
		{"a\nb\n", "a\nc\n", 2, "b", "c"},
		{"a\nb\n", "a\n", 2, "b", ""},
		{"a\n", "a\nb\n", 2, "", "b"},
	} {
		if line, is, was := difference(c.a, c.b); line != c.line || is != c.is || was != c.was {
			t.Errorf("%q and %q: line %d, %q and %q", c.a, c.b, line, is, was)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if line, _, _ := difference(a, b); (line == 0) != (a == b) {
			t.Fatalf("line %d of %q and %q", line, a, b)
		}
	})
}

func TestEveryFieldGetsSomethingOfItsOwn(t *testing.T) {
	type inner struct{ A, B string }
	type all struct {
		Bool  bool
		Int   int64
		Uint  uint8
		Float float64
		Text  string
		In    *inner
		List  []inner
		Map   map[string]int
		Own   string
		Call  func()
	}
	var got all
	Fill(reflect.ValueOf(&got).Elem(), 1, func(v reflect.Value, n int) bool {
		if v.Kind() == reflect.String && n == 9 {
			v.SetString("its own")
			return true
		}
		return false
	})
	want := all{
		Bool: true, Int: 2, Uint: 3, Float: 1, Text: "s5", In: &inner{"s1", "s2"}, List: []inner{{"s1", "s2"}},
		Map: map[string]int{"s8": 9}, Own: "its own",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func updating(t *testing.T, now bool) {
	was := *update
	*update = now
	t.Cleanup(func() { *update = was })
}

func TestAFileThatSaysOtherwiseIsNamedWithItsLine(t *testing.T) {
	updating(t, false)
	path := filepath.Join(t.TempDir(), "new", "file")
	if err := Check(path, "a\n"); !os.IsNotExist(err) {
		t.Errorf("there is none: %v", err)
	}
	*update = true
	if err := Check(path, "a\nb\n"); err != nil {
		t.Fatal(err)
	}
	*update = false
	if err := Check(path, "a\nb\n"); err != nil {
		t.Error(err)
	}
	if err := Check(path, "a\nc\n"); err == nil || !strings.Contains(err.Error(), "file:2 is\nc\nnow, and was\nb\n") {
		t.Error(err)
	}
}
