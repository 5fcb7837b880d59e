//go:build unix

package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// items are any bytes a variable can hold, those that mean something to a shell most of all.
func items() *rapid.Generator[string] {
	nasty := rapid.SampledFrom([]string{
		"$(touch hit)", "`touch hit`", ";touch hit;", "\"", "'", "\\", "\n", "$HOME", "{}", "*", " ", "|", "&", ")", "\"$(touch hit)\"", "'$(touch hit)'", "\xff", "${X}",
	})
	any := rapid.Custom(func(t *rapid.T) string {
		b := rapid.SliceOfN(rapid.ByteRange(1, 255), 0, 8).Draw(t, "bytes")
		return string(b)
	})
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.OneOf(nasty, any), 0, 5).Draw(t, "parts"), "")
	})
}

// sh runs a line in an empty folder and tells whether anything the item said was carried out.
func sh(t *rapid.T, line, item string) (out string, hit bool) {
	dir, err := os.MkdirTemp("", "shell")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = dir, []string{"V=" + item, "PATH=" + os.Getenv("PATH")}
	b, _ := cmd.Output() // a line of random characters may be none
	_, err = os.Stat(filepath.Join(dir, "hit"))
	return string(b), err == nil
}

func TestTheShellPrintsAnyItemAsItIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := items().Draw(t, "item")
		var line, want strings.Builder
		line.WriteString("printf '<%s>' ")
		for range rapid.IntRange(1, 4).Draw(t, "words") {
			want.WriteByte('<')
			for range rapid.IntRange(1, 4).Draw(t, "pieces") {
				p := rapid.SampledFrom([][2]string{
					{"{}", item},
					{`"{}"`, item},
					{`"a {} b"`, "a " + item + " b"},
					{`'x "'`, `x "`},
					{`"it's"`, "it's"},
					{`\"`, `"`},
					{`\{}`, "{}"},
					{`"$(printf %s. {})"`, item + "."},
					{`"$(printf '%s.' "{}")"`, item + "."},
					{`$((1+(1)))`, "2"},
					{`"${V}"`, item},
					{"a#b", "a#b"},
					{"`echo q`", "q"},
				}).Draw(t, "piece")
				line.WriteString(p[0])
				want.WriteString(p[1])
			}
			want.WriteByte('>')
			line.WriteByte(' ')
		}
		filled, err := Fill(line.String(), "V")
		if err != nil {
			t.Fatalf("%q: %v", line.String(), err)
		}
		got, hit := sh(t, filled, item)
		if hit || got != want.String() {
			t.Fatalf("%q became %q and printed %q with the item %q, want %q; executed: %v", line.String(), filled, got, item, want.String(), hit)
		}
	})
}

func TestNoItemIsEverCarriedOutWhateverTheLine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{
			"{}", "{}", "'", "\"", "`", "$(", ")", "(", "$((", "))", "${V:-", "}", "\\", "#", "\n", " ", ";", "|", "<<E\n", "E\n", "echo ", "a", "case a in a)", "esac", "$'", "&&",
		}), 1, 14).Draw(t, "line")
		filled, err := Fill(strings.Join(parts, ""), "V")
		if err != nil {
			return
		}
		if _, hit := sh(t, filled, items().Draw(t, "item")); hit {
			t.Fatalf("%q carried the item out", filled)
		}
	})
}

// What Keep writes means to the shell what the line meant, and has no mark that is filled in.
func TestALineThatIsKeptPrintsWhatItPrinted(t *testing.T) {
	t.Parallel()
	marks := func(word string) Mark {
		switch word {
		case "", "lr":
			return Mark{Variable: "V"}
		case "lrr":
			return Mark{Near: "lr"}
		}
		return Mark{}
	}
	rapid.Check(t, func(t *rapid.T) {
		line := "printf '<%s>' " + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"{}", "{lr}", "{lrr}", "{x}", "${V}", `"{}"`, `"a {lr} ${V}"`, `'{}'`, `'{lrr} b'`, `\{}`, `"\{}"`, `'\{}'`, "$(echo {lr})", `"$(echo '{}')"`, "$((1+1))", " ", " ", "# ", "\n",
		}), 1, 8).Draw(t, "line"), "")
		kept, err := Keep(line, marks)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if again, err := FillMarks(kept, marks); err != nil || again != kept {
			t.Fatalf("%q became %q, and that %q, %v", line, kept, again, err)
		}
		want, _ := sh(t, line, "item")
		if got, _ := sh(t, kept, "item"); got != want {
			t.Fatalf("%q became %q, and printed %q and not %q", line, kept, got, want)
		}
	})
}
