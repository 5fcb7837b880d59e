package stager_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/stager"
	"github.com/coveyproject/covey/taskstate"
)

func TestPlaceSaysHowFarItIsOnceItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newNetwork(t, "giver").peer(t, "giver", 1<<30, true)
		data := noise(3*piece.Size, 1)
		left := []stager.Left{{Slot: 1, Ref: tree.Ref{Root: p.put(data)[0]}, Bytes: int64(len(data))}}
		job := jobOf("aaaaaaaaaa", "giver", taskstate.Input{Name: "in", From: "zzzzzzzzzz"})
		for _, late := range []bool{false, true} {
			p.mu.Lock()
			p.left = nil
			p.mu.Unlock()
			know := func() {
				p.mu.Lock()
				p.left = map[taskstate.JobID][]stager.Left{"zzzzzzzzzz": left}
				p.mu.Unlock()
			}
			if late {
				time.AfterFunc(1990*time.Millisecond, know)
			} else {
				know()
			}
			var said []string
			if err := p.Place(t.Context(), taskstate.Launch{Task: taskstate.Task(job.ID, 1, 1), Job: job}, t.TempDir(), func(s string) { said = append(said, s) }); err != nil {
				t.Fatal(err)
			}
			if late && (len(said) == 0 || !strings.HasPrefix(said[0], "placing 3.0 MiB, ")) || !late && said != nil {
				t.Errorf("late %v: it says %q", late, said)
			}
		}
	})
}

func TestPlaceSaysHowFarItIsWhenItBringsLostInputsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, "giver", "taker")
		n.shelf = func(_ string, s blob.Shelf) blob.Shelf {
			return uplink{s, 1 << 20, make(chan struct{}, 1), new(atomic.Int64)}
		}
		data := noise(8*piece.Size, 1)
		var list bytes.Buffer
		w := tree.NewWriter(&list)
		if err := w.Add(tree.Entry{Path: "data", Kind: tree.File, Size: int64(len(data)), Root: piece.Sum(data)}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		ref := tree.Ref{Root: n.peer(t, "giver", 1<<30, true).put(list.Bytes(), data)[0], Dir: true}
		job := jobOf("aaaaaaaaaa", "giver", taskstate.Input{Name: "in", Ref: ref.String(), Bytes: int64(len(data))})
		var said []string
		err := n.peer(t, "taker", 1<<30, true).Place(t.Context(), taskstate.Launch{Task: taskstate.Task(job.ID, 1, 1), Job: job}, t.TempDir(), func(s string) { said = append(said, s) })
		if err != nil || len(said) == 0 || !strings.HasPrefix(said[0], "fetching 8.0 MiB, ") {
			t.Errorf("%v, and it says %q", err, said)
		}
	})
}
