package quorum_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// covert is what a job runs in these tests, and nothing else says.
const covert = "covert-7061"

// signedJob is a job of a peer, signed.
func signedJob(t *testing.T, n int, by string) ledger.Command {
	c := job(n)
	j := &c.Submit.Job
	j.Submitter, j.Run = by, taskstate.Run{Process: &taskstate.Process{Command: []string{covert + by}}}
	if err := taskstate.SignOrder(j, founding("a").Cluster, by, time.Now().UnixMilli(), nil, fakeSign(by)); err != nil {
		t.Fatal(err)
	}
	return c
}

// let admits a peer with roles.
func (fl *cluster) let(id string, roles ...admission.Role) {
	c := letIn(id)
	c.Admit.Entry.Roles = roles
	fl.insist(c)
}

// knows lists the jobs of which a peer knows what they run.
func knows(b *testNode) (out []string) {
	b.Replica().Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if j.Job().Withheld == nil {
				out = append(out, string(j.Job().ID))
			}
		}
	})
	slices.Sort(out)
	return out
}

// onDisk lists the files of a peer with some text in them.
func (fl *cluster) onDisk(id, text string) (out []string) {
	err := filepath.WalkDir(filepath.Join(fl.dir, id+"1"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		fl.t.Error(err)
	}
	return out
}

// alike waits until all replicas have the same chain.
func (fl *cluster) alike(t *testing.T) {
	t.Helper()
	fl.settle()
	fl.await("one chain", func() bool {
		sums := []string{}
		for _, sum := range fl.chains() {
			sums = append(sums, sum)
		}
		slices.Sort(sums)
		return len(slices.Compact(sums)) == 1
	})
}

func TestWhatAJobRunsGoesToVotersReadersAndWhoAskedForIt(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		guest := fl.leader().id
		for id := range fl.nodes {
			if !slices.Contains(fl.voting(), id) {
				guest = id
			}
		}
		fl.let(guest, admission.Worker, admission.Submit)
		fl.insist(signedJob(t, 1, "a"))
		fl.insist(signedJob(t, 2, guest))
		fl.alike(t)
		for id, b := range fl.nodes {
			want := []string{"job0000001", "job0000002"}
			if id == guest {
				want = want[1:]
			}
			if got := knows(b); !slices.Equal(got, want) {
				t.Errorf("%s knows what %v run, want %v", id, got, want)
			}
		}
		fl.stop(guest) // and its copy goes to disk
		if found := fl.onDisk(guest, covert+"a"); len(found) > 0 {
			t.Errorf("%s has another's job in %v", guest, found)
		}
		if found := fl.onDisk(guest, covert+guest); len(found) == 0 {
			t.Errorf("%s has not its own job on disk: nothing is looked at", guest)
		}
		fl.run(fl.start(guest, "1"))
		fl.alike(t)
		if got := knows(fl.nodes[guest]); !slices.Equal(got, []string{"job0000002"}) {
			t.Errorf("started again, it knows %v", got)
		}
		fl.let(guest, admission.Worker, admission.Submit, admission.Read)
		fl.await("the guest reads all", func() bool { return len(knows(fl.nodes[guest])) == 2 })
		fl.let(guest, admission.Worker, admission.Submit)
		fl.insist(signedJob(t, 3, "a"))
		fl.alike(t)
		fl.await("the guest forgets, on disk too", func() bool {
			return slices.Equal(knows(fl.nodes[guest]), []string{"job0000002"}) && len(fl.onDisk(guest, covert+"a")) == 0
		})
		fl.alike(t)
	})
}

// A copy of before, or one whose peer was away when it lost a role.
func TestAGuestThatStartsWithMoreThanItMayKnowForgetsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		guest := "d"
		for id := range fl.nodes {
			if !slices.Contains(fl.voting(), id) {
				guest = id
			}
		}
		fl.let(guest, admission.Worker, admission.Read)
		fl.insist(signedJob(t, 1, "a"))
		fl.alike(t)
		fl.await("the guest reads", func() bool { return len(knows(fl.nodes[guest])) == 1 })
		fl.stop(guest)
		if len(fl.onDisk(guest, covert+"a")) == 0 {
			t.Fatal("it has nothing on its disk to forget")
		}
		fl.let(guest, admission.Worker)
		fl.run(fl.start(guest, "1"))
		fl.await("it has forgotten, on disk too", func() bool {
			return len(knows(fl.nodes[guest])) == 0 && len(fl.onDisk(guest, covert+"a")) == 0
		})
		fl.alike(t)
	})
}

func TestASnapshotForAGuestHasOnlyItsOwnJobs(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.ring = 1 << 10
		fl.grow(1, "a", "b")
		guest := "b"
		if fl.leader().id == guest {
			guest = "a"
		}
		fl.let(guest, admission.Worker, admission.Submit)
		fl.insist(signedJob(t, 1, guest))
		fl.stop(guest)
		for n := range 20 {
			fl.insist(signedJob(t, n+2, "z"+guest)) // refused: it is no member
			fl.insist(signedJob(t, n+102, fl.leader().id))
		}
		b := fl.run(fl.start(guest, "1"))
		fl.alike(t)
		if got := knows(b); b.SnapshotsTaken() != 1 || !slices.Equal(got, []string{"job0000001"}) {
			t.Errorf("after %d snapshots it knows what %v run", b.SnapshotsTaken(), got)
		}
	})
}

// A peer without a seat becomes a voter: it votes once it knows all, and has it on its disk.
func TestWhoIsSeatedKnowsAllBeforeItVotes(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		guest := "d"
		for id := range fl.nodes {
			if !slices.Contains(fl.voting(), id) {
				guest = id
			}
		}
		fl.let(guest, admission.Worker, admission.Voter)
		for n := range 5 {
			fl.insist(signedJob(t, n+1, "a"))
		}
		fl.alike(t)
		if got := knows(fl.nodes[guest]); len(got) > 0 {
			t.Fatalf("before it is seated it knows %v", got)
		}
		gone := fl.voting()[0]
		if gone == fl.leader().id {
			gone = fl.voting()[1]
		}
		fl.die(gone)
		fl.await("the guest votes", func() bool {
			votes := slices.Contains(fl.voting(), guest)
			if votes && len(knows(fl.nodes[guest])) != 5 {
				t.Fatalf("it votes and knows only %v", knows(fl.nodes[guest]))
			}
			return votes
		})
		fl.await("it takes a snapshot, which raft puts off until its own seat is applied", func() bool {
			return fl.nodes[guest].SnapshotNow() == nil
		})
		fl.alike(t)
	})
}

// A coordinator in bad hands has a job decided without what it runs, which nobody can know then.
// Everybody refuses it, so that no new voter waits for that.
func TestAJobThatIsBareInTheLogIsRefusedAndHoldsUpNoNewVoter(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		fl.insist(signedJob(t, 1, "a"))
		lie := signedJob(t, 2, "a")
		lie.Submit.Job = lie.Submit.Job.Bare()
		_, results, err := fl.leader().Propose(t.Context(), []ledger.Command{lie})
		if err != nil || results[0].Refused != ledger.CodeUnsigned {
			t.Fatalf("a bare job: %+v, %v", results, err)
		}
		fl.alike(t)
		for id, b := range fl.nodes {
			if has(b, 2) {
				t.Errorf("%s has the job", id)
			}
		}
		gone := fl.voting()[0]
		if gone == fl.leader().id {
			gone = fl.voting()[1]
		}
		fl.die(gone)
		fl.await("another votes in its place", func() bool { return len(fl.voting()) == 3 && !slices.Contains(fl.voting(), gone) })
		fl.alike(t)
	})
}

// All voters are gone for good. What is left is a follower that may begin again, and one that asked
// for a job.
func TestWhoRecoversAsksThoseThatKnowWhatJobsRunAndNamesWhatIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a", "b")
		voter, heir := fl.leader().id, "b"
		if voter == heir {
			heir = "a"
		}
		fl.run(fl.start("g", "1", voter))
		fl.let(heir, admission.Voter, admission.Worker)
		fl.let("g", admission.Worker, admission.Submit)
		fl.insist(signedJob(t, 1, voter))
		fl.insist(signedJob(t, 2, "g"))
		fl.alike(t)
		if got := knows(fl.nodes[heir]); len(got) > 0 {
			t.Fatalf("before, %s knows %v", heir, got)
		}
		fl.die(voter)
		time.Sleep(time.Minute)
		b := fl.nodes[heir]
		own, err := b.Copy()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Recover(t.Context(), "", own); err != nil {
			t.Fatal(err)
		}
		fl.await(heir+" leads", func() bool { l := fl.leader(); return l != nil && l.id == heir })
		var lost []string
		b.Replica().Read(func(s *ledger.State) {
			for _, id := range ledger.Lost(s) {
				lost = append(lost, string(id))
			}
		})
		if got := knows(b); !slices.Equal(got, []string{"job0000002"}) || !slices.Equal(lost, []string{"job0000001"}) {
			t.Errorf("it knows %v and has lost %s", got, strings.Join(lost, " "))
		}
		if err := b.SnapshotNow(); err != nil {
			t.Errorf("a snapshot of it: %v", err)
		}
	})
}
