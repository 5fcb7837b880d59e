//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptReadme writes the examples below a heading of README.md, or of another page, to a file: all
// its blocks of shell, one after the other.
func scriptReadme(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "readme FILE [PAGE.md] HEADING…")
	file, name, heading := args[0], "README.md", args[1:]
	if strings.HasSuffix(args[1], ".md") {
		name, heading = args[1], args[2:]
	}
	page, err := os.ReadFile(filepath.Join(ts.Getenv("TESTDATA"), "../../..", name))
	ts.Check(err)
	_, text, found := strings.Cut(string(page), "\n"+strings.Join(heading, " ")+"\n")
	if !found {
		ts.Fatalf("%s has no heading %q", name, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var blocks strings.Builder
	for {
		var block string
		if _, text, found = strings.Cut(text, "```sh\n"); !found {
			break
		}
		block, text, _ = strings.Cut(text, "```")
		blocks.WriteString(block)
	}
	if blocks.Len() == 0 {
		ts.Fatalf("there is no example below %q", heading)
	}
	ts.Check(os.WriteFile(ts.MkAbs(file), []byte(blocks.String()), 0o600))
}
