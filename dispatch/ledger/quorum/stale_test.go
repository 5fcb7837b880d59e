package quorum_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/taskstate"
)

// moved is why a seat in these tests is stale.
var moved = quorum.Doubt{Why: "this data folder was copied, restored or moved since its last start", Moved: true}

// root is what a data folder remembers of its seat. Its peer changes it while a test reads.
type root struct {
	mu sync.Mutex
	kept
}

type kept struct {
	stale   quorum.Doubt
	vouched bool     // by the next starts
	draws   []uint64 // that the log may have
	next    uint64
}

func (r *root) Stale() quorum.Doubt { return r.copy().stale }

func (r *root) SetStale(d quorum.Doubt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = d
	return nil
}

func (r *root) copy() kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept
}

func (r *root) putBack(k kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = k
}

func (r *root) Draw(was uint64, write func(bool, uint64) error) error {
	k := r.copy()
	last := len(k.draws) == 0 || slices.Contains(k.draws, was)
	k.next++
	k.draws = []uint64{was, k.next}
	r.drawn(k)
	err := write(last, k.next)
	if err == nil {
		k.draws = []uint64{k.next}
		r.drawn(k)
	}
	return err
}

func (r *root) drawn(k kept) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.draws = k.next, k.draws
}

// threeAndJobs has three voters, and jobs that only b and c know: b's folder is put back to a copy
// from before them, c is away. The result is what the root of b's folder was before that, and the
// term of c's log.
func threeAndJobs(fl *cluster) (newer kept, term uint64) {
	fl.t.Helper()
	back := onlyC(fl)
	fl.up("b")
	for n := 2; n <= 4; n++ {
		fl.insist(job(n))
	}
	fl.settle()
	term, _ = fl.nodes["c"].LogEnds()
	fl.down("b", "c")
	newer = fl.root("b").copy()
	back()
	return newer, term
}

// onlyC has three voters, of which c alone is up; back puts b's folder back to what it is now.
func onlyC(fl *cluster) (back func()) {
	fl.t.Helper()
	fl.grow(3, "a", "b", "c")
	fl.allRead("a", "b", "c")
	fl.insist(job(1))
	fl.settle()
	fl.down("a", "b")
	return fl.keep("b")
}

// keepsJobs checks that a cluster decides and every peer knows jobs 1 to 4.
func keepsJobs(fl *cluster) {
	fl.t.Helper()
	fl.insist(job(5))
	fl.settle()
	for id, b := range fl.nodes {
		for n := 1; n <= 5; n++ {
			if !has(b, n) {
				fl.t.Errorf("%s does not have job %d", id, n)
			}
		}
		fl.await(id+" is current", func() bool { return b.Stale() == nil })
	}
}

func TestAStaleSeatGivesNoVoteUntilItHasHeardEveryOtherVoter(t *testing.T) {
	for _, leave := range []time.Duration{0, 30 * time.Second} {
		inBubble(t, func(t *testing.T, fl *cluster) {
			threeAndJobs(fl)
			fl.root("b").SetStale(moved)
			fl.up("a", "b")
			time.Sleep(leave)
			if l := fl.leader(); l != nil {
				t.Fatalf("%s leads without the only log that has what was decided", l.id)
			}
			if s := fl.nodes["b"].Stale(); s == nil || s.Doubt != moved || !slices.Contains(s.Unheard, "c") {
				t.Errorf("b says of its seat: %+v", s)
			}
			fl.up("c")
			keepsJobs(fl)
			if fl.root("b").Stale() != (quorum.Doubt{}) {
				t.Error("b's folder is stale still")
			}
		})
	}
}

func TestALedgersFolderThatIsPutBackAloneIsStale(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		newer, _ := threeAndJobs(fl)
		fl.root("b").putBack(newer)
		fl.up("a", "b")
		time.Sleep(30 * time.Second)
		if l := fl.leader(); l != nil {
			t.Fatalf("%s leads without the only log that has what was decided", l.id)
		}
		fl.up("c")
		keepsJobs(fl)
	})
}

func TestAStaleSeatIsStaleAfterARestart(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		threeAndJobs(fl)
		fl.root("b").SetStale(moved)
		fl.up("a", "b")
		time.Sleep(10 * time.Second)
		fl.down("b")
		fl.up("b")
		time.Sleep(30 * time.Second)
		if l := fl.leader(); l != nil {
			t.Fatalf("%s leads without the only log that has what was decided", l.id)
		}
		fl.up("c")
		keepsJobs(fl)
	})
}

// Of two processes that go by one key each may be with another half.
func TestALeaderDecidesNothingWithASeatThatIsStale(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		a := fl.leader()
		others := slices.DeleteFunc([]string{"a", "b", "c"}, func(id string) bool { return id == a.id })
		fl.down(others[1])
		fl.insist(job(1))
		fl.settle()
		fl.down(others[0])
		fl.root(others[0]).SetStale(moved)
		fl.up(others[0])
		if err := patiently(a, job(2)); err == nil {
			t.Error("it decided something with the word of a stale seat")
		}
		fl.up(others[1])
		fl.insist(job(3))
		fl.settle()
	})
}

func TestMovedVotersGoOnWhenAllOfThemAreThere(t *testing.T) {
	for _, stale := range [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}} {
		inBubble(t, func(t *testing.T, fl *cluster) {
			fl.grow(3, "a", "b", "c")
			for n := 1; n <= 4; n++ {
				fl.insist(job(n))
			}
			fl.settle()
			fl.down("a", "b", "c")
			for _, id := range stale {
				fl.root(id).SetStale(moved)
			}
			fl.up("a", "b", "c")
			keepsJobs(fl)
		})
	}
}

func TestALoneVoterThatIsMovedGoesOnUnlessAMemberKnowsMore(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a")
		fl.insist(job(1))
		fl.down("a")
		fl.root("a").SetStale(moved)
		fl.up("a")
		fl.insist(job(2))
	})
	inBubble(t, func(t *testing.T, fl *cluster) {
		back := fl.alone()
		fl.insist(job(2))
		fl.settle()
		fl.down("a", "b")
		back()
		fl.root("a").SetStale(moved)
		fl.up("a", "b")
		time.Sleep(time.Minute)
		if l := fl.leader(); l != nil {
			t.Errorf("%s leads, and has lost a decision", l.id)
		}
	})
}

func TestALoneVoterWithOneFlippedBitInItsLogGoesOnFromWhatIsBeforeIt(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a")
		for n := range 20 {
			fl.insist(job(n + 1))
		}
		fl.down("a")
		dir := filepath.Join(fl.dir, "a1")
		files, err := filepath.Glob(filepath.Join(dir, "raft-1", "*.wal"))
		if err = errors.Join(err, os.Remove(filepath.Join(dir, "copy"))); err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		rewritten(func(b []byte) []byte {
			at := bytes.Index(b, []byte(job(10).Submit.Job.ID))
			b[at] ^= 4
			return b
		})(t, files[0])
		fl.up("a")
		a := fl.nodes["a"]
		c, err := a.Copy()
		if err != nil {
			t.Fatal(err)
		}
		lost := a.Losses()
		if len(lost) != 1 || lost[0].Held < c.Index+10 {
			t.Errorf("its copy ends at entry %d, and it says that it lost %+v", c.Index, lost)
		}
		if _, err := a.Recover(t.Context(), "", c); err != nil {
			t.Fatal(err)
		}
		fl.await("it leads", func() bool { return fl.leader() == a })
		if !has(a, 9) || has(a, 10) {
			t.Errorf("job 9 is here: %v, and job 10: %v", has(a, 9), has(a, 10))
		}
	})
}

// onlyHere has a propose a job that reaches nobody else, and b and c decide without it.
func onlyHere(fl *cluster) {
	fl.t.Helper()
	fl.grow(3, "a", "b", "c")
	fl.insist(job(1))
	fl.settle()
	a := fl.leader()
	others := slices.DeleteFunc([]string{"a", "b", "c"}, func(id string) bool { return id == a.id })
	fl.down(others...)
	if err := patiently(a, job(2)); err == nil {
		fl.t.Fatal("decided by one of three")
	}
	fl.down(a.id)
	fl.up(others...)
	fl.insist(job(3))
	fl.up(a.id)
	fl.settle()
	fl.await("its log is like the others'", func() bool { return len(fl.nodes[a.id].SetAside()) > 0 })
}

func TestWhatOnlyOneVoterHasIsSetAsideBeforeItIsTakenOutOfItsLog(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		onlyHere(fl)
		var a *testNode
		for _, b := range fl.nodes {
			if len(b.SetAside()) > 0 {
				a = b
			}
		}
		fl.stop(a.id)
		fl.up(a.id)
		a = fl.nodes[a.id]
		kept := a.SetAside()
		if len(kept) != 1 || !slices.Equal(kept[0].Jobs, []taskstate.JobID{job(2).Submit.Job.ID}) || kept[0].From == 0 || kept[0].To < kept[0].From {
			t.Fatalf("after a restart it has set aside %+v", kept)
		}
		fl.settle()
		fl.insist(job(2))
		fl.settle()
		if kept := a.SetAside(); len(kept) > 0 {
			t.Errorf("the job was submitted again, and it says %+v", kept)
		}
	})
	inBubble(t, func(t *testing.T, fl *cluster) {
		onlyHere(fl)
		for _, b := range fl.nodes {
			for _, kept := range b.SetAside() {
				if err := os.Remove(kept.File); err != nil {
					t.Fatal(err)
				}
				if kept := b.SetAside(); len(kept) > 0 {
					t.Errorf("a person has looked, and it says %+v", kept)
				}
			}
		}
	})
}

// A voter whose folder is put back, root and all, notices nothing. What it had decided with another
// one, which comes back later, is in the set-aside of that one and can be submitted again.
func TestWhatTheOnlyWitnessHadCanBeSubmittedAgain(t *testing.T) {
	for name, x := range map[string]struct {
		later     uint64 // terms, at least, than that of the witness's log
		meanwhile func(fl *cluster)
	}{
		"little was decided meanwhile":          {0, func(*cluster) {}},
		"it was decided in a later term":        {1, func(*cluster) {}},
		"its log is replaced by a snapshot":     {0, func(fl *cluster) { fl.compact() }},
		"more was decided than the witness had": {0, func(fl *cluster) { fl.insistMany(20, 40) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				_, newest := threeAndJobs(fl)
				fl.up("a", "b")
				for term := uint64(0); term < newest+x.later; term, _ = fl.nodes["a"].LogEnds() { // mostly it is the same
					fl.down("a", "b")
					fl.up("a", "b")
					fl.settle()
				}
				for n := 5; n <= 9; n++ {
					fl.insist(job(n))
				}
				x.meanwhile(fl)
				fl.up("c")
				c := fl.nodes["c"]
				fl.await("c has what the others have", func() bool { return has(c, 9) && has(c, 5) && !has(c, 2) && len(fl.voting()) == 3 })
				var again []taskstate.JobID
				fl.await("what only c had is set aside", func() bool {
					again = nil
					for _, j := range c.AsideJobs() {
						if j.Why == "" {
							again = append(again, j.Job.ID)
						}
					}
					return len(again) >= 3
				})
				if want := []taskstate.JobID{job(2).Submit.Job.ID, job(3).Submit.Job.ID, job(4).Submit.Job.ID}; !slices.Equal(again, want) {
					t.Fatalf("set aside are %v: %+v", again, c.SetAside())
				}
				fl.stop("c")
				copies, _ := filepath.Glob(filepath.Join(fl.dir, "c1", "set-aside", "*", "copy"))
				for _, c := range copies { // the log is enough
					if err := os.Remove(c); err != nil {
						t.Fatal(err)
					}
				}
				fl.up("c")
				c = fl.nodes["c"]
				if n := len(c.AsideJobs()); n != len(again) {
					t.Fatalf("%d of %d jobs are set aside after a restart", n, len(again))
				}
				for _, j := range c.AsideJobs() {
					fl.insist(ledger.Command{Submit: &ledger.Submit{Job: j.Job, Again: true, First: j.First}})
				}
				fl.await("nothing is missing", func() bool { return len(c.AsideJobs()) == 0 && len(c.SetAside()) == 0 })
				c.Replica().Read(func(s *ledger.State) {
					for _, id := range again {
						if j, _ := s.Job(id); j.FirstAttempt() != 1001 { // a worker may remember how attempt 1 ended
							t.Errorf("job %s begins again with attempt %d, want 1001", id, j.FirstAttempt())
						}
					}
				})
			})
		})
	}
}

// The witness has the later term, and would be elected: the others keep what they had decided.
func TestAWitnessWhoseTermIsTheLatestGivesItsSeatUpAsWell(t *testing.T) {
	played := false
	for i := 0; i < 10 && !played; i++ {
		inBubble(t, func(t *testing.T, fl *cluster) {
			back := onlyC(fl)
			fl.up("b")
			fl.insist(job(2))
			fl.down("b")
			fl.up("b")
			for n := 3; n <= 4; n++ {
				fl.insist(job(n))
			}
			term, _ := fl.nodes["c"].LogEnds()
			fl.down("b", "c")
			back()
			fl.up("a", "b")
			for n := 5; n <= 9; n++ {
				fl.insist(job(n))
			}
			fl.settle()
			if own, _ := fl.nodes["a"].LogEnds(); own >= term {
				return
			}
			fl.up("c")
			c := fl.nodes["c"]
			time.Sleep(30 * time.Second)
			if !fl.nodes["b"].HasSeat() {
				return // c shows what b acknowledged, and b has given its seat up
			}
			played = true
			fl.insist(job(10))
			fl.await("the witness follows, and what only it had is set aside", func() bool {
				return has(c, 5) && has(c, 10) && len(fl.voting()) == 3 && len(c.AsideJobs()) >= 3
			})
		})
	}
	if !played {
		t.Error("the witness's term was never the latest")
	}
}

func TestVotersShowTheSamePointsOfTheSameLog(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insistMany(1, 5)
		fl.down("a")
		fl.up("a")
		fl.insist(job(5))
		fl.settle()
		_, end := fl.nodes["a"].LogEnds()
		for at := uint64(1); at <= end; at++ {
			a, b, c := fl.nodes["a"].Point(at), fl.nodes["b"].Point(at), fl.nodes["c"].Point(at)
			if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(b, c) {
				t.Errorf("entry %d is %+v, %+v and %+v", at, a, b, c)
			}
		}
	})
}

func TestAVoterTakesNoEntryThatContradictsItsLogFromALeader(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		fl.insistMany(1, 5)
		fl.settle()
		l := fl.leader()
		for id := range fl.nodes {
			if id == l.id {
				continue
			}
			if err := l.SendAgain(id + "/1"); err == nil || !strings.Contains(err.Error(), "different entries") {
				t.Errorf("%s takes it: %v", id, err)
			}
		}
		fl.insist(job(5))
		fl.settle()
	})
}

// contradicting has three voters of which b and c have other entries in the same term, and a, which
// has b's, is away; false if one of them has the later term this time.
func contradicting(fl *cluster) bool {
	fl.t.Helper()
	_, newest := threeAndJobs(fl)
	fl.up("a", "b")
	fl.settle()
	if term, _ := fl.nodes["a"].LogEnds(); term != newest {
		return false
	}
	for n := 5; n <= 9; n++ {
		fl.insist(job(n))
	}
	fl.settle()
	fl.down("a")
	fl.up("c")
	c := fl.nodes["c"]
	fl.await("neither gives a vote", func() bool {
		there, err := c.AskCopy(fl.t.Context(), "b")
		here, err2 := c.Copy()
		return err == nil && err2 == nil && there.Stale && here.Stale
	})
	return true
}

// With the third voter away neither of two that contradict each other is right. A person recovers,
// and submits again what the new ledger lacks.
func TestWhereNoMajorityOfContradictingLogsIsRightAPersonRecovers(t *testing.T) {
	played := false
	for i := 0; i < 10 && !played; i++ {
		inBubble(t, func(t *testing.T, fl *cluster) {
			if !contradicting(fl) {
				return
			}
			played = true
			c := fl.nodes["c"]
			if l := fl.leader(); l != nil {
				t.Errorf("%s leads", l.id)
			}
			if _, err := c.Recover(t.Context(), "", quorum.Copy{}); err != nil {
				t.Fatal(err)
			}
			fl.await("a ledger that goes on, and all jobs known or set aside", func() bool {
				known := map[taskstate.JobID]bool{}
				for _, b := range fl.nodes {
					for _, j := range b.AsideJobs() {
						known[j.Job.ID] = j.Why == ""
					}
				}
				for n := 1; n <= 9; n++ {
					if !has(c, n) && !known[job(n).Submit.Job.ID] {
						return false
					}
				}
				who, _, ok := fl.nodes["b"].Coordinator()
				return ok && who == "c"
			})
		})
	}
	if !played {
		t.Error("no term had two histories")
	}
}

// The voter that was away decides between two that contradict each other, and nobody complains any
// more.
func TestContradictingLogsAreForgottenWhenAMajorityIsRight(t *testing.T) {
	played := false
	for i := 0; i < 10 && !played; i++ {
		inBubble(t, func(t *testing.T, fl *cluster) {
			if !contradicting(fl) {
				return
			}
			played = true
			fl.up("a")
			fl.insist(job(10))
			fl.settle()
			fl.await("no complaint", func() bool {
				for _, b := range fl.nodes {
					if c, err := b.Copy(); err != nil || c.Stale || b.Differs(func(p taskstate.PeerID) string { return string(p) }) != "" {
						return false
					}
				}
				return true
			})
		})
	}
	if !played {
		t.Error("no term had two histories")
	}
}

// compact has those that vote throw away the log before their newest entries.
func (fl *cluster) compact() {
	fl.t.Helper()
	fl.insistMany(20, 30)
	for id, b := range fl.nodes {
		if b.HasSeat() {
			if err := b.Compact(); err != nil {
				fl.t.Fatalf("%s: %v", id, err)
			}
		}
	}
}

func (fl *cluster) insistMany(from, to int) {
	for n := from; n < to; n++ {
		fl.insist(job(n))
	}
}

func TestAVoterThatCannotSetAsideWhatOnlyItHasKeepsIt(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		a := fl.leader()
		if err := os.WriteFile(filepath.Join(fl.dir, a.id+"1", "set-aside"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		others := slices.DeleteFunc([]string{"a", "b", "c"}, func(id string) bool { return id == a.id })
		fl.down(others...)
		if err := patiently(a, job(2)); err == nil {
			t.Fatal("decided by one of three")
		}
		_, end := a.LogEnds()
		fl.down(a.id)
		fl.up(others...)
		fl.insist(job(3))
		fl.up(a.id)
		time.Sleep(30 * time.Second)
		if _, now := fl.nodes[a.id].LogEnds(); now < end {
			t.Errorf("its log ended at entry %d, and ends at entry %d now", end, now)
		}
	})
}

// vouchedWithoutC has three voters: b's folder was moved, and c is gone for good. A person vouches
// for b.
func vouchedWithoutC(fl *cluster) *testNode {
	fl.t.Helper()
	fl.grow(3, "a", "b", "c")
	fl.insist(job(1))
	fl.settle()
	fl.down("a", "b", "c")
	fl.root("b").SetStale(moved)
	fl.up("a", "b")
	time.Sleep(time.Minute)
	if fl.leader() != nil {
		fl.t.Error("a voter leads before a person vouched for b")
	}
	fl.down("b")
	fl.root("b").vouched = true
	fl.up("b")
	return fl.nodes["b"]
}

func TestAMovedFolderThatAPersonVouchesForVotes(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		b := vouchedWithoutC(fl)
		time.Sleep(9 * time.Second)
		if fl.leader() != nil {
			t.Error("a voter leads before members could show better")
		}
		fl.insist(job(2))
		if b.Stale() != nil || fl.root("b").Stale() != (quorum.Doubt{}) {
			t.Errorf("b is stale still: %+v, on disk %+v", b.Stale(), fl.root("b").Stale())
		}
	})
}

func TestAPersonCannotVouchForMoreThanAMove(t *testing.T) {
	for name, first := range map[string]quorum.Doubt{"put back": {Why: "the ledger's log is not the one that this data folder used last"}, "moved, with the ledger's folder put back": moved} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				newer, _ := threeAndJobs(fl)
				fl.root("b").putBack(newer)
				fl.root("b").SetStale(first)
				fl.up("a", "b")
				time.Sleep(10 * time.Second)
				fl.down("b") // what was found at this start must be known at the next
				fl.root("b").vouched = true
				fl.up("b")
				time.Sleep(time.Minute)
				if l := fl.leader(); l != nil {
					t.Fatalf("%s leads without the only log that has what was decided", l.id)
				}
				fl.up("c")
				keepsJobs(fl)
			})
		})
	}
}
