package tree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/wire"
)

// names are such as people and programs give, and the ones that tempt an order or a check.
func names() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"a", "a-b", "a.b", "a b", "ab", "b", "-", "...", "..a", "~", "\\", "..\\x", "C:", "ä", "ä", "\xff\xfe", "*", "{a}", strings.Repeat("n", 255)}),
		rapid.StringMatching(`[a-c!-.]{1,3}`).Filter(func(s string) bool { return s != "." && s != ".." }),
	)
}

type node struct {
	entry Entry
	below map[string]*node
}

// folders are trees as a map of maps, which knows nothing of orders and lists.
func folder(t *rapid.T, depth int) map[string]*node {
	below := map[string]*node{}
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		n := &node{}
		switch rapid.IntRange(0, 3-depth/3).Draw(t, "kind") {
		case 0:
			data := make([]byte, rapid.IntRange(0, 3).Draw(t, "bytes"))
			n.entry = Entry{Kind: File, Exec: rapid.Bool().Draw(t, "x"), Size: int64(len(data)), Root: piece.Sum(data)}
		case 1:
			up := strings.Repeat("../", rapid.IntRange(0, depth).Draw(t, "up"))
			n.entry = Entry{Kind: Link, Target: up + path.Join(rapid.SliceOfN(names(), 1, 2).Draw(t, "down")...)}
		default:
			n.entry = Entry{Kind: Dir}
			n.below = folder(t, depth+1)
		}
		below[names().Draw(t, "name")] = n
	}
	return below
}

func flat(above string, below map[string]*node) (list []Entry) {
	for name, n := range below {
		e := n.entry
		e.Path = above + name
		list = append(append(list, e), flat(e.Path+"/", n.below)...)
	}
	return list
}

// sorted is the order by its definition: lists of names.
func sorted(list []Entry) []Entry {
	slices.SortFunc(list, func(a, b Entry) int {
		return slices.Compare(strings.Split(a.Path, "/"), strings.Split(b.Path, "/"))
	})
	return list
}

func encode(t interface{ Fatal(...any) }, list []Entry) ([]byte, Totals) {
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for _, e := range list {
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	totals, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), totals
}

func decode(r io.Reader) (list []Entry, totals Totals, err error) {
	tr := NewReader(r)
	for {
		e, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list, tr.Totals(), nil
		}
		if err != nil {
			return list, tr.Totals(), err
		}
		list = append(list, e)
	}
}

func TestEveryTreeIsReadAsItWasWrittenAndWrittenOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := sorted(flat("", folder(t, 0)))
		data, totals := encode(t, list)
		back, read, err := decode(iotest.OneByteReader(bytes.NewReader(data)))
		if err != nil || !slices.Equal(back, list) || read != totals || totals.Entries() != len(list) {
			t.Fatalf("%+v is read as %+v, %v, with %v and %v", list, back, err, totals, read)
		}
		var bytesOf int64
		for _, e := range list {
			bytesOf += e.Size
		}
		if again, _ := encode(t, back); !bytes.Equal(again, data) || totals.Bytes != bytesOf {
			t.Fatalf("%+v is written in two ways", list)
		}
		for range 2 { // entries can be ranged over again
			var some []Entry
			for e, err := range Entries(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }) {
				if err != nil {
					t.Fatal(err)
				}
				some = append(some, e)
			}
			if !slices.Equal(some, list) {
				t.Fatalf("%+v and %+v", some, list)
			}
		}
		cut := rapid.IntRange(0, len(data)-1).Draw(t, "cut")
		if _, _, err := decode(bytes.NewReader(data[:cut])); !errors.Is(err, ErrRefused) {
			t.Fatalf("cut off after %d of %d bytes: %v", cut, len(data), err)
		}
		if _, _, err := decode(io.MultiReader(bytes.NewReader(data), strings.NewReader("x"))); !errors.Is(err, ErrRefused) {
			t.Fatalf("with something behind it: %v", err)
		}
	})
}

// What is right by one list may be wrong by another: any two entries exchanged are out of order.
func TestAnotherOrderIsRefusedSoThatATreeHasOneName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := sorted(flat("", folder(t, 0)))
		if len(list) < 2 {
			t.Skip("too small")
		}
		i := rapid.IntRange(0, len(list)-2).Draw(t, "i")
		j := rapid.IntRange(i+1, len(list)-1).Draw(t, "j")
		list[i], list[j] = list[j], list[i]
		var buf bytes.Buffer
		w := NewWriter(&buf)
		for _, e := range list {
			_ = w.Add(e)
		}
		if _, err := w.Close(); !errors.Is(err, ErrRefused) {
			t.Fatalf("%+v: %v", list, err)
		}
		if _, _, err := decode(bytes.NewReader(raw(list, nil))); !errors.Is(err, ErrRefused) {
			t.Fatalf("%+v: %v", list, err)
		}
	})
}

// raw writes a list as no Writer would.
func raw(list []Entry, end *Totals) []byte {
	buf := bytes.NewBufferString(version)
	w := wire.NewWriter(buf, wire.MaxFrame)
	totals := Totals{}
	for _, e := range list {
		f := frame{Path: []byte(e.Path), Kind: e.Kind, Exec: e.Exec, Size: e.Size, Target: []byte(e.Target)}
		if !e.Root.IsZero() {
			f.Root = e.Root[:]
		}
		_ = w.Write(f)
		totals.add(e)
	}
	if end == nil {
		end = &totals
	}
	_ = w.Send(frame{End: end})
	return buf.Bytes()
}

func file(p string) Entry         { return Entry{Path: p, Kind: File, Size: 1, Root: piece.Sum([]byte{7})} }
func dir(p string) Entry          { return Entry{Path: p, Kind: Dir} }
func link(p, target string) Entry { return Entry{Path: p, Kind: Link, Target: target} }

// hostile are lists that would mean something else than files below one folder, with the words that
// say so.
var hostile = map[string]struct {
	list []Entry
	says string
}{
	"up":                         {[]Entry{file("../x")}, `"../x" has the name ..`},
	"up within":                  {[]Entry{dir("a"), file("a/../../x")}, `has the name ..`},
	"here":                       {[]Entry{file("./x")}, `has the name .`},
	"absolute":                   {[]Entry{file("/etc/passwd")}, `"/etc/passwd" is absolute`},
	"nothing":                    {[]Entry{file("")}, `is no path`},
	"an empty name":              {[]Entry{dir("a"), file("a//b")}, `has an empty name`},
	"a slash behind":             {[]Entry{dir("a/")}, `has an empty name`},
	"NUL":                        {[]Entry{file("a\x00b")}, `"a\x00b" has a control character`},
	"a line of its own":          {[]Entry{file("a\nb")}, `has a control character`},
	"an escape":                  {[]Entry{file("a\x1b[2Jb")}, `has a control character`},
	"a long path":                {[]Entry{file(strings.Repeat("abc/", 1024) + "x")}, `is longer than 4096 bytes`},
	"a long name":                {[]Entry{file(strings.Repeat("n", 256))}, `has a name longer than 255 bytes`},
	"deep":                       {[]Entry{file(strings.Repeat("d/", 256) + "x")}, `is deeper than 255 folders`},
	"twice":                      {[]Entry{file("a"), file("a")}, `"a" comes twice`},
	"as a folder, too":           {[]Entry{dir("a"), file("a")}, `comes twice`},
	"twice, not in a row":        {[]Entry{dir("a"), file("a/b"), file("a")}, `is out of order`},
	"out of order":               {[]Entry{file("b"), file("a")}, `"a" is out of order, after "b"`},
	"back in a folder":           {[]Entry{dir("a"), file("a-b"), file("a/b")}, `is out of order`},
	"below a link":               {[]Entry{link("a", "b"), file("a/x")}, `"a/x" is below a link`},
	"below a file":               {[]Entry{file("a"), file("a/x")}, `"a/x" is below a file`},
	"below nothing":              {[]Entry{file("a/x")}, `is below a folder that is not listed`},
	"below a part of a name":     {[]Entry{dir("ab"), file("ab/x"), file("abc/x")}, `is below a folder that is not listed`},
	"a link out":                 {[]Entry{link("a", "../x")}, `"a" is a link to "../x", which leads out`},
	"a link out from below":      {[]Entry{dir("a"), link("a/l", "../../x")}, `which leads out`},
	"a link out on a detour":     {[]Entry{link("a", "b/../../x")}, `which leads out`},
	"a link up after a link":     {[]Entry{dir("d"), link("d/l", ".."), link("d/m", "l/../x")}, `which goes up after it went down`},
	"an absolute link":           {[]Entry{link("a", "/etc/passwd")}, `"a" is a link to "/etc/passwd", which is absolute`},
	"a link to nothing":          {[]Entry{link("a", "")}, `is a link to nothing`},
	"a link with NUL":            {[]Entry{link("a", "b\x00c")}, `is a link with a control character`},
	"a long link":                {[]Entry{link("a", strings.Repeat("b", 4097))}, `is a link to more than 4096 bytes`},
	"less than no bytes":         {[]Entry{{Path: "a", Kind: File, Size: -1, Root: piece.Root{1}}}, `cannot have -1 bytes`},
	"more than a blob":           {[]Entry{{Path: "a", Kind: File, Size: piece.MaxSize + 1, Root: piece.Root{1}}}, `cannot have`},
	"bytes that cannot be":       {[]Entry{{Path: "a", Kind: File, Size: math.MaxInt64, Root: piece.Root{1}}}, `cannot have`},
	"no content":                 {[]Entry{{Path: "a", Kind: File, Size: 1}}, `has no content`},
	"bytes in the empty content": {[]Entry{{Path: "a", Kind: File, Size: 1, Root: empty}}, `which is not 1 bytes`},
	"content without bytes":      {[]Entry{{Path: "a", Kind: File, Root: piece.Root{1}}}, `which is not 0 bytes`},
	"a folder with content":      {[]Entry{{Path: "a", Kind: Dir, Size: 1}}, `is a folder with the content of a file`},
	"a link with content":        {[]Entry{{Path: "a", Kind: Link, Target: "b", Root: piece.Root{1}}}, `is a link with the content of a file`},
	"a folder that leads":        {[]Entry{{Path: "a", Kind: Dir, Target: "b"}}, `is a folder with a target`},
	"a file that leads":          {[]Entry{{Path: "a", Kind: File, Size: 1, Root: piece.Root{1}, Target: "b"}}, `is a file with a target`},
	"no kind":                    {[]Entry{{Path: "a"}}, `is of the unknown kind 0`},
	"a device":                   {[]Entry{{Path: "a", Kind: 4}}, `is of the unknown kind 4`},
}

// Acceptance case 17.
func TestAListThatMeansAnythingButFilesBelowAFolderIsRefusedByName(t *testing.T) {
	for name, h := range hostile {
		list, _, err := decode(bytes.NewReader(raw(h.list, nil)))
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), h.says) || len(list) != len(h.list)-1 {
			t.Errorf("%s: %d entries and %v", name, len(list), err)
		}
		w := NewWriter(io.Discard)
		for i, e := range h.list {
			if err := w.Add(e); (err != nil) != (i == len(h.list)-1) || err != nil && !strings.Contains(err.Error(), h.says) {
				t.Errorf("%s: written until %v", name, err)
			}
		}
		if _, err := w.Close(); err == nil {
			t.Errorf("%s: the list can be closed", name)
		}
	}
}

// Acceptance case 17.
func TestATreeWhoseTotalsLieIsRefused(t *testing.T) {
	list := []Entry{dir("a"), file("a/b"), link("a/c", "b")}
	for _, lie := range []Totals{{}, {1, 1, 1, 2}, {2, 1, 1, 1}, {1, 0, 1, 1}, {1, 1, 0, 1}, {1, 1, 1, math.MaxInt64}} {
		if _, _, err := decode(bytes.NewReader(raw(list, &lie))); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "totals") {
			t.Errorf("%+v: %v", lie, err)
		}
	}
	if _, _, err := decode(bytes.NewReader(raw(list, nil))); err != nil {
		t.Errorf("the truth: %v", err)
	}
}

// A link that is let in leads nowhere out, whatever the other links of its tree do.
//
// Acceptance case 17.
func TestNoSetOfLinksLeadsOutTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"..", "..", "a", "b", "l", "m", "."})
		at := map[string]string{}
		for _, p := range []string{"l", "a/l", "a/b/l", "a/b/m", "a/m", "m"} {
			target := strings.Join(rapid.SliceOfN(part, 1, 5).Draw(t, p), "/")
			if checkTarget(link(p, target)) == nil {
				at[p] = target
			}
		}
		// follow walks as a kernel does, and reports a step above the top.
		var follow func(from []string, target string, budget *int) (at []string, out bool)
		follow = func(from []string, target string, budget *int) ([]string, bool) {
			here := slices.Clone(from)
			for name := range strings.SplitSeq(target, "/") {
				if *budget--; *budget < 0 {
					return here, false
				}
				switch name {
				case ".":
				case "..":
					if len(here) == 0 {
						return nil, true
					}
					here = here[:len(here)-1]
				default:
					next := append(slices.Clone(here), name)
					if to, is := at[strings.Join(next, "/")]; is {
						var out bool
						if next, out = follow(here, to, budget); out {
							return nil, true
						}
					}
					here = next
				}
			}
			return here, false
		}
		for p, target := range at {
			names, budget := strings.Split(p, "/"), 200
			if _, out := follow(names[:len(names)-1], target, &budget); out {
				t.Fatalf("%s leads out over %v", p, at)
			}
		}
	})
}

// endless is a list that never ends, made as it is read.
type endless struct {
	buf  bytes.Buffer
	n    int
	make func(n int) Entry
}

func (e *endless) Read(p []byte) (int, error) {
	for e.buf.Len() == 0 {
		if e.n == 0 {
			e.buf.WriteString(version)
		}
		entry := e.make(e.n)
		e.n++
		b, err := wire.Marshal(frame{Path: []byte(entry.Path), Kind: entry.Kind, Target: []byte(entry.Target)})
		if err != nil {
			return 0, err
		}
		e.buf.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		e.buf.Write(b)
	}
	return e.buf.Read(p)
}

// Acceptance case 17.
func TestAListWithoutEndIsRefusedWithLittleMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	e := &endless{make: func(n int) Entry { return dir(fmt.Sprintf("%08d", n)) }}
	r := NewReader(e)
	for {
		if _, err := r.Next(); err != nil {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "more than 1048576 entries") {
				t.Error(err)
			}
			break
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if r.Totals().Dirs != MaxEntries {
		t.Errorf("%d entries", r.Totals().Dirs)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("%d bytes are kept after %d entries", grown, MaxEntries)
	}
	runtime.KeepAlive(r)
}

func TestAFrameThatAnnouncesMoreThanAnEntryIsRefusedBeforeItIsRead(t *testing.T) {
	head := append([]byte(version), 0xff, 0xff, 0xff, 0xff)
	_, _, err := decode(io.MultiReader(bytes.NewReader(head), iotest.ErrReader(errors.New("read on"))))
	if !errors.Is(err, ErrRefused) || !errors.Is(err, wire.ErrTooLarge) {
		t.Error(err)
	}
}

func TestAReadThatFailsIsNoWordAboutTheTree(t *testing.T) {
	broken := errors.New("broken")
	data, _ := encode(t, []Entry{dir("a"), file("b")})
	for cut := range data {
		_, _, err := decode(io.MultiReader(bytes.NewReader(data[:cut]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) || errors.Is(err, ErrRefused) {
			t.Fatalf("after %d of %d bytes: %v", cut, len(data), err)
		}
	}
	if _, _, err := decode(io.MultiReader(bytes.NewReader(data), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Error(err)
	}
	for _, err := range Entries(func() (io.ReadCloser, error) { return nil, broken }) {
		if !errors.Is(err, broken) {
			t.Error(err)
		}
	}
}

func TestAnotherVersionIsRefusedWithBothNames(t *testing.T) {
	_, _, err := decode(strings.NewReader("covey tree 2\n...."))
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "covey tree 2") || !strings.Contains(err.Error(), "covey tree 1") {
		t.Error(err)
	}
}

func TestFramesOfATreeStay(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: strings.TrimSpace(version), Frames: map[string]any{"entry": &frame{}}})
	root := piece.Sum([]byte("hello\n"))
	data, _ := encode(t, []Entry{
		dir("d"),
		{Path: "d/hello", Kind: File, Exec: true, Size: 6, Root: root},
		link("d/l", "../e"), dir("e"),
		{Path: "empty", Kind: File, Root: empty},
	})
	if err := golden.Check("testdata/tree.txt", fmt.Sprintf("%q\n%s\n", data, Ref{piece.Sum(data), true})); err != nil {
		t.Error(err)
	}
}

func TestANameOfAFolderHasASlashBehindIt(t *testing.T) {
	for _, r := range []Ref{{piece.Sum(nil), false}, {piece.Sum(nil), true}} {
		text, _ := r.MarshalText()
		var back Ref
		if err := back.UnmarshalText(text); err != nil || back != r || strings.HasSuffix(r.String(), "/") != r.Dir {
			t.Errorf("%s is read as %v, %v", text, back, err)
		}
		for _, wrong := range []string{r.String() + "//", "/" + r.String(), r.String() + "x", "b3:/"} {
			if _, err := ParseRef(wrong); err == nil {
				t.Errorf("%q passes for a name", wrong)
			}
		}
	}
}

func FuzzATree(f *testing.F) {
	good, _ := encode(f, []Entry{dir("a"), file("a/b"), link("a/c", "../x"), file("x")})
	f.Add(good)
	for _, h := range hostile {
		f.Add(raw(h.list, nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		list, _, err := decode(bytes.NewReader(data))
		if err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Errorf("%v", err)
			}
			return
		}
		again, _ := encode(t, list) // whatever is read can be written
		if back, _, err := decode(bytes.NewReader(again)); err != nil || !slices.Equal(back, list) {
			t.Errorf("%+v: %v", list, err)
		}
	})
}

func FuzzARef(f *testing.F) {
	f.Add(Ref{piece.Sum(nil), true}.String())
	f.Fuzz(func(t *testing.T, s string) {
		if r, err := ParseRef(s); err == nil && r.String() != s {
			t.Errorf("%q is read as %s", s, r)
		}
	})
}

func BenchmarkReadATree(b *testing.B) {
	var list []Entry
	for i := range 10000 {
		list = append(list, file(fmt.Sprintf("file-%06d", i)))
	}
	data, _ := encode(b, list)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, _, err := decode(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/entry")
}
