//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coveyproject/covey/internal/golden"
)

// The JSON that scripts of others may count on. What differs from run to run is replaced by what it
// is.
var (
	peerIDs = regexp.MustCompile(`12D3Koo[1-9A-HJ-NP-Za-km-z]{45}`)
	spans   = regexp.MustCompile(` after [0-9.]+(ms|s|m[0-9]+s)( \(and [0-9a-z.]+ in line there\))?`)
	vary    = map[string]string{
		"as_of": "TIME", "submitted": "TIME", "ended": "TIME", "time": "TIME", "at": "TIME", "since": "TIME", "next": "TIME", "last": "TIME", "not_before": "TIME", "expires": "TIME", "signed": "TIME", "until": "TIME",
		"rtt": "SECONDS", "took": "SECONDS", "waited": "SECONDS", "ran": "SECONDS", "left": "SECONDS", "longest_took": "SECONDS", "rate": "NUMBER", "age": "SECONDS", "memory": "BYTES", "memory_used": "BYTES", "disk": "BYTES", "disk_used": "BYTES", "pid": "NUMBER", "index": "NUMBER",
		"seq": "NUMBER", "token": "TOKEN", "epoch": "GENERATION/TERM", "cluster": "CLUSTER", "version": "VERSION",
		"ticket": "TICKET", "secret": "SECRET", "data": "FOLDER", "os": "OS", "arch": "ARCH", "holds": "WORDS", "held_to": "WORDS",
	}
)

// plain replaces what differs from run to run. names maps ids met to the words that stand for them.
func plain(key string, v any, names map[string]string) any {
	if word, ok := vary[key]; ok && v != nil && v != "" {
		return word
	}
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			if k != "load" { // comes with a later beat, and not on every system
				out[k] = plain(k, e, names)
			}
		}
		return out
	case []any:
		if key == "addrs" && len(x) > 0 {
			return []any{"MULTIADDR"}
		}
		out := []any{}
		for _, e := range x {
			out = append(out, plain("", e, names))
		}
		return out
	case string:
		for id, word := range names {
			x = strings.ReplaceAll(x, id, word)
		}
		return spans.ReplaceAllString(peerIDs.ReplaceAllString(x, "PEER"), " after SPAN")
	}
	return v
}

// scriptGolden compares the shape of what was printed with a file. `golden NAME [ID=WORD…]`: each
// ID is written as WORD.
func scriptGolden(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "golden NAME [ID=WORD…]")
	names := map[string]string{}
	for _, a := range args[1:] {
		id, word, _ := strings.Cut(a, "=")
		names[id] = word
	}
	var got bytes.Buffer
	v, err := readJSON(ts.ReadFile("stdout"))
	ts.Check(err)
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	ts.Check(enc.Encode(plain("", v, names)))
	home := ts.Getenv("TESTDATA")
	file := filepath.Join(home, "golden", args[0]+".json")
	if err := golden.Check(file, got.String()); err != nil {
		ts.Fatalf("this is what people's scripts read; a change of it belongs into the CHANGELOG: %v", err)
	}
}
