package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/node/api"
)

// beginLog is a peer's command line whose stderr is its log.
func beginLog(t *testing.T, size string) (c *cli, path string) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, logName)
	f, err := freshLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	c = &cli{data: dir, Streams: Streams{Out: f, Err: f}}
	if err := c.capLog(size); err != nil {
		t.Fatal(err)
	}
	return c, path
}

func TestALogNeverTakesMoreThanTwiceItsCapAndLosesNoNewerLine(t *testing.T) {
	c, path := beginLog(t, "8KiB")
	const lines = 5000
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := range lines / 4 {
				fmt.Fprintf(c.Err, "writer %d line %06d\n", w, n)
			}
		})
	}
	all.Wait()
	now, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path + olderName)
	if err != nil {
		t.Fatal(err)
	}
	if len(now) > 8<<10 || len(before) > 8<<10 || len(now)+len(before) < 8<<10 {
		t.Errorf("%d and %d bytes are kept of a cap of %d", len(before), len(now), 8<<10)
	}
	kept := append(before, now...)
	for w := range 4 { // the newest lines of each, without a gap
		want := lines/4 - 1
		for _, line := range reversed(bytes.Fields(bytes.ReplaceAll(kept, []byte(" "), []byte("_")))) {
			var who, n int
			if _, err := fmt.Sscanf(string(line), "writer_%d_line_%06d", &who, &n); err != nil {
				t.Fatalf("torn line %q", line)
			}
			if who != w {
				continue
			}
			if n != want {
				t.Fatalf("line %d of writer %d is followed by %d", n, w, want+1)
			}
			want--
		}
	}
}

func reversed(s [][]byte) [][]byte {
	out := make([][]byte, 0, len(s))
	for i := len(s) - 1; i >= 0; i-- {
		out = append(out, s[i])
	}
	return out
}

func TestANewStartKeepsTheLogOfTheOneBefore(t *testing.T) {
	c, path := beginLog(t, "")
	fmt.Fprintln(c.Err, "panic: why it ended")
	f, err := freshLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, "begins")
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(path + olderName)
	if string(now) != "begins\n" || string(before) != "panic: why it ended\n" {
		t.Errorf("the log is %q, the one before %q", now, before)
	}
}

func TestWhatIsNotThePeersLogIsNotCut(t *testing.T) {
	dir := t.TempDir()
	other, err := os.Create(filepath.Join(dir, "elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := os.WriteFile(filepath.Join(dir, logName), []byte("of a start before"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cli{data: dir, Streams: Streams{Err: other}}
	if err := c.capLog("4KiB"); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c.Err, strings.Repeat("x", 10_000))
	if st, err := other.Stat(); err != nil || st.Size() != 10_000 {
		t.Errorf("a file somebody redirected to has %d of 10000 bytes: %v", st.Size(), err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, logName)); string(b) != "of a start before" {
		t.Errorf("peer.log is %q", b)
	}
}

func TestALogSizeMustMakeSense(t *testing.T) {
	c := &cli{data: t.TempDir()}
	for _, size := range []string{"0", "12", "lots", "-1"} {
		if err := c.capLog(size); err == nil || api.AsError(err).Code != api.Usage || !strings.Contains(err.Error(), "--keep-log") {
			t.Errorf("%q: %v", size, err)
		}
	}
}
