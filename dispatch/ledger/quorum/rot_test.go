package quorum_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// flip turns one bit of a file around, among its first used bytes (0: all of it).
func flip(t *testing.T, path string, used int, r *rand.Rand) {
	t.Helper()
	rewritten(func(b []byte) []byte {
		n := len(b)
		if used > 0 {
			n = min(n, used)
		}
		b[r.IntN(n)] ^= 1 << r.IntN(8)
		return b
	})(t, path)
}

// used is how many bytes of a file come before the zeros at its end.
func used(t *testing.T, path string) int {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}

func (fl *cluster) newest(id, pattern string) string {
	fl.t.Helper()
	files, err := filepath.Glob(filepath.Join(fl.dir, id+"1", "raft-1", pattern))
	if err != nil || len(files) == 0 {
		fl.t.Fatal(files, err)
	}
	return files[len(files)-1]
}

// A voter whose log has one flipped bit anywhere starts, decides nothing with what the bit made of
// it, and has everything again soon.
func TestAFlippedBitInAVotersLogIsNoticedWhereverItIs(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *cluster) {
				r := rand.New(rand.NewPCG(seed, 1))
				fl.grow(3, "a", "b", "c")
				for i := range 20 {
					fl.insist(job(i + 1))
				}
				fl.down("c")
				path := fl.newest("c", "*.wal")
				flip(t, path, used(t, path), r)
				fl.up("c")
				fl.insist(job(21))
				fl.await("c votes, with this seat or the next", func() bool { return fl.whole("c", string(fl.nodes["c"].SeatIncarnation()))() })
				fl.down("a") // so that c's vote is needed
				fl.insist(job(22))
				fl.settle()
				for _, id := range []string{"b", "c"} {
					for i := range 22 {
						if !has(fl.nodes[id], i+1) {
							t.Errorf("%s does not have job %d", id, i+1)
						}
					}
				}
			})
		})
	}
}

func TestABitThatFlipsUnderARunningVoterCostsItsSeatAndNothingElse(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		for i := range 20 {
			fl.insist(job(i + 1))
		}
		// One that lags would have the leader read what rots now, with no majority beside it:
		// also one that has applied it all, while its own log lacks the last entries.
		fl.settle()
		time.Sleep(time.Second)
		l := fl.leader()
		path := fl.newest(l.id, "*.wal")
		// The last entries: nobody reads the others again, until the voter is started anew.
		rewritten(func(b []byte) []byte {
			for i := used(t, path) - 400; i > 200; i -= 64 {
				b[i] ^= 4
			}
			return b
		})(t, path)
		away := "c"
		if l.id == away {
			away = "b"
		}
		fl.down(away)
		fl.insist(job(21))
		fl.up(away) // the leader reads its log to bring it up to date
		fl.insist(job(22))
		time.Sleep(time.Minute)
		fl.settle()
		for id, n := range fl.nodes {
			for i := range 22 {
				if !has(n, i+1) {
					t.Errorf("%s does not have job %d", id, i+1)
				}
			}
		}
	})
}
