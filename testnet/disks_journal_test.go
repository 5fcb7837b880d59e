//go:build unix

package testnet_test

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/node/api"
)

// journalScenes: the journal of a peer's worker is gone, garbage, or an older one; or its whole
// data folder is.
func journalScenes() []diskScene {
	return []diskScene{
		{"a worker's journal is deleted", withWork(func(w *workRound) {
			k := 1 + w.r.IntN(3)
			w.work()
			down := w.killSome(k)
			w.loseJournal(k)
			w.start(down...)
			w.says(k, api.TroubleJournalLost)
			w.busy(k)
		})},
		{"a worker's journal is put back to an older one", withWork(func(w *workRound) {
			k := 1 + w.r.IntN(3)
			w.turnedBack(k, journal.FileName)
			w.says(k, api.TroubleJournalLost)
			w.busy(k)
		})},
		{"a whole data folder is turned back", withWork(func(w *workRound) {
			k := 1 + w.r.IntN(3)
			w.turnedBack(k, "")
			w.says(k, api.TroubleJournalLost)
			w.busy(k)
		})},
	}
}

// killSome kills a peer, sometimes with all others, and lists who has to be started.
func (w *workRound) killSome(k int) []int {
	down := []int{k}
	if w.r.IntN(3) == 0 {
		for j := 1; j <= w.net.N(); j++ {
			if j != k {
				down = append(down, j)
			}
		}
		w.r.Shuffle(len(down), func(i, j int) { down[i], down[j] = down[j], down[i] })
	}
	w.t.Logf("killed: %v", down)
	w.kill(down...)
	return down
}

// loseJournal hurts the journal of a peer that does not run.
func (w *workRound) loseJournal(k int) {
	w.t.Helper()
	path := filepath.Join(w.net.Data(k), journal.FileName)
	var err error
	switch w.r.IntN(4) {
	case 0:
		w.hurt[k], err = "journal emptied", os.Truncate(path, 0)
	case 1:
		w.hurt[k], err = "journal garbage", os.WriteFile(path, []byte(strings.Repeat("garbage ", 4<<10)), 0o600)
	default:
		w.hurt[k], err = "journal deleted", os.Remove(path)
	}
	w.t.Logf("peer %d: %s", k, w.hurt[k])
	if err != nil {
		w.t.Fatal(err)
	}
}

// turnedBack copies what a peer has on disk, lets it go on and work, and puts the copy in its place
// while it is down. The copy is of when it was stopped, or of when it ran.
func (w *workRound) turnedBack(k int, what string) {
	w.t.Helper()
	if w.r.IntN(2) == 0 {
		w.work()
	}
	now, old := filepath.Join(w.net.Data(k), what), filepath.Join(w.t.TempDir(), "old")
	w.hurt[k] = "turned back to when it was stopped"
	cold := w.r.IntN(3) > 0
	if cold {
		w.kill(k)
		w.copyFolder(now, old)
		w.start(k)
	} else {
		w.hurt[k] = "turned back to when it ran"
		w.copyFrozen(k, now, old)
	}
	w.work()
	w.busy(k)
	down := w.killSome(k)
	if what != "" || w.r.IntN(2) == 0 {
		w.copyFolder(old, now)
	} else {
		w.hurt[k] += ", in place"
		w.copyBack(old, now)
	}
	w.t.Logf("peer %d: %s", k, w.hurt[k])
	w.start(down...)
}

// copyFrozen copies files of a peer that runs as they are at one moment, as an image of its machine
// would have them.
func (w *workRound) copyFrozen(k int, from, to string) {
	w.t.Helper()
	if err := w.net.Pause(k); err != nil {
		w.t.Fatal(err)
	}
	w.copyFolder(from, to)
	if err := w.net.Unpause(w.t.Context(), k); err != nil {
		w.t.Fatal(err)
	}
}

// copyBack makes a folder what it was, but for the file of the identity, which stays the same file:
// so that nothing but what it says tells that it was turned back.
func (w *workRound) copyBack(old, now string) {
	w.t.Helper()
	for _, dir := range []string{now, old} {
		files, err := os.ReadDir(dir)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, f := range files {
			switch {
			case f.Name() == "identity.key":
			case dir == now:
				if err := os.RemoveAll(filepath.Join(now, f.Name())); err != nil {
					w.t.Fatal(err)
				}
			default:
				w.copyFolder(filepath.Join(old, f.Name()), filepath.Join(now, f.Name()))
			}
		}
	}
}
