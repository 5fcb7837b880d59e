//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptReadme writes the examples below a heading of README.md to a file: all its blocks of shell,
// one after the other.
func scriptReadme(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "readme FILE HEADING…")
	page, err := os.ReadFile(filepath.Join(ts.Getenv("TESTDATA"), "../../../README.md"))
	ts.Check(err)
	_, text, found := strings.Cut(string(page), "\n"+strings.Join(args[1:], " ")+"\n")
	if !found {
		ts.Fatalf("README.md has no heading %q", args[1:])
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
		ts.Fatalf("there is no example below %q", args[1:])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(blocks.String()), 0o600))
}
