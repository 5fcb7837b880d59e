//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coveyproject/covey/node/api"
)

// scriptKnock asks a peer over TCP; with ! it must refuse.
func scriptKnock(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 4 {
		ts.Fatalf("usage: knock URL TOKEN METHOD PATH [FILE]")
	}
	var body io.Reader
	if len(args) > 4 {
		f, err := os.Open(ts.MkAbs(args[4]))
		ts.Check(err)
		defer f.Close()
		body = f
	}
	r, err := http.NewRequest(args[2], strings.TrimSuffix(args[0], "/")+args[3], body)
	ts.Check(err)
	r.Header.Set("Authorization", "Bearer "+args[1])
	r.Header.Set("Content-Type", api.JobFileType)
	resp, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	ts.Check(err)
	_, _ = ts.Stdout().Write(b)
	if refused := resp.StatusCode/100 != 2; refused != neg {
		ts.Fatalf("%s %s: %s %s", args[2], args[3], resp.Status, b)
	}
}
