//go:build unix

package testnet_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// rotKinds are the files in which bits flip, as patterns below a data folder.
var rotKinds = []struct {
	name, files string
	live        bool // also while the peer runs: it reads the file again and again, and keeps nothing of it in memory
}{
	{"log", "ledger/raft-*/*.wal", true},
	{"snapshots", "ledger/raft-*/snapshots/*/*", true},
	{"journal", journal.FileName, false},
	{"memo", "ledger/memo", false},
	{"mark", "voter.mark", false},
	{"others' marks", "ledger/marks", false},
}

// rotScenes: bits flip on disks of voters while jobs run. Nobody is told.
func rotScenes() []diskScene {
	return []diskScene{
		{"bits flip on one voter's disk while jobs run", withWork(func(w *workRound) {
			k := 1 + w.r.IntN(3)
			if w.r.IntN(3) == 0 {
				w.snapshots()
			}
			w.work()
			for range 1 + w.r.IntN(3) {
				if w.r.IntN(2) == 0 {
					w.rot(k, true)
					w.give(workJob{count: 2, once: true}, 0)
					w.leaderLacksNothing(time.Second)
				}
				down := w.killSome(k)
				w.rot(k, false)
				w.start(down...)
				w.leaderLacksNothing(time.Second)
				w.give(workJob{count: 2}, 0)
			}
			w.startAll()
			w.keepsAll()
			w.agree()
			w.busy(k)
		})},
		{"bits flip in the logs of two voters", func(d *diskRound) {
			order := d.r.Perm(3)
			d.kill(1, 2, 3)
			for _, i := range order[:2] {
				d.flip(i+1, "log", "ledger/raft-*/*.wal")
			}
			d.startAll()
			d.leaderLacksNothing(2 * time.Second)
			d.decidesOrSays()
		}},
	}
}

// rot flips bits of a peer's disk in files drawn from those that it has.
func (w *workRound) rot(k int, live bool) {
	w.t.Helper()
	for _, i := range w.r.Perm(len(rotKinds)) {
		kind := rotKinds[i]
		if (kind.live || !live) && w.flip(k, kind.name, kind.files) {
			return
		}
	}
}

// flip turns a few bits of a file around, where something was written. It tells whether there is
// one.
func (d *diskRound) flip(k int, what, files string) bool {
	d.t.Helper()
	found, err := filepath.Glob(filepath.Join(d.net.Data(k), files))
	if err != nil {
		d.t.Fatal(err)
	}
	if len(found) == 0 {
		return false
	}
	path := found[d.r.IntN(len(found))]
	b, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	used := len(bytes.TrimRight(b, "\x00"))
	if used == 0 {
		return false
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	n := 1 + d.r.IntN(12)
	for range n {
		at := d.r.IntN(used)
		b[at] ^= 1 << d.r.IntN(8)
		if _, err := f.WriteAt(b[at:at+1], int64(at)); err != nil {
			d.t.Fatal(err)
		}
	}
	d.hurt[k] = strings.TrimPrefix(d.hurt[k]+", ", ", ") + fmt.Sprintf("%d bits of its %s flipped", n, what)
	d.t.Logf("peer %d: %d bits of %s flipped, up to %d", k, n, path, used)
	return true
}

// snapshots has so much decided that every voter makes a snapshot of it. These jobs are not counted
// as accepted: what is over is forgotten when it weighs too much.
func (d *diskRound) snapshots() {
	d.t.Helper()
	big := strings.Repeat("all work and no play ", 2900)
	for range 50 {
		j := taskstate.Job{ID: taskstate.NewJobID(), Name: "heavy", Count: 2}
		j.Run.Process = &taskstate.Process{Script: []byte("#!/bin/sh\n# " + big), Env: map[string]string{"A": big, "B": big}}
		j.Constraints = []string{"peer.name == nobody"}
		jobfile.Defaults(&j)
		d.await("a large job is accepted", func() string {
			a, err := d.net.Client(1).Submit(d.t.Context(), api.Submit{Job: j})
			if err != nil {
				return err.Error()
			}
			return a.Note
		})
		if _, err := d.net.Client(1).Cancel(d.t.Context(), string(j.ID)); err != nil {
			d.t.Fatal(err)
		}
	}
	d.await("every voter has a snapshot", func() string {
		for k := 1; k <= d.net.N(); k++ {
			if found, _ := filepath.Glob(filepath.Join(d.net.Data(k), "ledger/raft-*/snapshots/*/state.bin")); len(found) == 0 {
				return fmt.Sprint("not peer ", k)
			}
		}
		return ""
	})
}

// agree waits until all peers say the same of all jobs.
func (d *diskRound) agree() {
	d.t.Helper()
	d.await("all peers say the same of all jobs", func() string {
		var first string
		for k := 1; k <= d.net.N(); k++ {
			jobs, err := d.net.Client(k).Jobs(d.t.Context())
			if err != nil {
				return err.Error()
			}
			var all strings.Builder
			for _, j := range jobs.Jobs {
				fmt.Fprintln(&all, j.ID, j.State, j.Tasks)
			}
			if k == 1 {
				first = all.String()
			} else if all.String() != first {
				return fmt.Sprintf("peer 1 says\n%s\nand peer %d\n%s", first, k, all.String())
			}
		}
		return ""
	})
}

// decidesOrSays wants one of two: what was accepted is known to all, and somebody decides; or every
// peer names those whose disks are hurt and what to type.
func (d *diskRound) decidesOrSays() {
	d.t.Helper()
	d.await("somebody decides with all that was accepted, or all say why nobody can", func() string {
		var why []string
		said := 0
		for k := 1; k <= d.net.N(); k++ {
			st, err := d.net.Client(k).Status(d.t.Context())
			if err != nil {
				return err.Error()
			}
			text := strings.Join(st.Warnings, "\n")
			if strings.Contains(text, "peer recover") && d.namesHurt(text) {
				said++
			}
			if st.Coordinator == "" || d.lacks(k) != "" {
				why = append(why, fmt.Sprintf("peer %d: coordinator %q, %s: %s", k, st.Coordinator, d.lacks(k), text))
			}
		}
		switch {
		case len(why) == 0:
			return ""
		case said == d.net.N():
			d.over = true
			return ""
		}
		_ = pause.For(d.t.Context(), 200*time.Millisecond)
		return strings.Join(why, "\n")
	})
}

func (d *diskRound) namesHurt(text string) bool {
	for k := range d.hurt {
		if !strings.Contains(text, fmt.Sprintf("p%d ", k)) {
			return false
		}
	}
	return true
}
