package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
)

// staleCase is how many of some voters have an old folder, and how.
type staleCase struct {
	voters, stale  int
	restored, dead bool // else moved; and another voter is gone for good
}

func (c staleCase) String() string {
	how := map[bool]string{true: "restored", false: "moved"}[c.restored]
	gone := map[bool]string{true: ", another dead"}[c.dead]
	return fmt.Sprintf("%d of %d %s%s", c.stale, c.voters, how, gone)
}

func staleCases() (all []staleCase) {
	for _, voters := range []int{1, 3} {
		for stale := 1; stale <= voters; stale++ {
			for _, restored := range []bool{false, true} {
				for _, dead := range []bool{false, true} {
					if !dead || voters > 1 {
						all = append(all, staleCase{voters, stale, restored, dead})
					}
				}
			}
		}
	}
	return all
}

func TestVotersWithOldFoldersDecideAfterAtMostOneCommand(t *testing.T) {
	for _, c := range staleCases() {
		t.Run(c.String(), func(t *testing.T) { inBubble(t, func(t *testing.T, fl *cluster) { c.play(fl) }) })
	}
}

func (c staleCase) play(fl *cluster) {
	ids := []string{"a", "b", "c"}[:c.voters]
	fl.grow(c.voters, ids...)
	fl.insist(job(1))
	fl.settle()
	var back []func()
	fl.down(ids...)
	for _, id := range ids[:c.stale] {
		back = append(back, fl.keep(id))
	}
	fl.up(ids...)
	for n := 2; n <= 4; n++ {
		fl.insist(job(n))
	}
	fl.settle()
	fl.down(ids...)
	for i, turn := range back {
		if c.restored {
			turn()
		}
		fl.root(ids[i]).SetStale(moved)
	}
	live := ids
	if c.dead {
		live = ids[:c.voters-1] // the last one is not stale, but where all are
	}
	fl.up(live...)
	time.Sleep(time.Minute)
	if fl.leader() == nil {
		if !c.dead && (!c.restored || c.stale <= c.voters/2) {
			fl.t.Error("nobody leads, although all voters are here and a majority of them has what was decided")
		}
		fl.recoverNewest(live)
	}
	fl.insist(job(5))
	fl.settle()
	for _, id := range live {
		for n := 1; n <= 5; n++ {
			known := !c.restored || c.stale < len(live) // a copy in reach has all
			if !has(fl.nodes[id], n) && (n == 1 || n == 5 || known) {
				fl.t.Errorf("%s does not have job %d", id, n)
			}
		}
	}
}

// recoverNewest is `peer recover` with these peers in reach, which must be needed: it starts from
// the newest copy.
func (fl *cluster) recoverNewest(live []string) {
	fl.t.Helper()
	waits := slices.ContainsFunc(live, func(id string) bool {
		b := fl.nodes[id]
		return b.Stale() != nil || len(b.Losses()) > 0
	})
	if !waits {
		fl.t.Error("nobody leads, and no voter says why")
	}
	var best quorum.Copy
	var from string
	for _, id := range live {
		c, err := fl.nodes[id].Copy()
		if err != nil {
			fl.t.Fatal(err)
		}
		if from == "" || c.Compare(best) > 0 {
			best, from = c, id
		}
	}
	if _, err := fl.nodes[from].Recover(fl.t.Context(), "", best); err != nil {
		fl.t.Fatalf("recover at %s: %v", from, err)
	}
}
