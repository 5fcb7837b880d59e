package disk

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"covey/node/blob/tree"
)

var somePatterns = []string{
	"*", "**", "a", "a/*", "a/b", "*/b", "**/c", "*.txt", "a/**/c.txt", "{a,b}/c", "b/**", "c.txt", "none", "a/none/**", "[ab]/[bc]", "./a", ".",
}

// collectAll collects by some patterns, and parses those.
func collectAll(t *testing.T, dir string, patterns ...string) ([]tree.Entry, Collected, error) {
	t.Helper()
	var globs []tree.Glob
	for _, p := range patterns {
		g, err := tree.ParseGlob(p)
		if err != nil {
			t.Fatal(err)
		}
		globs = append(globs, g)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var got []tree.Entry
	out, err := Collect(t.Context(), root, globs, Hash, func(e tree.Entry) error { got = append(got, e); return nil })
	return got, out, err
}

func TestWhatIsCollectedIsWhatMatchesAndTheFoldersAboveIt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		dir := t.TempDir()
		var fill func(at string, depth int)
		fill = func(at string, depth int) {
			for _, name := range []string{"a", "b", "c", "c.txt", ".d"} {
				path := filepath.Join(at, name)
				switch n := rng.IntN(6); {
				case n < 2 && depth < 3:
					if err := os.Mkdir(path, 0o700); err != nil {
						r.Fatal(err)
					}
					fill(path, depth+1)
				case n == 3:
					if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
						r.Fatal(err)
					}
				}
			}
		}
		fill(dir, 0)
		patterns := rapid.SliceOfNDistinct(rapid.SampledFrom(somePatterns), 1, 3, func(s string) string { return s }).Draw(r, "patterns")
		got, out, err := collectAll(t, dir, patterns...)
		if err != nil {
			r.Fatal(err)
		}

		// The dumb way: everything, and of that what matches or is above what matches.
		root := root(t, dir)
		defer root.Close()
		var all, want []tree.Entry
		if _, err := Scan(t.Context(), root, Hash, func(e tree.Entry) error { all = append(all, e); return nil }); err != nil {
			r.Fatal(err)
		}
		found := make([]bool, len(patterns))
		matches := func(path string) (any bool) {
			for i, p := range patterns {
				g, _ := tree.ParseGlob(p)
				if g.Match(path) {
					found[i], any = true, true
				}
			}
			return any
		}
		for _, e := range all {
			if matches(e.Path) || e.Kind == tree.Dir && slices.ContainsFunc(all, func(o tree.Entry) bool { return strings.HasPrefix(o.Path, e.Path+"/") && matches(o.Path) }) {
				want = append(want, e)
			}
		}
		if !reflect.DeepEqual(got, want) || !slices.Equal(out.Found, found) {
			r.Fatalf("%v: got %v, found %v; want %v, %v", patterns, got, out.Found, want, found)
		}
	})
}

func TestWhatCannotBeLookedIntoIsNamedAndStopsNothingElse(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		t.Skip("nothing is shut to this user")
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "b/x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "a"), 0o700) })
	got, out, err := collectAll(t, dir, "**/x")
	if err != nil || len(got) != 2 || len(out.Skipped) != 1 || out.Skipped[0].Path != "a" {
		t.Errorf("%v, %+v, %v", got, out, err)
	}
	if _, _, err := collectAll(t, dir, "a"); err == nil {
		t.Error("what a pattern matches is left out without a word")
	}
}
