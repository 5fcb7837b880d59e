package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

// contents is a store in memory.
type contents map[piece.Root][]byte

func (c contents) keep(_ context.Context, _ tree.Entry, r io.Reader) (piece.Root, int64, error) {
	data, err := io.ReadAll(r)
	root := piece.Sum(data)
	c[root] = data
	return root, int64(len(data)), err
}

func (c contents) open(_ context.Context, e tree.Entry) (io.ReadCloser, error) {
	data, ok := c[e.Root]
	if !ok {
		return nil, fmt.Errorf("nobody has %s", e.Root)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func root(t tester, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// scanned is a folder as the bytes of a tree.
func scanned(t tester, dir string, keep Keep) []byte {
	t.Helper()
	r := root(t, dir)
	defer r.Close()
	var buf bytes.Buffer
	w := tree.NewWriter(&buf)
	skipped, err := Scan(context.Background(), r, nil, keep, w.Add)
	if err != nil || len(skipped) > 0 {
		t.Fatalf("%v, skipped %v", err, skipped)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func entries(data []byte) iter.Seq2[tree.Entry, error] {
	return tree.Entries(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil })
}

func list(of ...tree.Entry) iter.Seq2[tree.Entry, error] {
	return func(yield func(tree.Entry, error) bool) {
		for _, e := range of {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// seen is a folder by other means: modes, contents, targets.
func seen(t tester, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			all[rel] = "folder"
		case info.Mode().IsRegular():
			data, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			all[rel] = fmt.Sprintf("file %x %v", data, info.Mode()&0o100 != 0)
		default:
			target, err := os.Readlink(p)
			all[rel] = fmt.Sprintf("%v %s %v", info.Mode().Type(), target, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var oddNames = []string{"a", "a-b", "a.b", "a b", " ", "-rf", "ä", "*", "$(x)", "'", "\"", ".hidden", "...", strings.Repeat("n", 255), "\\", "b:c"}

// plant makes any tree of files below dir.
func plant(t *rapid.T, dir string, depth int) {
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		name := rapid.SampledFrom(oddNames).Draw(t, "name")
		if rapid.Bool().Draw(t, "not UTF-8") && runtime.GOOS == "linux" {
			name = name[:min(len(name), 250)] + "\xff\xe4"
		}
		p := filepath.Join(dir, name)
		if _, err := os.Lstat(p); err == nil {
			continue
		}
		var err error
		switch rapid.IntRange(0, 3-depth/3).Draw(t, "kind") {
		case 0:
			size := rapid.SampledFrom([]int{0, 1, 1024, 5000}).Draw(t, "size")
			if rapid.IntRange(0, 30).Draw(t, "large") == 0 {
				size = rapid.IntRange(0, 9<<20).Draw(t, "large size")
			}
			mode := rapid.SampledFrom([]fs.FileMode{0o644, 0o755, 0o700, 0o400}).Draw(t, "mode")
			err = os.WriteFile(p, bytes.Repeat([]byte{byte(rapid.IntRange(0, 2).Draw(t, "data"))}, size), mode)
		case 1:
			up := strings.Repeat("../", rapid.IntRange(0, depth).Draw(t, "up"))
			err = os.Symlink(up+rapid.SampledFrom(oddNames).Draw(t, "target"), p)
		default:
			if err = os.Mkdir(p, 0o755); err == nil {
				plant(t, p, depth+1)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func inTemp(t *rapid.T, f func(dir string)) {
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f(dir)
}

func mkdir(t tester, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Acceptance case 2.
func TestAnyTreeComesBackEqualElsewhereAndHasOneName(t *testing.T) {
	long.Cases(t, 25)
	rapid.Check(t, func(t *rapid.T) {
		inTemp(t, func(dir string) {
			from, to := mkdir(t, dir, "from"), mkdir(t, dir, "to")
			plant(t, from, 0)
			store := contents{}
			data := scanned(t, from, store.keep)
			r := root(t, to)
			defer r.Close()
			var progress int64
			report, err := Write(t.Context(), r, entries(data), WriteOptions{Open: store.open, NoSync: true, Progress: func(n int64) { progress += n }})
			if err != nil {
				t.Fatal(err)
			}
			if want, got := seen(t, from), seen(t, to); !maps.Equal(want, got) {
				t.Fatalf("written: %q\nand was: %q", got, want)
			}
			if again := scanned(t, to, Hash); !bytes.Equal(again, data) {
				t.Fatal("the same files have another name")
			}
			if progress != report.Bytes || report.Left != 0 {
				t.Fatalf("%+v, and a progress of %d", report, progress)
			}
			// Again, there is nothing to write.
			none := func(context.Context, tree.Entry) (io.ReadCloser, error) {
				return nil, errors.New("asked for what is there")
			}
			if again, err := Write(t.Context(), r, entries(data), WriteOptions{Open: none, NoSync: true}); err != nil || again.Wrote != 0 || again.Left != report.Wrote {
				t.Fatalf("%+v, %v", again, err)
			}
		})
	})
}

func TestAWritingThatWasBrokenOffGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inTemp(t, func(dir string) {
			from, to := mkdir(t, dir, "from"), mkdir(t, dir, "to")
			plant(t, from, 0)
			store := contents{}
			data := scanned(t, from, store.keep)
			r := root(t, to)
			defer r.Close()
			budget := rapid.IntRange(0, 5).Draw(t, "files before it breaks")
			broken := errors.New("broken")
			opened := map[string]int{}
			var needed, asked []string
			open := func(ctx context.Context, e tree.Entry) (io.ReadCloser, error) {
				if opened[e.Path]++; budget == 0 {
					half := io.MultiReader(bytes.NewReader(store[e.Root][:e.Size/2]), breaks{broken})
					return io.NopCloser(half), nil
				}
				budget--
				return store.open(ctx, e)
			}
			report, err := Write(t.Context(), r, entries(data), WriteOptions{Open: open, NoSync: true})
			if err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
			rest := maps.Clone(opened)
			var needs tree.Totals
			written, err := Write(t.Context(), r, entries(data), WriteOptions{
				NoSync: true,
				Need:   func(e tree.Entry) { needed = append(needed, e.Path) },
				Begin:  func(totals tree.Totals) error { needs = totals; return nil },
				Open: func(ctx context.Context, e tree.Entry) (io.ReadCloser, error) {
					opened[e.Path]++
					asked = append(asked, e.Path)
					return store.open(ctx, e)
				},
			})
			if err != nil || !slices.Equal(needed, asked) || needs.Files != len(needed) || needs.Bytes != written.Bytes {
				t.Fatalf("%v: %q were needed, %+v, and %q were asked for, %+v", err, needed, needs, asked, written)
			}
			if want, got := seen(t, from), seen(t, to); !maps.Equal(want, got) {
				t.Fatalf("written: %q\nand was: %q", got, want)
			}
			twice := 0
			for p := range rest {
				if opened[p] > 1 {
					twice++
				}
			}
			if twice > 1 {
				t.Fatalf("%d files came twice after %+v", twice, report)
			}
		})
	})
}

type breaks struct{ err error }

func (b breaks) Read([]byte) (int, error) { return 0, b.err }

func file(p, data string) tree.Entry {
	return tree.Entry{Path: p, Kind: tree.File, Size: int64(len(data)), Root: piece.Sum([]byte(data))}
}
func folderAt(p string) tree.Entry       { return tree.Entry{Path: p, Kind: tree.Dir} }
func linkAt(p, target string) tree.Entry { return tree.Entry{Path: p, Kind: tree.Link, Target: target} }

func store(of ...string) contents {
	c := contents{}
	for _, s := range of {
		c[piece.Sum([]byte(s))] = []byte(s)
	}
	return c
}

func put(t *testing.T, p, data string) {
	t.Helper()
	mkdir(t, filepath.Dir(p))
	if err := os.WriteFile(p, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasBroughtBeforeIsReplacedUnlessItWasChangedSince(t *testing.T) {
	had := map[string]tree.Entry{}
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	o := WriteOptions{Open: store("one", "two", "more").open, Brought: func(p string) (tree.Entry, bool) { e, ok := had[p]; return e, ok }, Wrote: func(e tree.Entry) { had[e.Path] = e }}
	for _, tr := range []iter.Seq2[tree.Entry, error]{
		list(file("f", "one"), file("g", "one"), linkAt("l", "f")),
		list(file("f", "two"), file("g", "one"), linkAt("l", "g")),
		list(linkAt("f", "g"), file("g", "one"), file("l", "more")),
		list(folderAt("f"), file("f/x", "one"), file("g", "two"), linkAt("l", "g")),
	} {
		if _, err := Write(t.Context(), r, tr, o); err != nil {
			t.Fatal(err)
		}
	}
	before := seen(t, dir)
	for name, change := range map[string]func(){
		"another content": func() { put(t, dir+"/g", "owt") },
		"a link":          func() { _ = os.Remove(dir + "/g"); _ = os.Symlink("l", dir+"/g") },
	} {
		change()
		var way *InTheWay
		if _, err := Write(t.Context(), r, list(file("g", "more")), o); !errors.As(err, &way) || way.Count != 1 {
			t.Errorf("%s: %v", name, err)
		}
		_ = os.Remove(dir + "/g")
	}
	put(t, dir+"/g", "two")
	if now := seen(t, dir); !maps.Equal(before, now) {
		t.Errorf("%q is now %q", before, now)
	}
	open := o.Open
	o.Open = func(ctx context.Context, e tree.Entry) (io.ReadCloser, error) {
		put(t, dir+"/g", "own")
		return open(ctx, e)
	}
	var way *InTheWay
	if _, err := Write(t.Context(), r, list(file("g", "more")), o); !errors.As(err, &way) {
		t.Errorf("changed while it came: %v", err)
	}
	if b, _ := os.ReadFile(dir + "/g"); string(b) != "own" {
		t.Errorf("what was changed is now %q", b)
	}
}

func TestADifferentFileIsNotOverwrittenAndNothingElseIsWritten(t *testing.T) {
	tr := list(file("1", "one"), folderAt("d"), file("d/2", "two"), linkAt("l", "1"), file("z", "zed"))
	for name, there := range map[string]func(dir string){
		"another content": func(dir string) { put(t, dir+"/d/2", "owt") },
		"another size":    func(dir string) { put(t, dir+"/d/2", "") },
		"a file as a folder": func(dir string) {
			put(t, dir+"/d", "")
		},
		"a file as a link":     func(dir string) { put(t, dir+"/l", "") },
		"another link":         func(dir string) { _ = os.Symlink("2", dir+"/l") },
		"a link as a file":     func(dir string) { put(t, dir+"/other", "one"); _ = os.Symlink("other", dir+"/1") },
		"a link as a folder":   func(dir string) { mkdir(t, dir, "e"); _ = os.Symlink("e", dir+"/d") },
		"a link out, a folder": func(dir string) { _ = os.Symlink("..", dir+"/d") },
		"a link into nothing":  func(dir string) { _ = os.Symlink("nothing", dir+"/z") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := mkdir(t, t.TempDir(), "to")
			put(t, dir+"/mine", "mine")
			there(dir)
			before := seen(t, dir)
			r := root(t, dir)
			defer r.Close()
			o := WriteOptions{Open: store("one", "two", "zed").open}
			var way *InTheWay
			if _, err := Write(t.Context(), r, tr, o); !errors.As(err, &way) || way.Folders || way.Count != 1 {
				t.Fatal(err)
			}
			if after := seen(t, dir); !maps.Equal(before, after) {
				t.Fatalf("%q is now %q", before, after)
			}
			o.Force = true
			if _, err := Write(t.Context(), r, tr, o); err != nil {
				t.Fatal(err)
			}
			after := seen(t, dir)
			for p, want := range map[string]string{"1": "file 6f6e65 false", "d": "folder", "d/2": "file 74776f false", "z": "file 7a6564 false", "mine": "file 6d696e65 false"} {
				if after[p] != want {
					t.Errorf("%s is %s", p, after[p])
				}
			}
			if up, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(up) != 1 {
				t.Errorf("outside: %v, %v", up, err)
			}
			if other, err := os.ReadDir(dir + "/e"); err == nil && len(other) > 0 {
				t.Errorf("over a link: %v", other)
			}
		})
	}
}

func TestAFolderIsNeverReplaced(t *testing.T) {
	for _, e := range []tree.Entry{file("d", "one"), linkAt("d", "1")} {
		dir := t.TempDir()
		put(t, dir+"/d/mine", "mine")
		r := root(t, dir)
		defer r.Close()
		var way *InTheWay
		if _, err := Write(t.Context(), r, list(e), WriteOptions{Force: true, Open: store("one").open}); !errors.As(err, &way) || !way.Folders {
			t.Error(err)
		}
		if got, err := os.ReadFile(dir + "/d/mine"); string(got) != "mine" {
			t.Error(err)
		}
	}
}

func TestManyThingsInTheWayAreCountedAndSomeNamed(t *testing.T) {
	dir := t.TempDir()
	var all []tree.Entry
	for i := range 25 {
		name := fmt.Sprintf("%02d", i)
		put(t, filepath.Join(dir, name), "mine")
		all = append(all, file(name, "one"))
	}
	r := root(t, dir)
	defer r.Close()
	_, err := Write(t.Context(), r, list(all...), WriteOptions{Open: store("one").open})
	if err == nil || !strings.HasPrefix(err.Error(), `"00", "01", `) || !strings.HasSuffix(err.Error(), `"09" and 15 more exist already, and differ`) {
		t.Error(err)
	}
}

// What appears between the looking and the writing is somebody's, too.
func TestWhatAppearsWhileATreeIsWrittenIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	open := func(ctx context.Context, e tree.Entry) (io.ReadCloser, error) {
		put(t, filepath.Join(dir, e.Path), "mine")
		return store("one").open(ctx, e)
	}
	var way *InTheWay
	if _, err := Write(t.Context(), r, list(file("1", "one")), WriteOptions{Open: open, Force: true}); !errors.As(err, &way) {
		t.Error(err)
	}
	if got := seen(t, dir); len(got) != 2 || got["1"] != "file 6d696e65 false" {
		t.Errorf("%q", got)
	}
}

func TestWhoBeginsMayRefuseBeforeAnythingIsWritten(t *testing.T) {
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	no := errors.New("no")
	o := WriteOptions{Open: store("one").open, Begin: func(tree.Totals) error { return no }}
	if _, err := Write(t.Context(), r, list(folderAt("d"), file("f", "one")), o); !errors.Is(err, no) {
		t.Error(err)
	}
	put(t, dir+"/f", "mine")
	o.Begin = func(tree.Totals) error { t.Error("it begins although something is in the way"); return nil }
	var way *InTheWay
	if _, err := Write(t.Context(), r, list(folderAt("d"), file("f", "one")), o); !errors.As(err, &way) || len(seen(t, dir)) != 2 {
		t.Error(err)
	}
}

// An entry that no Reader lets through leads nowhere either.
//
// Acceptance case 17.
func TestNothingIsWrittenOutsideWhateverTheEntriesSay(t *testing.T) {
	for _, all := range [][]tree.Entry{
		{file("../x", "one")},
		{folderAt(".."), file("../x", "one")},
		{file("/tmp/covey-x", "one")},
		{linkAt("l", ".."), file("l/x", "one")},
		{folderAt("d"), linkAt("d/l", "../.."), folderAt("d/l"), file("d/l/x", "one")},
		{linkAt("l", "/"), folderAt("l/etc"), file("l/etc/covey-x", "one")},
		{file("", "one")},
		{file("d/../../x", "one")},
	} {
		dir := t.TempDir()
		to := mkdir(t, dir, "to")
		r := root(t, to)
		defer r.Close()
		for _, force := range []bool{false, true} {
			if report, err := Write(t.Context(), r, list(all...), WriteOptions{Force: force, Open: store("one").open}); err == nil {
				t.Errorf("%+v: %+v", all, report)
			}
		}
		if outside, err := os.ReadDir(dir); err != nil || len(outside) != 1 {
			t.Errorf("%+v: %v, %v", all, outside, err)
		}
	}
}

func TestAFolderThatBecomesALinkWhileItIsWrittenLeadsNowhere(t *testing.T) {
	dir := t.TempDir()
	to, out := mkdir(t, dir, "to"), mkdir(t, dir, "out")
	mkdir(t, to, "in")
	for _, target := range []string{out, "../out", "in"} {
		mkdir(t, to, "d")
		r := root(t, to)
		defer r.Close()
		open := func(ctx context.Context, e tree.Entry) (io.ReadCloser, error) {
			if e.Path == "c" {
				_ = os.Remove(to + "/d")
				_ = os.Symlink(target, to+"/d")
			}
			return store("one").open(ctx, e)
		}
		_, err := Write(t.Context(), r, list(file("c", "one"), folderAt("d"), file("d/x", "one")), WriteOptions{Open: open})
		if !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", target, err)
		}
		for _, p := range []string{out, to + "/in"} {
			if found, err := os.ReadDir(p); err != nil || len(found) > 0 {
				t.Errorf("%s: %v, %v", target, found, err)
			}
		}
		_ = os.Remove(to + "/d")
		_ = os.Remove(to + "/c")
	}
}

func TestWrongContentIsNeverThereUnderItsName(t *testing.T) {
	large := strings.Repeat("x", 9<<20)
	for name, c := range map[string]struct{ want, came string }{
		"a wrong bit":          {"one", "onE"},
		"too short":            {"one", "on"},
		"nothing":              {"one", ""},
		"large, a wrong bit":   {large, large[1:] + "y"},
		"large, and too short": {large, large[1:]},
		"large, cut in pieces": {large, large[:8<<20]},
	} {
		dir := t.TempDir()
		r := root(t, dir)
		defer r.Close()
		open := func(context.Context, tree.Entry) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(c.came)), nil
		}
		if _, err := Write(t.Context(), r, list(file("f", c.want)), WriteOptions{Open: open}); !errors.Is(err, ErrContent) || !strings.Contains(err.Error(), `"f": `) {
			t.Errorf("%s: %v", name, err)
		}
		if got := seen(t, dir); len(got) != 1 {
			t.Errorf("%s: there is %v", name, slices.Collect(maps.Keys(got)))
		}
	}
}

func TestATreeThatIsCutOffOrLiesChangesNothing(t *testing.T) {
	var buf bytes.Buffer
	w := tree.NewWriter(&buf)
	_ = w.Add(file("a", "one"))
	_ = w.Add(file("b", "two"))
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	for cut := range buf.Bytes() {
		if _, err := Write(t.Context(), r, entries(buf.Bytes()[:cut]), WriteOptions{Open: store("one", "two").open}); !errors.Is(err, tree.ErrRefused) {
			t.Fatalf("after %d bytes: %v", cut, err)
		}
	}
	if got := seen(t, dir); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// Acceptance case 15.
func TestWhatTheDiskCannotHoldIsToldBeforeAnythingIsWritten(t *testing.T) {
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	huge := tree.Entry{Path: "z", Kind: tree.File, Size: piece.MaxSize, Root: piece.Root{1}}
	many := []tree.Entry{file("a", "one")}
	for i := range 1000 {
		huge.Path = fmt.Sprintf("z%03d", i)
		many = append(many, huge)
	}
	var full *NoRoom
	_, err := Write(t.Context(), r, list(many...), WriteOptions{Open: store("one").open})
	if runtime.GOOS != "windows" && (!errors.As(err, &full) || full.Needed != 1000*piece.MaxSize+3 || full.Free <= 0) {
		t.Error(err)
	}
	if got := seen(t, dir); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

func TestWhatABrokenWritingLeftIsTakenOverAndNeverScanned(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, partOf("1")), "half of something longer")
	r := root(t, dir)
	defer r.Close()
	skipped, err := Scan(t.Context(), r, nil, Hash, func(e tree.Entry) error { return fmt.Errorf("scanned: %+v", e) })
	if err != nil || len(skipped) != 1 || skipped[0].Path != partOf("1") {
		t.Errorf("%v, %v", skipped, err)
	}
	if _, err := Write(t.Context(), r, list(file("1", "one")), WriteOptions{Open: store("one").open}); err != nil {
		t.Fatal(err)
	}
	if got := seen(t, dir); len(got) != 2 || got["1"] != "file 6f6e65 false" {
		t.Errorf("%q", got)
	}
}

func TestAnEqualFileGetsTheRightExecutableBit(t *testing.T) {
	if !hasExec {
		t.Skip("there is none here")
	}
	dir := t.TempDir()
	r := root(t, dir)
	defer r.Close()
	for _, exec := range []bool{true, false, false, true} {
		e := file("1", "one")
		e.Exec = exec
		if _, err := Write(t.Context(), r, list(e), WriteOptions{Open: store("one").open}); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir + "/1"); err != nil || (info.Mode()&0o111 != 0) != exec {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	}
}

func TestWhatRulesNameIsNotScanned(t *testing.T) {
	dir := t.TempDir()
	for _, p := range []string{".git/config", "a/.git/x", "a/b.o", "a/b.c", "build/x", "keep.o"} {
		put(t, filepath.Join(dir, p), p)
	}
	put(t, dir+"/"+tree.IgnoreFile, "# what is made\n*.o\n!/keep.o\nbuild/\n")
	r := root(t, dir)
	defer r.Close()
	var got []string
	skipped, err := Scan(t.Context(), r, nil, Hash, func(e tree.Entry) error { got = append(got, e.Path); return nil })
	if want := []string{".coveyignore", "a", "a/b.c", "keep.o"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if len(skipped) != 2 || skipped[0].Path != ".git" || skipped[1].Path != "a/.git" {
		t.Errorf("%v", skipped)
	}
	put(t, dir+"/"+tree.IgnoreFile, "a[")
	if _, err := Scan(t.Context(), r, nil, Hash, func(tree.Entry) error { return nil }); err == nil || !strings.Contains(err.Error(), ".coveyignore:1") {
		t.Error(err)
	}
}

func TestALinkThatLeadsOutIsLeftOutByNameAndNotRead(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/secret", "secret")
	from := mkdir(t, dir, "from", "sub")
	if err := os.Symlink("link", from+"/within"); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/etc/passwd", "../../secret"} {
		_ = os.Remove(from + "/link")
		if err := os.Symlink(target, from+"/link"); err != nil {
			t.Fatal(err)
		}
		r := root(t, filepath.Dir(from))
		defer r.Close()
		var taken []string
		read := func(_ context.Context, e tree.Entry, _ io.Reader) (piece.Root, int64, error) {
			return piece.Root{}, 0, fmt.Errorf("%s is read", e.Path)
		}
		skipped, err := Scan(t.Context(), r, nil, read, func(e tree.Entry) error { taken = append(taken, e.Path); return nil })
		if err != nil || len(skipped) != 1 || skipped[0].Path != "sub/link" || !strings.HasPrefix(skipped[0].Why, `is a link to "`+target+`", which `) {
			t.Errorf("left out is %v, %v", skipped, err)
		}
		if !slices.Equal(taken, []string{"sub", "sub/within"}) {
			t.Errorf("taken is %v", taken)
		}
	}
}

func TestAFileThatChangesWhileItIsReadIsToldByName(t *testing.T) {
	for name, change := range map[string]func(p string) error{
		"longer":  func(p string) error { return os.WriteFile(p, []byte("longer"), 0o666) },
		"shorter": func(p string) error { return os.Truncate(p, 1) },
	} {
		dir := t.TempDir()
		put(t, dir+"/f", "one")
		r := root(t, dir)
		defer r.Close()
		keep := func(ctx context.Context, e tree.Entry, content io.Reader) (piece.Root, int64, error) {
			root, size, err := Hash(ctx, e, content)
			return root, size, errors.Join(err, change(path.Join(dir, e.Path)))
		}
		if _, err := Scan(t.Context(), r, nil, keep, func(tree.Entry) error { return nil }); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `"f"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAScanAndAWritingEndWithTheirContext(t *testing.T) {
	dir := t.TempDir()
	put(t, dir+"/f", "one")
	r := root(t, dir)
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Scan(ctx, r, nil, Hash, func(tree.Entry) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := Write(ctx, r, list(file("g", "one")), WriteOptions{Open: store("one").open}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func BenchmarkWrite20000SmallFiles(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 4096)
	c, root := store(string(data)), piece.Sum(data)
	var buf bytes.Buffer
	w := tree.NewWriter(&buf)
	for d := range 200 {
		_ = w.Add(folderAt(fmt.Sprintf("d%03d", d)))
		for f := range 100 {
			_ = w.Add(tree.Entry{Path: fmt.Sprintf("d%03d/f%03d", d, f), Kind: tree.File, Size: 4096, Root: root})
		}
	}
	if _, err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		r, err := os.OpenRoot(dir)
		if err != nil {
			b.Fatal(err)
		}
		times := []time.Duration{cpu()}
		b.StartTimer()
		for range 2 { // the second finds all
			if _, err := Write(b.Context(), r, entries(buf.Bytes()), WriteOptions{Open: c.open, NoSync: true}); err != nil {
				b.Fatal(err)
			}
			times = append(times, cpu())
		}
		if _, err := Scan(b.Context(), r, nil, Hash, func(tree.Entry) error { return nil }); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		times = append(times, cpu())
		for i, what := range []string{"written", "found", "scanned"} {
			b.ReportMetric(float64((times[i+1]-times[i]).Microseconds())/20000, "cpu-us/file-"+what)
		}
		r.Close()
		_ = os.RemoveAll(dir)
		b.StartTimer()
	}
}

// Two processes that bring the same files to one folder at once.
func TestWhatAnotherProcessWroteMeanwhileIsInTheWayOnlyIfItDiffers(t *testing.T) {
	for _, content := range []string{"one", "two"} {
		dir := t.TempDir()
		r := root(t, dir)
		all := list(tree.Entry{Path: "d", Kind: tree.Dir}, file("d/1", "one"), linkAt("l", "d/1"))
		report, err := Write(t.Context(), r, all, WriteOptions{Open: store("one").open, Begin: func(tree.Totals) error {
			return errors.Join(os.Mkdir(dir+"/d", 0o700), os.WriteFile(dir+"/d/1", []byte(content), 0o600), os.Symlink("d/1", dir+"/l"))
		}})
		var way *InTheWay
		switch {
		case content == "one" && (err != nil || report.Wrote != 0 || report.Left != 2):
			t.Errorf("the same: %+v, %v", report, err)
		case content != "one" && (!errors.As(err, &way) || way.Paths[0] != "d/1"):
			t.Errorf("something else: %+v, %v", report, err)
		}
		r.Close()
	}
}
