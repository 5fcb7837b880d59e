package disk

import (
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/blob/tree"
)

var somePatterns = []string{
	"*", "**", "a", "a/*", "a/b", "*/b", "**/c", "*.txt", "a/**/c.txt", "{a,b}/c", "b/**", "c.txt", "none", "a/none/**", "[ab]/[bc]", "./a", ".",
}

// collectAll collects by some patterns, and parses those.
func collectAll(t *testing.T, dir string, patterns ...string) ([]tree.Entry, Collected, error) {
	t.Helper()
	return collectNew(t, dir, nil, patterns...)
}

// collectNew leaves out what was given.
func collectNew(t *testing.T, dir string, given []tree.Placed, patterns ...string) ([]tree.Entry, Collected, error) {
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
	along, err := FindAlong(t.Context(), root, globs, func() *tree.Given { return tree.NewGiven(given) })
	if err != nil {
		t.Fatal(err)
	}
	is := tree.NewGiven(given)
	defer is.Close()
	out, err := Collect(t.Context(), root, globs, along, is, Hash, func(e tree.Entry) error { got = append(got, e); return nil })
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
		if _, err := Scan(t.Context(), root, nil, Hash, func(e tree.Entry) error { all = append(all, e); return nil }); err != nil {
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
	for _, pattern := range []string{"a", "?", "[a]"} {
		_, out, err := collectAll(t, dir, pattern)
		if err != nil || !slices.Equal(out.Refused, []string{`"a": permission denied`}) || len(out.Skipped) > 0 {
			t.Errorf("%+v, %v", out, err)
		}
	}
}

func TestWhatCannotBeInATreeIsRefusedAndTheRestIsCollected(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no such names")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "d\n", "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "host")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "d\n/x", "d\n/in/x", "n\n", "z"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * maxNamed {
		if err := os.WriteFile(filepath.Join(dir, "t\t"+strings.Repeat("t", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]struct {
		refused int
		paths   string
	}{"*": {3 + 2*maxNamed, "a z"}, "**/x": {2, ""}, "d*/in": {1, ""}, "[az]": {0, "a z"}, "{z,h*}": {1, "z"}} {
		got, out, err := collectAll(t, dir, pattern)
		var paths []string
		for _, e := range got {
			paths = append(paths, e.Path)
		}
		if err != nil || strings.Join(paths, " ") != want.paths || len(out.Refused)+out.Others != want.refused || len(out.Refused) > maxNamed || !out.Found[0] {
			t.Errorf("%s: %q, %+v, %v", pattern, paths, out, err)
		}
	}
}

// listed is the entries of a list, one by one.
func listed(all []tree.Entry) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		for _, e := range all {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestWhatWasGivenAndHasNotChangedIsFoundAndNotCollected(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		names := []string{"a", "a/b", "a/b/c", "a-", "b", "b/a", "b/a/a", "b/b", "c", "c/d"}
		draw := func(what string, all []string) {
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(all), rapid.ID).Draw(r, what) {
				path := filepath.Join(dir, filepath.FromSlash(name))
				switch rapid.IntRange(0, 3).Draw(r, name) {
				case 0:
					_ = os.MkdirAll(path, 0o700)
				case 1:
					_ = os.RemoveAll(path)
				default: // it may be a folder, or be below a file
					_ = os.MkdirAll(filepath.Dir(path), 0o700)
					_ = os.WriteFile(path, []byte(what), 0o600)
				}
			}
		}
		draw("given", names)
		was, _, err := collectAll(t, dir, "**")
		if err != nil {
			r.Fatal(err)
		}
		// Some of it lies there as one folder, some under names of its own.
		given := []tree.Placed{{Name: ".", Entries: listed(slices.DeleteFunc(slices.Clone(was), func(e tree.Entry) bool { return e.Path == "b" || strings.HasPrefix(e.Path, "b/") }))}}
		for i, e := range was {
			var below []tree.Entry
			for _, x := range was[i+1:] {
				if rest, ok := strings.CutPrefix(x.Path, e.Path+"/"); ok {
					x.Path = rest
					below = append(below, x)
				}
			}
			switch one := strings.Count(e.Path, "/") == 1 && strings.HasPrefix(e.Path, "b/"); {
			case one && e.Kind == tree.Dir:
				given = append(given, tree.Placed{Name: e.Path, Entries: listed(below)})
			case one, e.Path == "b" && e.Kind == tree.File:
				given = append(given, tree.Placed{Name: e.Path, File: e})
			case e.Path == "b" && len(below) == 0:
				given = append(given, tree.Placed{Name: "b", Entries: listed(nil)})
			}
		}
		given = rapid.Permutation(given).Draw(r, "order")
		draw("new", names)
		is, _, err := collectAll(t, dir, "**")
		if err != nil {
			r.Fatal(err)
		}
		var want []tree.Entry
		for i, e := range is {
			same := slices.Contains(was, e)
			if e.Kind == tree.Dir && same { // what is in it follows
				same = !slices.ContainsFunc(is[i+1:], func(x tree.Entry) bool { return strings.HasPrefix(x.Path, e.Path+"/") && !slices.Contains(was, x) })
			}
			if !same {
				want = append(want, e)
			}
		}
		got, out, err := collectNew(t, dir, given, "**", "a")
		if err != nil || !slices.Equal(got, want) {
			r.Fatalf("given %v\nthere %v\ncollected %v\nwant      %v\n%v", was, is, got, want, err)
		}
		inA := slices.ContainsFunc(is, func(e tree.Entry) bool { return e.Path == "a" })
		if !slices.Equal(out.Found, []bool{len(is) > 0, inA}) {
			r.Fatalf("collected %v, and the patterns found %v", got, out.Found)
		}
	})
}
