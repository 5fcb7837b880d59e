//go:build unix

package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptUntar unpacks folders and files into the script's folder.
func scriptUntar(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 1, "untar FILE.tar.gz")
	f, err := os.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	ts.Check(err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		ts.Check(err)
		path := ts.MkAbs(filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			ts.Check(os.MkdirAll(path, 0o700))
			continue
		}
		ts.Check(unpack(path, r))
	}
}

func unpack(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// scriptStumble starts a peer again and again, each time killing it a little later than the time
// before. What it found in its folder is then read, changed or left alone up to any point, and
// nobody has to know which.
func scriptStumble(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 3, "stumble NAME STARTS MILLISECONDS")
	starts, err := strconv.Atoi(args[1])
	ts.Check(err)
	step, err := strconv.Atoi(args[2])
	ts.Check(err)
	p := scriptProcesses(ts)
	for i := range starts {
		x := p.start(ts, args[0], args[0], []string{"up"})
		select {
		case <-x.ended:
			ts.Fatalf("%s ended by itself: %v\n%s", args[0], x.cmd.ProcessState, x.err)
		case <-time.After(time.Duration((i+1)*step) * time.Millisecond):
		}
		scriptCrash(ts, false, args[:1])
	}
}
