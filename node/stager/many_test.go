package stager_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
)

// uplink is a shelf whose peer sends so many bytes per second, to all together.
type uplink struct {
	blob.Shelf
	rate float64
	turn chan struct{}
	sent *atomic.Int64
}

// Open implements blob.Shelf.
func (u uplink) Open(root piece.Root) (blob.Copy, error) {
	c, err := u.Shelf.Open(root)
	return sending{c, u}, err
}

type sending struct {
	blob.Copy
	u uplink
}

// Raw implements blob.Copy.
func (s sending) Raw(b []byte, off int64) (int, error) {
	s.u.turn <- struct{}{}
	defer func() { <-s.u.turn }()
	time.Sleep(time.Duration(float64(len(b)) / s.u.rate * float64(time.Second)))
	n, err := s.Copy.Raw(b, off)
	s.u.sent.Add(int64(n))
	return n, err
}

// Case 23: whoever submits a job with a large input to four workers sends it about once: the
// workers have the rest from each other.
func TestWhoGivesALargeInputToManyWorkersSendsItAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t, "giver", "one", "two", "three", "four")
		n.net.Delay(2 * time.Millisecond)
		var sent sync.Map
		n.shelf = func(peer string, s blob.Shelf) blob.Shelf {
			u := uplink{s, 32 << 20, make(chan struct{}, 1), new(atomic.Int64)}
			sent.Store(peer, u.sent)
			return u
		}
		giver := n.peer(t, "giver", 1<<30, true)
		data := noise(128*piece.Size, 1)
		job := jobOf("aaaaaaaaaa", "giver", file("data", giver.put(data)[0], len(data)))
		var workers []*peer
		for _, name := range n.all[1:] {
			workers = append(workers, n.peer(t, name, 1<<30, true))
		}
		for _, w := range workers {
			w.Stage(job)
		}
		for _, w := range workers {
			if r := w.staged(job); !r.Here {
				t.Fatalf("%s: %+v", w.name, r)
			}
		}
		for _, name := range n.all {
			c, _ := sent.Load(name)
			times := float64(c.(*atomic.Int64).Load()) / float64(len(data))
			t.Logf("%s sent it %.2f times", name, times)
			if name == "giver" && times > 1.6 {
				t.Errorf("who gives it sent it %.2f times", times)
			}
		}
	})
}
