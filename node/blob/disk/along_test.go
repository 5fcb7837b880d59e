package disk

import (
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// makeTree makes files, folders (with a slash at the end) and links (NAME->TARGET).
func makeTree(t *testing.T, entries ...string) (dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("links take a privilege there")
	}
	dir = t.TempDir()
	for _, e := range entries {
		name, target, link := strings.Cut(e, "->")
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o700)
		switch {
		case err != nil:
		case link:
			err = os.Symlink(target, at)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(at, 0o700)
		default:
			err = os.WriteFile(at, []byte(path.Base(name)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func shownEntries(entries []tree.Entry) string {
	var out []string
	for _, e := range entries {
		switch e.Kind {
		case tree.Dir:
			out = append(out, e.Path+"/")
		case tree.Link:
			out = append(out, e.Path+"->"+e.Target)
		default:
			out = append(out, e.Path)
		}
	}
	return strings.Join(out, " ")
}

func TestWhatALinkLeadsToComesAlong(t *testing.T) {
	for _, c := range []struct {
		has, pattern, want string
	}{
		{"run-7/a run-7/sub/b run-8/c latest->run-7", "latest", "latest->run-7 run-7/ run-7/a run-7/sub/ run-7/sub/b"},
		{"run/a other latest->run/a", "latest", "latest->run/a run/ run/a"},
		{"run/a latest->./run/", "latest", "latest->./run/ run/ run/a"},
		{"one latest->now now->one", "latest", "latest->now now->one one"},
		{"run/a/x now->run latest->now/a", "latest", "latest->now/a now->run run/ run/a/ run/a/x"},
		{"deep/x/y top/in->../deep/x", "top/in", "deep/ deep/x/ deep/x/y top/ top/in->../deep/x"},
		{"run/more->../else/f else/f else/g latest->run", "latest", "else/ else/f latest->run run/ run/more->../else/f"},
		{"out/a out/b out/to->a", "out", "out/ out/a out/b out/to->a"},
		{"out/a out/b out/to->b", "out/{a,to}", "out/ out/a out/b out/to->b"},
		{"out/self->. out/up->.. out/a b", "out", "out/ out/a out/self->. out/up->.."},
		{"run/a run/b latest->run", "{latest,run/a}", "latest->run run/ run/a run/b"},
		{"run/a un->run", "none", ""},
	} {
		got, out, err := collectAll(t, makeTree(t, strings.Fields(c.has)...), c.pattern)
		if is := shownEntries(got); err != nil || is != c.want || len(out.Refused) > 0 {
			t.Errorf("%s of %s: %s, refused %q, %v; want %s", c.pattern, c.has, is, out.Refused, err, c.want)
		}
	}
}

func TestALinkThatLeadsToNothingIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		has, pattern, want string
	}{
		{"latest->run-7 x", "latest", `"latest" is a link to "run-7", which is not there`},
		{"latest->now now->gone", "latest", `"latest" is a link to "now", which is not there`},
		{"out/a out/b->c", "out", `"out/b" is a link to "c", which is not there`},
		{"f latest->f/below", "latest", `"latest" is a link to "f/below", which is not there`},
		{"a->b b->a", "a", `"a" is a link to "b", which is not there`},
		{"run/dead->gone latest->run", "latest", `"run/dead" is a link to "gone", which is not there`},
		{"latest->now now->/etc/hostname", "latest", `"now" is a link to "/etc/hostname", which is absolute`},
	} {
		_, out, err := collectAll(t, makeTree(t, strings.Fields(c.has)...), c.pattern)
		if err != nil || !slices.Contains(out.Refused, c.want) || !out.Found[0] && !strings.Contains(c.want, `"run/`) && !strings.Contains(c.want, `"now" is`) {
			t.Errorf("%s of %s: refused %q, found %v, %v; want %s", c.pattern, c.has, out.Refused, out.Found, err, c.want)
		}
	}
}

func TestWhatWasGivenComesAlongOnlyWithANewLink(t *testing.T) {
	dir := makeTree(t, "data/a", "data/b", "old->data/a", "dead->gone", "new->data/b")
	file := func(name string) tree.Entry {
		return tree.Entry{Kind: tree.File, Size: 1, Root: piece.Sum([]byte(name))}
	}
	given := []tree.Placed{
		{Name: "data/a", File: file("a")},
		{Name: "data/b", File: file("b")},
		{Name: "dead", File: tree.Entry{Kind: tree.Link, Target: "gone"}},
		{Name: "old", File: tree.Entry{Kind: tree.Link, Target: "data/a"}},
	}
	got, out, err := collectNew(t, dir, given, "old", "new", "dead")
	if is := shownEntries(got); err != nil || is != "data/ data/b new->data/b" || len(out.Refused) > 0 {
		t.Errorf("%s, refused %q, %v", is, out.Refused, err)
	}
}

// Whatever links there are: every one that is collected and not refused leads, as the system
// follows it, to what is collected, or to a folder that it lies in.
func TestEveryCollectedLinkLeadsToWhatIsCollected(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links take a privilege there")
	}
	rapid.Check(t, func(r *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0))
		dir := t.TempDir()
		names := []string{"a", "b", "c", "d"}
		targets := []string{"a", "b", "c", "d", "a/b", "b/a", "c/d/a", "../a", "../b/c", ".", "..", "../../d", "a/../b", "/etc"}
		var fill func(at string, depth int)
		fill = func(at string, depth int) {
			for _, name := range names {
				p, err := filepath.Join(at, name), error(nil)
				switch n := rng.IntN(8); {
				case n < 2 && depth < 3:
					err = os.Mkdir(p, 0o700)
					fill(p, depth+1)
				case n < 4:
					err = os.WriteFile(p, nil, 0o600)
				case n < 6:
					err = os.Symlink(targets[rng.IntN(len(targets))], p)
				}
				if err != nil {
					r.Fatal(err)
				}
			}
		}
		fill(dir, 0)
		pattern := rapid.SampledFrom([]string{"a", "b/c", "*/a", "{a,b}", "**/c", "*"}).Draw(r, "pattern")
		got, out, err := collectAll(t, dir, pattern)
		if err != nil {
			r.Fatal(err)
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			r.Fatal(err)
		}
		for _, e := range got {
			if e.Kind != tree.Link || len(out.Refused) > 0 {
				continue
			}
			end, err := filepath.EvalSymlinks(filepath.Join(real, e.Path))
			if err != nil {
				r.Fatalf("%s of %s: %s->%s leads nowhere: %v", pattern, shownEntries(got), e.Path, e.Target, err)
			}
			to, err := filepath.Rel(real, end)
			if err != nil {
				r.Fatal(err)
			}
			if to != "." && !strings.HasPrefix(e.Path, to+"/") && !slices.ContainsFunc(got, func(x tree.Entry) bool { return x.Path == to }) {
				r.Fatalf("%s: %s is collected, and %s->%s leads to %s", pattern, shownEntries(got), e.Path, e.Target, to)
			}
		}
	})
}
