package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// client talks to a peer as the command line does.
func (l *living) client() *client.Client {
	c := client.Of(l.folder.dir)
	l.t.Cleanup(c.Close)
	return c
}

// savedOf is what the ledger says is kept of a slot, at this peer.
func (l *living) savedOf(id string, slot int) (saved *taskstate.Saved) {
	l.replica.Read(func(s *ledger.State) {
		if rec, ok := s.Job(taskstate.JobID(id)); ok {
			if end := rec.Slot(slot).Final; end != nil {
				saved = end.Saved
			}
		}
	})
	return saved
}

// fetched reads a folder by its name through a peer: every file, by its path.
func (l *living) fetched(c *client.Client, root piece.Root) map[string]string {
	l.t.Helper()
	blobs := func(q api.GetFiles) (all []string) {
		r, err := c.GetFiles(timed(l.t), q)
		if err != nil {
			l.t.Fatalf("get %s at %s: %v", root, l.name, err)
		}
		defer r.Close()
		for {
			_, _, err := r.Next()
			if errors.Is(err, io.EOF) {
				return all
			}
			if err != nil {
				l.t.Fatalf("get %s at %s: %v", root, l.name, err)
			}
			b, err := io.ReadAll(r)
			if err != nil {
				l.t.Fatal(err)
			}
			all = append(all, string(b))
		}
	}
	list := blobs(api.GetFiles{Root: root})
	files := blobs(api.GetFiles{Root: root, Files: true})
	out := map[string]string{}
	for e, err := range tree.Entries(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(list[0])), nil }) {
		if err != nil {
			l.t.Fatal(err)
		}
		if e.Kind == tree.File && e.Size > 0 {
			out[e.Path], files = files[0], files[1:]
		}
	}
	return out
}

func outputJob(name, line, on string, globs ...string) taskstate.Job {
	j := shellJob(name, 1, line)
	if on != "" {
		j.Constraints = []string{"peer.name == " + on}
	}
	j.Outputs = &taskstate.Outputs{Globs: globs}
	return j
}

// Case 7: the maker is gone for good, and what it made is whole elsewhere.
func TestWhatATaskLeftOutlivesItsMaker(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two, three := all[0], all[1], all[2]
	const big = 3<<20 + 17
	s, err := one.client().Submit(timed(t), api.Submit{Job: outputJob("make",
		fmt.Sprintf("mkdir -p out/deep; echo small > out/deep/a; head -c %d /dev/zero > out/big; ln -s deep/a out/link; echo said", big), "two", "out/**")})
	if err != nil || s.Held {
		t.Fatalf("%+v, %v", s, err)
	}
	row, tasks := one.outcome(s.ID)
	saved := one.savedOf(s.ID, 1)
	if row.State != "complete" || tasks[1].PeerName != "two" || saved == nil {
		t.Fatalf("%+v, %+v, %+v", row, tasks, saved)
	}
	if !slices.Equal(saved.Keepers, []taskstate.PeerID{two.self, one.self}) || saved.Keep != 2 || saved.Bytes != big+6 || saved.Files != 2 {
		t.Fatalf("%+v", saved)
	}
	if err := two.stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(two.folder.dir); err != nil {
		t.Fatal(err)
	}
	got := three.fetched(three.client(), saved.Root)
	if len(got) != 2 || got["out/deep/a"] != "small\n" || len(got["out/big"]) != big || strings.Trim(got["out/big"], "\x00") != "" {
		t.Errorf("%d files came", len(got))
	}
	if logs := three.fetched(three.client(), saved.Logs); logs["stdout"] != "said\n" {
		t.Errorf("of its output %q came", logs)
	}
	if again := three.savedOf(s.ID, 1); !again.Equal(saved) {
		t.Errorf("three knows of %+v", again)
	}
}

// Cases 5 and 6, through a whole cluster.
func TestATaskWithoutItsOutputFailsAndSaysSoEverywhere(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	id := all[0].submit(outputJob("nothing", "echo x > result.csv", "two", "*.png"))
	partial := all[0].submit(outputJob("half", "echo half > x.png; exit 3", "two", "*.png"))
	for _, l := range all {
		row, tasks := l.outcome(id)
		if k := tasks[1]; row.State != "failed" || string(k.Reason) != string(taskstate.ReasonNoOutput) || !strings.Contains(k.Message, `"*.png"`) || !strings.Contains(k.Message, "result.csv") {
			t.Errorf("%s: %+v", l.name, k)
		}
		row, tasks = l.outcome(partial)
		if saved := l.savedOf(partial, 1); row.State != "failed" || *tasks[1].ExitCode != 3 || saved == nil || saved.Keep != 1 || saved.Keepers[0] != all[1].self {
			t.Errorf("%s: %+v, %+v", l.name, tasks[1], saved)
		}
	}
}

func TestAPeerAloneKeepsOneCopyAndSaysWhy(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one"})
	id := one.submit(outputJob("alone", "echo x > x", "", "x"))
	row, _ := one.outcome(id)
	if saved := one.savedOf(id, 1); row.State != "complete" || saved == nil || saved.Keep != 2 || len(saved.Keepers) != 1 || saved.Why == "" {
		t.Fatalf("%+v, %+v", row, saved)
	}
}

// savingOn waits until the job's only task is being saved, and says where.
func (l *living) savingOn(id string, all []*living) (maker *living) {
	l.t.Helper()
	eventually(l.t, "the task is being saved", func() (bool, string) {
		ts, err := l.Tasks(timed(l.t), id)
		if err != nil || len(ts.Tasks) == 0 {
			return false, fmt.Sprint(err)
		}
		for _, m := range all {
			if k := ts.Tasks[0]; k.State == "saving" && k.Peer == m.self {
				maker = m
			}
		}
		return maker != nil, ts.Tasks[0].State
	})
	return maker
}

// knowsTwoCopies waits until the maker and another are known to keep what the job's only task left.
func (l *living) knowsTwoCopies(id string, maker *living) {
	l.t.Helper()
	eventually(l.t, l.name+" knows of two copies", func() (bool, string) {
		saved := l.savedOf(id, 1)
		return saved != nil && len(saved.Keepers) == 2 && saved.Keepers[0] == maker.self, fmt.Sprintf("%+v", saved)
	})
}

const slowRate = 1 << 20

// Case 8: the maker is gone for good before anybody has a copy.
func TestATaskWhoseMakerDiesWhileItIsSavedRunsAgain(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one := all[0]
	for _, l := range all[1:] {
		l.host.Slow(slowRate)
	}
	const big = 40 << 20
	j := outputJob("again", fmt.Sprintf("head -c %d /dev/zero > big; echo done > small", big), "", "*")
	j.Constraints = []string{"peer.name != one"}
	j.Unreachable.ReplaceAfter = 1000
	id := one.submit(j)
	maker := one.savingOn(id, all)
	if _, err := one.Job(timed(t), id); err != nil {
		t.Fatal(err)
	}
	if saved := one.savedOf(id, 1); saved != nil {
		t.Fatalf("it is settled with %+v", saved)
	}
	maker.crash()
	if err := os.RemoveAll(maker.folder.dir); err != nil {
		t.Fatal(err)
	}
	for _, l := range all[1:] {
		if l != maker {
			l.host.Slow(0)
		}
	}
	row, tasks := one.outcome(id)
	saved := one.savedOf(id, 1)
	if row.State != "complete" || tasks[1].Attempt != 2 || tasks[1].Peer == maker.self || saved == nil || slices.Contains(saved.Keepers, maker.self) || len(saved.Keepers) != 2 {
		t.Fatalf("%+v, %+v, %+v", row, tasks[1], saved)
	}
	if got := one.fetched(one.client(), saved.Root); len(got["big"]) != big || strings.Trim(got["big"], "\x00") != "" || got["small"] != "done\n" {
		t.Errorf("%d bytes came, and %q", len(got["big"]), got["small"])
	}
}

// Case 29: the maker is cut off while it saves, and comes back.
func TestACutWhileATaskIsSavedHealsToOneEndAndTwoCopies(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two := all[0], all[1]
	two.host.Slow(slowRate)
	j := outputJob("cut", fmt.Sprintf("head -c %d /dev/zero > big", 16<<20), "two", "*")
	j.Unreachable.ReplaceAfter = int64(patience / 1e6)
	id := one.submit(j)
	one.savingOn(id, all)
	if err := two.Block(timed(t), api.Block{Peers: []string{one.self, all[2].self}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the maker has given up", func() (bool, string) {
		ts, err := two.Tasks(timed(t), id)
		return err == nil && len(ts.Tasks) == 1 && ts.Tasks[0].State == "complete", fmt.Sprint(ts.Tasks)
	})
	if ts, err := one.Tasks(timed(t), id); err != nil || ts.Tasks[0].State != "saving" {
		t.Errorf("the others say %+v, %v", ts.Tasks, err)
	}
	if err := two.Block(timed(t), api.Block{}); err != nil {
		t.Fatal(err)
	}
	two.host.Slow(0)
	for _, l := range all {
		row, tasks := l.outcome(id)
		if row.State != "complete" || tasks[1].Attempt != 1 {
			t.Errorf("%s: %+v, %+v", l.name, row, tasks[1])
		}
	}
	eventually(t, "the submitter keeps it, too", func() (bool, string) {
		p, ok := one.files.store.PinNamed(keep.PinName(taskstate.Task(taskstate.JobID(id), 1, 1)))
		return ok && p.Until.IsZero() && slices.Contains(p.Roots, one.savedOf(id, 1).Root), fmt.Sprintf("%+v", p)
	})
	for _, l := range all {
		l.knowsTwoCopies(id, two)
	}
	saved := one.savedOf(id, 1)
	if other := all[2].savedOf(id, 1); saved.Keepers[0] != two.self || !saved.Equal(other) {
		t.Errorf("%+v, and %+v", saved, other)
	}
}

// A maker that goes down while it saves, in order or not, saves again when it is back, and runs
// nothing twice.
func TestAMakerThatRestartsWhileItSavesGoesOn(t *testing.T) {
	long.Test(t)
	t.Parallel()
	for _, how := range []string{"stopped", "crashed"} {
		t.Run(how, func(t *testing.T) {
			all := clusterOf(t, "one", "two")
			one, two := all[0], all[1]
			two.host.Slow(slowRate)
			ran := filepath.Join(taskFolder(t), "ran")
			j := outputJob("on", fmt.Sprintf("echo once >> %s; head -c %d /dev/zero > big", ran, 30<<20), "two", "*")
			j.Unreachable.ReplaceAfter = int64(patience / 1e6)
			id := one.submit(j)
			one.savingOn(id, all)
			if how == "crashed" {
				two.crash()
			} else if err := two.stop(); err != nil {
				t.Fatal(err)
			}
			two = two.again()
			for _, l := range []*living{one, two} {
				if row, tasks := l.outcome(id); row.State != "complete" || tasks[1].Attempt != 1 {
					t.Errorf("%s: %+v", l.name, tasks[1])
				}
				l.knowsTwoCopies(id, two) // one that was cut off before it went down owed the second
			}
			if b, err := os.ReadFile(ran); string(b) != "once\n" {
				t.Errorf("it ran as in %q, %v", b, err)
			}
		})
	}
}

// A job that is cancelled while its task is saved ends as cancelled, with what was collected as a
// partial output.
func TestAJobThatIsCancelledWhileItIsSavedIsCancelled(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one, two := all[0], all[1]
	two.host.Slow(slowRate)
	id := one.submit(outputJob("stop", fmt.Sprintf("head -c %d /dev/zero > big", 60<<20), "two", "*"))
	one.savingOn(id, all)
	eventually(t, "it is collected", func() (bool, string) {
		_, ok := two.files.store.PinNamed(keep.PinName(taskstate.Task(taskstate.JobID(id), 1, 1)))
		return ok, ""
	})
	if _, err := one.Cancel(timed(t), id); err != nil {
		t.Fatal(err)
	}
	row, tasks := one.outcome(id)
	if saved := one.savedOf(id, 1); row.State != "shutdown" || tasks[1].State != "shutdown" || saved == nil || saved.Keep != 1 || saved.Keepers[0] != two.self {
		t.Errorf("%+v, %+v, %+v", row, tasks[1], saved)
	}
}
