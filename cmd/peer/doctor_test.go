//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestWhatLooksLikeASecretIsTakenOutOfABundle(t *testing.T) {
	for in, want := range map[string]string{
		"join covey1" + strings.Repeat("mzxw6", 20) + " now":  "join [removed] now",
		"JOIN COVEY1" + strings.Repeat("MZXW6", 20):           "JOIN [removed]",
		`"covey_MZXW6YTBMZXW6YTBMZXW6YTBMZ"`:                  `"[removed]"`,
		"--invite mzxw6ytbmzxw6ytbmzxw6ytbmz":                 "--invite [removed]",
		"http://127.0.0.1:1/#code=MZXW6YTBMZXW6YTBMZXW6YTBMZ": "http://127.0.0.1:1/#code=[removed]",
		"AGE-SECRET-KEY-1QQQSYQC":                             "[removed]",
		"-----BEGIN PRIVATE KEY-----\nMC4\n-----END":          "[removed]-----END",
		"Authorization: Bearer abcdefgh.ijk":                  "Authorization: Bearer [removed]",
		"postgres://app:hunter2@db/app":                       "postgres://app:[removed]db/app",
		`DB_PASSWORD=hunter2 user=me`:                         `DB_PASSWORD=[removed] user=me`,
		`env: ["API_KEY=hunter2","A=b"]`:                      `env: ["API_KEY=[removed]","A=b"]`,

		"covey_coordinator_elections_total 3":                          "covey_coordinator_elections_total 3",
		"12D3KooWCakv8fzubwerqrFXtNi75HDKa5PXmkTgDQxMT5V4CzL3 is here": "12D3KooWCakv8fzubwerqrFXtNi75HDKa5PXmkTgDQxMT5V4CzL3 is here",
		"job mzxw6ytbmz, cluster ynujhj223r6jdbfz":                     "job mzxw6ytbmz, cluster ynujhj223r6jdbfz",
		"the tokens of programs cannot be read":                        "the tokens of programs cannot be read",
	} {
		if got := string(scrub([]byte(in))); got != want {
			t.Errorf("%s\nbecame %s", in, got)
		}
	}
}

func TestOfALongLogTheEndIsBundledFromTheBeginningOfALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), logName)
	line := strings.Repeat("x", 99) + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 2*logTail/len(line))), 0o600); err != nil {
		t.Fatal(err)
	}
	if tail, err := tailOf(path); err != nil || len(tail)%len(line) != 0 || len(tail) > logTail || len(tail) < logTail-len(line) {
		t.Errorf("%d bytes, %v", len(tail), err)
	}
}

// scriptZipped prints each file of a zip below its name.
func scriptZipped(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "zipped FILE NAME")
	z, err := zip.OpenReader(ts.MkAbs(args[0]))
	ts.Check(err)
	defer z.Close()
	var all bytes.Buffer
	for _, f := range z.File {
		r, err := f.Open()
		ts.Check(err)
		fmt.Fprintf(&all, "== %s\n", f.Name)
		_, err = io.Copy(&all, r)
		ts.Check(err)
		fmt.Fprintln(&all)
	}
	for _, name := range []string{"identity.key", "seal.key", "api.token", "tokens"} {
		b, err := os.ReadFile(filepath.Join(ts.MkAbs(args[1]), name))
		if os.IsNotExist(err) {
			continue
		}
		ts.Check(err)
		for line := range bytes.Lines(b) {
			if line = bytes.TrimSpace(line); len(line) > 12 && bytes.Contains(all.Bytes(), line) {
				ts.Fatalf("%s holds a line of %s", args[0], name)
			}
		}
	}
	_, _ = ts.Stdout().Write(all.Bytes())
}
