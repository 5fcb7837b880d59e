package node

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/taskstate"
)

// keeps waits until the ledger says, at this peer, that these keep what the task of a slot left,
// and nobody else.
func (l *living) keeps(id string, slot int, who ...*living) *taskstate.Saved {
	l.t.Helper()
	var want []taskstate.PeerID
	for _, w := range who {
		want = append(want, w.self)
	}
	slices.Sort(want)
	eventually(l.t, fmt.Sprintf("%s: %s is kept by %d peers", l.name, id, len(who)), func() (bool, string) {
		s := l.savedOf(id, slot)
		if s == nil {
			return false, "nothing is kept"
		}
		return slices.Equal(slices.Sorted(slices.Values(s.Keepers)), want), fmt.Sprintf("%+v", s)
	})
	return l.savedOf(id, slot)
}

// said is what this peer shows of what a job's task said.
func (l *living) said(id string) (text string, wrong *api.Error) {
	l.t.Helper()
	err := l.Logs(timed(l.t), id, api.LogQuery{}, func(c api.LogChunk) error {
		text += string(c.Data)
		if c.Error != nil {
			wrong = c.Error
		}
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return text, wrong
}

// waitingJob is one whose task waits for a file.
func waitingJob(t *testing.T, name, line, on string, globs ...string) (j taskstate.Job, release func()) {
	t.Helper()
	flag := filepath.Join(taskFolder(t), "go")
	j = outputJob(name, "until [ -e "+flag+" ]; do sleep 0.05; done; "+line, on, globs...)
	return j, func() {
		if err := os.WriteFile(flag, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
}

// Case 19, its second half: what was left while its submitter was away comes to it unasked.
func TestWhatTasksLeftComesHomeWhenItsSubmitterIsBack(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	job, release := waitingJob(t, "home", "echo home > x", "two", "x")
	id := all[2].submit(job)
	all[0].submitted(id)
	if err := all[2].stop(); err != nil {
		t.Fatal(err)
	}
	release()
	all[0].outcome(id)
	saved := all[0].keeps(id, 1, all[0], all[1])
	three := alive(t, Config{Data: all[2].cfg.Data, Name: "three"})
	three.keeps(id, 1, all[0], all[1], three)
	if p, ok := three.files.store.PinNamed(keep.PinName(taskstate.Task(taskstate.JobID(id), 1, 1))); !ok || !p.Until.IsZero() || !slices.Contains(p.Roots, saved.Root) {
		t.Errorf("%+v, %t", p, ok)
	}
}

// submitted waits until this peer knows a job.
func (l *living) submitted(id string) {
	l.t.Helper()
	eventually(l.t, l.name+" knows the job", func() (bool, string) {
		_, err := l.Job(timed(l.t), id)
		return err == nil, fmt.Sprint(err)
	})
}

// Case 34, and what becomes of the copies of a peer that is gone for good.
func TestWhatAPeerKeptIsKeptAgainWhenItIsGoneForGoodAndItsLogsAreThere(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two, three := all[0], all[1], all[2]
	id := one.submit(outputJob("left", "echo said; echo x > x", "two", "x"))
	one.outcome(id)
	saved := three.keeps(id, 1, one, two)
	plain := one.submit(func() taskstate.Job {
		j := shellJob("plain", 1, "echo plain")
		j.KeepLogs = 1
		j.Constraints = []string{"peer.name == two"}
		return j
	}())
	one.outcome(plain)
	if err := two.stop(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*living{one, three} {
		if text, wrong := l.said(id); text != "said\n" || wrong != nil {
			t.Errorf("%s shows %q, %v", l.name, text, wrong)
		}
	}
	if err := one.Orders.Remove(timed(t), "two", api.Removal{}); err != nil {
		t.Fatal(err)
	}
	three.keeps(id, 1, one, three)
	if got := three.fetched(three.client(), saved.Root); got["x"] != "x\n" {
		t.Errorf("%v came", got)
	}
	text, wrong := three.said(plain)
	if text != "" || wrong == nil || !strings.Contains(wrong.Message, "is lost") || !strings.Contains(wrong.Message, "the task itself is complete") && !strings.Contains(wrong.Message, "The task itself is complete") {
		t.Errorf("of what was kept nowhere else: %q, %v", text, wrong)
	}
}

// Case 33.
func TestWhoLeavesHandsOverWhatNobodyElseHas(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	job := outputJob("sole", "echo sole > x", "two", "x")
	job.Outputs.Keep = 1
	id := all[0].submit(job)
	all[0].outcome(id)
	saved := all[1].keeps(id, 1, all[1])
	if err := all[1].Leave(timed(t)); err != nil {
		t.Fatal(err)
	}
	all[0].keeps(id, 1, all[0])
	if got := all[2].fetched(all[2].client(), saved.Root); got["x"] != "sole\n" {
		t.Errorf("%v came", got)
	}
}

func TestAnElectionKeepsNobodyFromLeaving(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "one", "two", "three", "four")
	for _, l := range all {
		eventually(t, "three peers vote", func() (bool, string) { return len(l.Deciders.Voters()) == 3, l.name })
	}
	leaving := all[3]
	coordinator, _, _ := leaving.ledger.Coordinator()
	i := slices.IndexFunc(all, func(l *living) bool { return l.self == coordinator })
	var crash sync.WaitGroup
	crash.Go(all[i].crash) // takes longer than an election
	defer crash.Wait()
	for now := coordinator; now == coordinator && leaving.view.AskCluster(t.Context(), "") != nil; { // as soon as nobody answers
		now, _, _ = leaving.ledger.Coordinator()
	}
	if err := leaving.Leave(timed(t)); err != nil {
		t.Error(err)
	}
}

// Case 33, where nobody takes it.
func TestWhoHasTheOnlyCopyAndFindsNobodyForItStaysAndSaysSo(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one", Store: -1})
	ticket := one.ticket(api.TicketRequest{Expires: 600})
	two := alive(t, Config{Name: "two", Join: ticket.Ticket})
	one.sees("one", "two")
	id := two.submit(outputJob("sole", "echo sole > x", "two", "x"))
	row, _ := two.outcome(id)
	saved := two.savedOf(id, 1)
	if row.State != "complete" || len(saved.Keepers) != 1 || saved.Why == "" {
		t.Fatalf("%+v, %+v", row, saved)
	}
	wants(t, two.Leave(timed(t)), api.Conflict, "only copy", id, "one cannot keep it", "peer get", "peer remove two")
	u, err := two.client().StoreUsage(timed(t))
	if err != nil || len(u.Jobs) != 1 || u.Jobs[0].Job != id || u.Jobs[0].Only != 1 || u.Jobs[0].Copies != 1 || u.Jobs[0].Keep != 2 || u.Jobs[0].Why == "" {
		t.Errorf("%+v, %v", u, err)
	}
	if row, _ := two.outcome(two.submit(noopJob("after", 3, 0))); row.State != "complete" { // it goes on
		t.Errorf("%+v", row)
	}
}

// Case 11, its second half.
func TestADamagedCopyIsMadeGood(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	id := all[0].submit(outputJob("rot", "head -c 3000000 /dev/zero > x", "two", "x"))
	all[0].outcome(id)
	all[0].keeps(id, 1, all[0], all[1])
	root := piece.Sum(make([]byte, 3_000_000))
	for _, l := range all {
		name := hex.EncodeToString(root[:])
		flip(t, filepath.Join(l.folder.dir, "blobs", name[:2], name), 1<<20)
		r, err := l.files.store.Reader(root)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.Copy(io.Discard, io.NewSectionReader(r, 0, r.Size())); err == nil {
			t.Fatal("the damage is not noticed")
		}
		r.Close()
		eventually(t, l.name+" has it whole again", func() (bool, string) {
			return l.files.store.Have(root).Whole && len(l.files.store.Lacking()) == 0, ""
		})
	}
}

// flip turns a bit of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{1}, at); err != nil {
		t.Fatal(err)
	}
}

// Case 33, of a drain: it is over when what only the drained peer had is kept elsewhere.
func TestADrainIsOverWhenWhatTasksLeftIsKeptElsewhere(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	job := outputJob("sole", "echo sole > x", "two", "x")
	job.Outputs.Keep = 1
	id := all[0].submit(job)
	all[0].outcome(id)
	all[0].keeps(id, 1, all[1])
	if _, err := all[0].client().SetAvailability(timed(t), "two", api.Availability{Availability: api.Drained}); err != nil {
		t.Fatal(err)
	}
	var last api.Draining
	err := all[0].Draining(timed(t), "two", func(d api.Draining) error {
		last = d
		return nil
	})
	if err != nil || last.Left != 0 || last.Only != 0 {
		t.Fatalf("%+v, %v", last, err)
	}
	all[0].keeps(id, 1, all[0], all[1])
}

// Case 26: sole copies stay, whatever the quota, and the peer takes no more and says so.
func TestAPeerWithoutRoomForWhatTasksLeaveTakesNoneThatLeaveFilesAndLosesNothing(t *testing.T) {
	t.Parallel()
	const tasks, each = 30, 1 << 20
	one := alive(t, Config{Name: "one", Store: 4 * each})
	job := shellJob("many", tasks, fmt.Sprintf("head -c %d /dev/urandom > x; sleep 0.4", each))
	job.MaxPerPeer = 1
	job.Outputs = &taskstate.Outputs{Globs: []string{"x"}}
	id := one.submit(job)
	eventually(t, "it takes no more", func() (bool, string) {
		st, err := one.Status(timed(t))
		return err == nil && slices.ContainsFunc(st.Troubles, func(x api.Trouble) bool { return x.Code == api.TroubleStoreFull }), fmt.Sprintf("%+v", st.Troubles)
	})
	var done int
	eventually(t, "what runs has ended", func() (bool, string) {
		row, err := one.Job(timed(t), id)
		done = row.Job.Tasks["complete"]
		return err == nil && row.Job.Tasks["running"] == 0 && done > 0, fmt.Sprintf("%+v", row.Job.Tasks)
	})
	if done < 4 || done >= tasks {
		t.Errorf("%d tasks are complete of %d", done, tasks)
	}
	for slot := 1; slot <= tasks; slot++ {
		if s := one.savedOf(id, slot); s != nil && (!one.files.store.Have(s.Root).Whole || len(one.fetched(one.client(), s.Root)["x"]) != each) {
			t.Errorf("what slot %d left is not whole", slot)
		}
	}
	eventually(t, "it says so", func() (bool, string) {
		ps, err := one.Peers(timed(t))
		return err == nil && slices.ContainsFunc(ps.Peers[0].Troubles, func(x api.Trouble) bool {
			return x.Code == api.TroubleStoreFull && strings.Contains(x.Message, "what tasks left here")
		}), fmt.Sprintf("%+v, %v", ps.Peers, err)
	})
	// A task that leaves no files runs all the same.
	one.outcome(one.submit(shellJob("other", 1, "true")))
}

// What jobs that were submitted here need stays, and goes with them.
func TestWhatAJobNeedsStaysWhereItWasSubmitted(t *testing.T) {
	t.Parallel()
	one := alive(t, Config{Name: "one"})
	root, _, err := one.files.store.Add(t.Context(), strings.NewReader("needed"), true)
	if err != nil {
		t.Fatal(err)
	}
	j, release := waitingJob(t, "needs", "true", "")
	j.Outputs, j.Inputs = nil, []taskstate.Input{{Name: "in", Ref: root.String(), Bytes: 6, Files: 1}}
	id := one.submit(j)
	eventually(t, "it is pinned", func() (bool, string) {
		p, ok := one.files.store.PinNamed("job-" + id)
		return ok && p.Until.IsZero() && slices.Equal(p.Roots, []piece.Root{root}), fmt.Sprintf("%+v", one.files.store.Pins())
	})
	release()
	one.outcome(id)
}
