package supervise

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestASupervisorsLogIsBoundedAndSaysWhereItEnds(t *testing.T) {
	var log bytes.Buffer
	k := newLog(&log, func() time.Time { return time.Unix(0, 0).UTC() }, 1000)
	for range 1000 {
		k.write("no space left on device")
	}
	if log.Len() > 1200 {
		t.Errorf("%d bytes of 1000", log.Len())
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if !strings.HasSuffix(lines[0], "no space left on device") || !strings.Contains(lines[len(lines)-1], "nothing more") {
		t.Errorf("it begins with %q and ends with %q", lines[0], lines[len(lines)-1])
	}
}

func TestOnlyALargeLogOfASupervisorIsPutAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		t.Helper()
		f, err := openLogFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	write(strings.Repeat("b", logLimit))
	if st, err := os.Stat(path); err != nil || st.Size() != logLimit+1 {
		t.Fatalf("a small log was not gone on with: %v", err)
	}
	write("c")
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(path + ".1")
	if string(now) != "c" || len(before) != logLimit+1 {
		t.Errorf("the log is %q, the one before has %d bytes", now, len(before))
	}
}
