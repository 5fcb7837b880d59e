package story

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/golden"
)

func at(ms int64) func() time.Time { return func() time.Time { return time.UnixMilli(ms) } }

func texts(s *Story) (out []string) {
	for _, e := range s.Since(time.Time{}) {
		out = append(out, e.Text)
	}
	return out
}

func elected(ms int64, text string) Event {
	return Event{At: ms, Kind: "coordinator", State: "elected", Peer: "p", Text: text}
}

func TestAStoryIsThereAgainAfterAStartAndTellsNothingTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s := Open(path, at(10_000))
	s.Add(Entry{1, 5}, elected(1000, "a"))
	s.Add(Entry{}, elected(2000, "b"))
	s.flush()
	s.Add(Entry{1, 6}, elected(3000, "c"), elected(3000, "d"))
	s.flush()
	again := Open(path, at(10_000))
	again.Add(Entry{1, 5}, elected(1000, "a"))
	again.Add(Entry{1, 6}, elected(3000, "c"), elected(3000, "d"))
	again.Add(Entry{1, 7}, elected(4000, "e"))
	again.Add(Entry{2, 1}, elected(5000, "of a new ledger"))
	if got := fmt.Sprint(texts(again)); got != "[a b c d e of a new ledger]" {
		t.Error(got)
	}
	if got := again.Since(time.UnixMilli(3000)); len(got) != 2 || got[0].Text != "e" {
		t.Errorf("%+v", got)
	}
	again.flush()
	b, _ := os.ReadFile(path)
	if err := golden.Check("testdata/story.jsonl", strings.ReplaceAll(string(b), "\n\n", "\n")); err != nil {
		t.Error(err)
	}
}

func TestWhatHappensAgainAndAgainIsOneEventAndPushesNothingOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s := Open(path, at(10_000))
	s.Add(Entry{1, 1}, elected(1000, "an election"))
	up := func(s *Story, index uint64, job string, n int) {
		s.Add(Entry{1, index}, Event{
			At: 1000 + int64(index), Kind: "task", State: "superseded", Job: job, Text: job + ": " + countOf(n, "task") + " given up: unreachable", Count: n, Of: "task", Like: "unreachable",
		})
	}
	for i := range uint64(most) { // by turns
		up(s, 2+i, fmt.Sprint("job", i%2), 1)
		if i == 100 {
			s.flush()
		}
	}
	is := func(s *Story, want string) {
		t.Helper()
		if got := fmt.Sprintf("%q", texts(s)); got != want {
			t.Error(got)
		}
	}
	want := `["an election" "job0: 2048 tasks given up: unreachable" "job1: 2048 tasks given up: unreachable"]`
	is(s, want)
	s.flush()
	again := Open(path, at(10_000))
	is(again, want)
	up(again, most+1, "job1", 5) // told before
	up(again, most+2, "job1", 5)
	again.flush()
	is(Open(path, at(10_000)), strings.Replace(want, `"job1: 2048`, `"job1: 2053`, 1))
	late := Event{At: 1000 + 2*mergeFor.Milliseconds(), Kind: "task", State: "superseded", Job: "job1", Text: "job1: 1 task given up: unreachable", Count: 1, Of: "task", Like: "unreachable"}
	again.Add(Entry{1, most + 3}, late)
	if got := texts(again); len(got) != 4 {
		t.Errorf("hours later: %q", got)
	}
}

func TestALineThatWasCutOffCostsOnlyItself(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	s := Open(path, at(0))
	s.Add(Entry{}, elected(1, "a"))
	s.Add(Entry{}, elected(2, "b"))
	s.flush()
	b, _ := os.ReadFile(path)
	if err := os.WriteFile(path, b[:len(b)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	s = Open(path, at(0))
	s.Add(Entry{}, elected(3, "c"))
	s.flush()
	if got := fmt.Sprint(texts(Open(path, at(0)))); got != "[a c]" {
		t.Error(got)
	}
}

func TestAStoryIsBoundedByCountAgeAndBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	now := int64(0)
	s := Open(path, func() time.Time { return time.UnixMilli(now) })
	for i := range 3 * most {
		s.Add(Entry{}, elected(int64(i), fmt.Sprint(i, strings.Repeat("ä", 300))))
		if i%500 == 0 {
			s.flush()
		}
	}
	s.flush()
	got := s.Since(time.Time{})
	if len(got) != most || got[most-1].At != 3*most-1 || len(got[0].Text) > maxText+4 {
		t.Errorf("%d events, the first with %d bytes", len(got), len(got[0].Text))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > maxFile {
		t.Errorf("%v, %v", info.Size(), err)
	}
	if read := Open(path, at(0)).Since(time.Time{}); len(read) < 500 || read[len(read)-1].Text != got[most-1].Text {
		t.Errorf("%d events are read", len(read))
	}
	now = keep.Milliseconds() + 3*most - 5
	if got := s.Since(time.Time{}); len(got) != 5 {
		t.Errorf("%d events are older than nothing", len(got))
	}
}

func TestWhatIsNewComesToTheDiskAndAtTheEndAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	synctest.Test(t, func(t *testing.T) {
		s := Open(path, time.Now)
		done := make(chan struct{})
		go func() { defer close(done); _ = s.Run(t.Context()) }()
		s.Add(Entry{}, elected(time.Now().UnixMilli(), "a"))
		time.Sleep(2 * pace)
		synctest.Wait()
		if got := texts(Open(path, time.Now)); len(got) != 1 {
			t.Errorf("%v", got)
		}
	})
}

func TestADiskThatTakesNothingCostsNothingElse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	s := Open(filepath.Join(dir, FileName), at(0))
	s.Add(Entry{}, elected(1, "a"))
	s.flush()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Add(Entry{}, elected(2, "b"))
	s.flush()
	if got := fmt.Sprint(texts(Open(s.path, at(0)))); got != "[a b]" {
		t.Error(got)
	}
}
