package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// life is a log that runs.
type life struct {
	*Log
	mu      sync.Mutex
	trouble []error
	stop    func()
}

func begin(t *testing.T, path string, maxSize int64) *life {
	t.Helper()
	l := &life{}
	l.Log = New(Config{Path: path, maxSize: maxSize, Trouble: func(err error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.trouble = append(l.trouble, err)
	}})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- l.Run(ctx) }()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

// rows are the details of all that is kept.
func rows(t *testing.T, path string) (all []string, v Findings) {
	t.Helper()
	v, err := Read(path, func(r Record) error {
		all = append(all, r.Detail)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, v
}

func TestWhatIsWrittenIsReadInItsOrderOverRestartsAndFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if all, v := rows(t, path); len(all) > 0 || v.Broken != "" {
		t.Errorf("before it began: %v, %+v", all, v)
	}
	want := []string{}
	for round := range 3 {
		l := begin(t, path, 2000)
		for i := range 4 {
			want = append(want, fmt.Sprint(round, i, strings.Repeat(" ", 300)))
			l.Write(Record{What: OrderTaken, Detail: want[len(want)-1]})
		}
		l.stop()
	}
	all, v := rows(t, path)
	if strings.Join(all, ",") != strings.Join(want, ",") || v.Broken != "" || v.First != 1 || v.Last != 12 {
		t.Errorf("%d rows of %d, %+v", len(all), len(want), v)
	}
	if _, err := os.Stat(path + ".1"); err != nil {
		t.Errorf("all is in one file: %v", err)
	}
}

func TestTheLogIsBoundedAndWhatIsKeptHoldsTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for range 3 * (Keep + 2) {
		l := begin(t, path, 300)
		l.Write(Record{What: OrderTaken, Detail: strings.Repeat("x", 200)})
		l.stop()
	}
	files, _ := filepath.Glob(path + "*")
	_, v := rows(t, path)
	if len(files) != Keep+1 || v.Broken != "" || v.First == 1 || v.Last != 3*(Keep+2) {
		t.Errorf("%v, %+v", files, v)
	}
}

func TestEveryChangeBeforeTheLastLineIsSeen(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := begin(t, path, 0)
		n := rapid.IntRange(2, 8).Draw(rt, "records")
		for i := range n {
			l.Write(Record{What: OrderTaken, By: "k", Detail: fmt.Sprint(i)})
		}
		l.stop()
		before, _ := os.ReadFile(path)
		lines := strings.SplitAfter(strings.TrimSuffix(string(before), "\n"), "\n")
		at := rapid.IntRange(0, n-2).Draw(rt, "line")
		switch rapid.SampledFrom([]string{"changed", "removed", "twice", "swapped"}).Draw(rt, "how") {
		case "changed":
			lines[at] = strings.Replace(lines[at], `"by":"k"`, `"by":"q"`, 1)
		case "removed":
			lines = append(lines[:at], lines[at+1:]...)
		case "twice":
			lines[at] += lines[at]
		case "swapped":
			if at == n-2 { // the last line has no end of its own here
				return
			}
			lines[at], lines[at+1] = lines[at+1], lines[at]
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")+"\n"), 0o600); err != nil {
			rt.Fatal(err)
		}
		if _, v := rows(t, path); v.Broken == "" {
			rt.Errorf("not seen:\n%s", strings.Join(lines, ""))
		}
	})
}

func TestALineThatAPowerCutToreIsCutOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := begin(t, path, 0)
	l.Write(Record{Detail: "a"})
	l.stop()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(`{"seq":2,"ti`)
	_ = f.Close()
	if all, v := rows(t, path); len(all) != 1 || v.Broken != "" {
		t.Errorf("read while it is written: %v, %+v", all, v)
	}
	l = begin(t, path, 0)
	l.Write(Record{Detail: "b"})
	l.stop()
	if all, v := rows(t, path); strings.Join(all, "") != "ab" || v.Broken != "" {
		t.Errorf("%v, %+v", all, v)
	}
}

func TestALogThatWasTakenAwayWhileItIsWrittenShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := begin(t, path, 0)
	l.Write(Record{Detail: "a"})
	for all, _ := rows(t, path); len(all) == 0; all, _ = rows(t, path) {
		time.Sleep(time.Millisecond)
	}
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	l.Write(Record{Detail: "b"})
	l.stop()
	if all, v := rows(t, path); strings.Join(all, "") != "b" || v.First != 2 {
		t.Errorf("%v, %+v", all, v)
	}
}

// A folder in the place of the file is a disk that takes nothing.
func TestADiskThatTakesNothingStopsNobodyAndWhatIsLostIsCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	l := New(Config{Path: path})
	for i := range MaxWaiting + 7 {
		l.Write(Record{Detail: fmt.Sprint(i)})
	}
	if err := l.flush(); err == nil {
		t.Fatal("written")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.Write(Record{Detail: "one more"})
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	all, v := rows(t, path)
	if len(all) != MaxWaiting+1 || v.Broken != "" || all[MaxWaiting] != "8 records before this one could not be written" {
		t.Errorf("%d, %+v, %q", len(all), v, all[len(all)-1])
	}
}

func TestTroubleIsToldAndItsEnd(t *testing.T) {
	var told []error
	l := New(Config{Path: filepath.Join(t.TempDir(), "audit.log"), Trouble: func(err error) { told = append(told, err) }})
	full := errors.New("full")
	for _, err := range []error{nil, full, full, nil, nil} {
		l.tell(err)
	}
	if len(told) != 3 || told[0] == nil || told[2] != nil {
		t.Errorf("%v", told)
	}
}

func TestALogThatIsNotThereTakesEverything(t *testing.T) {
	var l *Log
	l.Write(Record{What: API})
}
