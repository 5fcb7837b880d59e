package quorum_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// hurts are ways in which a disk loses a file.
var hurts = map[string]func(t *testing.T, path string){
	"missing": func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	},
	"empty":   rewritten(func(b []byte) []byte { return nil }),
	"half":    rewritten(func(b []byte) []byte { return b[:len(b)/2] }),
	"garbage": rewritten(func(b []byte) []byte { return []byte(strings.Repeat("garbage ", len(b)/8)) }),
}

func rewritten(f func([]byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, f(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestAVoterWhoseLogIsDamagedSaysSoAndDoesNotVote(t *testing.T) {
	for _, pattern := range []string{"wal-meta.db", "*.wal"} {
		for what, hurt := range hurts {
			if pattern == "*.wal" && what == "half" {
				continue // nothing but room was cut off: see the next test
			}
			t.Run(pattern+" "+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T, fl *cluster) {
					fl.grow(1, "a")
					for i := range 20 {
						fl.insist(job(i + 1))
					}
					fl.stop("a")
					delete(fl.nodes, "a")
					dir := filepath.Join(fl.dir, "a1")
					files, err := filepath.Glob(filepath.Join(dir, "raft-1", pattern))
					if err != nil || len(files) == 0 {
						t.Fatal(files, err)
					}
					hurt(t, files[len(files)-1])
					n, err := quorum.Open(quorum.Config{Net: memnet.New().Host("a"), Self: "a", Draw: func() taskstate.Incarnation { return "2" }, Dir: dir, Candidates: fl.candidates})
					if err != nil {
						t.Fatal(err)
					}
					defer n.Close()
					l := n.Lost()
					if n.HasSeat() || l == nil {
						t.Fatal("it votes as if nothing had happened")
					}
					if l.Server != "a/1" || l.Generation != 1 || l.Why == "" || n.SeatIncarnation() != "2" {
						t.Errorf("it says that it lost %+v, and would take seat %s", l, n.SeatIncarnation())
					}
					if left, err := filepath.Glob(filepath.Join(l.Folder, "raft-1", "*")); err != nil || len(left) == 0 {
						t.Errorf("what was left is gone: %v", err)
					}
				})
			})
		}
	}
}

func TestATornEndOfTheLogLosesNothingThatWasAcknowledged(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a")
		for i := range 20 {
			fl.insist(job(i + 1))
		}
		fl.stop("a")
		files, err := filepath.Glob(filepath.Join(fl.dir, "a1", "raft-1", "*.wal"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		hurts["half"](t, files[0]) // of a file that is mostly room for what is to come
		a := fl.run(fl.start("a", "1"))
		fl.settle()
		if !has(a, 1) || !has(a, 20) {
			t.Error("jobs are gone")
		}
	})
}
