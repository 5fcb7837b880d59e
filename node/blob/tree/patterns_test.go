package tree

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

func TestRulesOfIgnoreFiles(t *testing.T) {
	for _, c := range []struct{ rules, out, in string }{ // paths; folders end with a slash
		{"", ".git .git/ a/.git/", "git .gitignore .coveyignore a"},
		{"!.git", "", ".git/ a/.git/"},
		{"# words\n\n   \n*.o\r\n", "x.o a/b/x.o x.o/", "x.c #"},
		{"\\#a", "#a", "a"},
		{"build", "build build/ a/build/", "builds a/builds"},
		{"build/", "build/ a/build/", "build a/build"},
		{"/build", "build build/", "a/build"},
		{"a/b", "a/b a/b/", "x/a/b b"},
		{"a/*.o", "a/x.o", "a/b/x.o x.o"},
		{"a/**/x", "a/x a/b/x a/b/c/x", "x b/x"},
		{"**/x/y", "x/y a/x/y", "y"},
		{"a/**", "a/b a/b/c", "a/ a"},
		{"a/**\n!a/keep", "a/b", "a/keep a/"},
		{"*.{png,jpg}", "x.png a/x.jpg", "x.gif"},
		{"*\n!*.c", "x.o a/", "x.c"},
		{"!x\nx", "x", ""},
		{"x?[0-9]", "xa1 a/xb2", "x1 xaa"},
		{"*", ".hidden a/", ""},
	} {
		ig, err := ParseIgnore(c.rules)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			for _, p := range strings.Fields(map[bool]string{true: c.out, false: c.in}[want]) {
				name, dir := strings.CutSuffix(p, "/")
				if ig.Skips(name, dir) != want {
					t.Errorf("with %q, %s is left out: %v", c.rules, p, !want)
				}
			}
		}
	}
	for rules, says := range map[string]string{
		"a\n[b":                              ".coveyignore:2: ",
		"a\n\n{b":                            ".coveyignore:3: ",
		strings.Repeat("x", maxPattern+1):    ".coveyignore:1: ",
		strings.Repeat("xxxxxxx\n", 8<<10+1): "more than 65536 bytes",
		strings.Repeat("{a*,*a}", 20):        "too many patterns",
	} {
		if _, err := ParseIgnore(rules); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v", rules, err)
		}
	}
}

func TestAGlobMatchesPathsAndWhatIsBelowThem(t *testing.T) {
	for _, c := range []struct{ glob, in, out string }{
		{"f-*.png", "f-1.png", "a/f-1.png f-.jpg"},
		{"**/*.png", "x.png a/x.png a/b/x.png", "x.jpg"},
		{"out", "out out/a out/b/c", "output a/out"},
		{"out/", "out out/a", "a"},
		{"./out", "out out/a", "a"},
		{"out/*", "out/a out/a/b", "out"},
		{"out/**", "out/a out/a/b", "a"},
		{".", "a a/b", ""},
		{"{a,b}/[0-9]", "a/1 b/2", "c/1 a/x"},
		{"*.{png,jpg,gif,tif,bmp,webp,exr,hdr,tga}", "x.exr", "x.pdf"},
		{"{a,b}-{1,2,3}.{x,y}", "a-3.y", "a-4.y"},
		{"ä*", "äö", "aö"},
	} {
		g, err := ParseGlob(c.glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []bool{true, false} {
			for _, p := range strings.Fields(map[bool]string{true: c.in, false: c.out}[want]) {
				if g.Match(p) != want {
					t.Errorf("%s matches %s: %v", c.glob, p, !want)
				}
			}
		}
	}
	for _, wrong := range []string{"", "/", "/a", "..", "../a", "a/../..", "a/../../b", "[a", strings.Repeat("{a,aa}", 30), strings.Repeat("a", maxPattern+1)} {
		if _, err := ParseGlob(wrong); err == nil {
			t.Errorf("%q passes for a glob", wrong)
		}
	}
}

func FuzzPatternsEnd(f *testing.F) {
	f.Add("**/*a{b,c}", "x/abc")
	f.Add("a/*/[bc]/d.{x,y}", "a/b/c/d.x")
	f.Add("a/**/c", "a/b/b/c/e")
	f.Add("!/a/**/\n#x\n**/**/**/x", "a/b/c/d/e/f/g/h")
	f.Fuzz(func(t *testing.T, pattern, p string) {
		p = p[:min(len(p), maxName)]
		if ig, err := ParseIgnore(pattern); err == nil {
			_ = fmt.Sprint(ig.Skips(p, true), ig.Skips(p, false))
		}
		if g, err := ParseGlob(pattern); err == nil {
			matched := g.Match(p)
			for i, c := range p {
				if c == '/' && matched && path.Clean("/"+p) == "/"+p && !g.Match(p[:i]) && !g.Below(p[:i]) {
					t.Errorf("%q matches %q, and nothing below %q", pattern, p, p[:i])
				}
			}
		}
	})
}
