// Package room looks after the free room of a peer's disk: it says when next to nothing is left,
// and keeps some in reserve that can be given back, so that a peer whose disk was filled up by
// others can still write down how its tasks ended, and start.
//
// It takes one call of the system every two seconds, and one for a task that failed. It makes no
// room: what may be removed is for others to know.
package room

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/runner/supervise"
)

// File is the name of the reserve in the data folder.
const File = "reserve"

// The reserve: a hundredth of the disk, at most so much. The journal grows by a few pages for a
// hundred ends; a start needs less.
const (
	maxReserve   = 8 << 20
	reserveShare = 100
)

// A disk that was low is well again when an eighth more than the mark is free, so that it does not
// change its mind all the time.
const wellShare = 8

func well(mark int64) int64 { return mark + mark/wellShare }

// every is how often the disk is looked at, and lookAge how old a look may be that Low rests on.
const (
	every   = 2 * time.Second
	lookAge = 10 * time.Millisecond
)

// Config is what a Watch needs.
type Config struct {
	Dir  string                         // the data folder
	Look func() (supervise.Room, error) // nil: the file system of Dir
	Say  func(err error)                // told of every change: a *Low, or nil when there is room again; one call at a time
}

// Watch looks after the room of one disk. Its methods may be called by anybody.
type Watch struct {
	cfg  Config
	wake wake.Signal

	mu   sync.Mutex
	low  *Low
	seen time.Time // when the disk was looked at last
	room supervise.Room
}

// Low is why a peer takes no tasks: there is next to no room on its disk.
type Low struct {
	Dir  string
	Room supervise.Room
}

// Code is what programs know it by (api.Trouble).
func (*Low) Code() string { return "disk-full" }

func (l *Low) Error() string {
	if l.Room.ReadOnly {
		return fmt.Sprintf("the disk with the data folder %s is read-only, so this peer takes no tasks: check that disk and mount it for writing", l.Dir)
	}
	if l.Room.OutOfInodes() {
		return fmt.Sprintf("the disk with the data folder %s has next to no inodes left: %d are free of %d, and below %d this peer takes no tasks; remove files there", l.Dir, l.Room.Inodes, l.Room.AllInodes, l.Room.InodeMark())
	}
	return fmt.Sprintf("the disk with the data folder %s is full: %s are free of %s, and below %s this peer takes no tasks; make room there", l.Dir, size(l.Room.Free), size(l.Room.Total), size(l.Room.Mark()))
}

// Advice says what to do when the disk has refused something.
func (k *Watch) Advice() string {
	r, err := k.cfg.Look()
	switch {
	case err != nil:
		return "Look at the disk with the data folder " + k.cfg.Dir
	case r.ReadOnly:
		return fmt.Sprintf("The disk with the data folder %s is read-only: check it, mount it for writing", k.cfg.Dir)
	}
	if r.OutOfInodes() {
		return fmt.Sprintf("The disk with the data folder %s has %d inodes free: remove files until %d are", k.cfg.Dir, r.Inodes, r.InodeMark())
	}
	return fmt.Sprintf("The disk with the data folder %s has %s free: make at least %s free there", k.cfg.Dir, size(r.Free), size(r.Mark()))
}

// size is a number of bytes for people.
func size(n int64) string {
	const mib = 1 << 20
	if n < 10*mib {
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	}
	return fmt.Sprintf("%d MiB", n/mib)
}

// Open looks at the disk. If it is low, the reserve of before is given back, so that this start can
// write what it must; otherwise there is one now.
func Open(cfg Config) *Watch {
	k := &Watch{cfg: cfg, wake: wake.New()}
	if cfg.Look == nil {
		k.cfg.Look = func() (supervise.Room, error) { return supervise.RoomOf(cfg.Dir) }
	}
	if k.look(); k.Low() != nil {
		k.GiveBack()
	} else {
		k.restock()
	}
	return k
}

// Run looks again and again, until ctx ends. A disk that does not answer is not waited for.
func (k *Watch) Run(ctx context.Context) error {
	t := time.NewTicker(every)
	defer t.Stop()
	looked := make(chan struct{}, 1)
	idle, said := true, false
	say := func() {
		l := k.Low()
		switch {
		case l != nil && !said:
			k.cfg.Say(l)
		case l == nil && said:
			k.cfg.Say(nil)
		}
		said = l != nil
	}
	say()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-looked:
			idle = true
			say()
			continue
		case <-t.C:
		case <-k.wake:
		}
		if idle {
			idle = false
			go func() { // ends when the disk answers
				if k.look(); k.Low() == nil {
					k.restock()
				}
				looked <- struct{}{}
			}()
		}
	}
}

// LookNow has Run look at once: something was refused.
func (k *Watch) LookNow() {
	k.wake.Set()
}

// Low is why this peer is to take nothing on, nil if there is room.
func (k *Watch) Low() *Low {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.low
}

// LowNow is Low as it is at this moment.
func (k *Watch) LowNow() *Low {
	k.mu.Lock()
	old := time.Since(k.seen) > lookAge
	k.mu.Unlock()
	if old {
		k.look()
	}
	return k.Low()
}

// Lacks is how many bytes have to become free before this peer takes tasks again, as far as that
// helps.
func (k *Watch) Lacks() int64 {
	low := k.LowNow()
	if low == nil || low.Room.ReadOnly {
		return 0
	}
	return max(1, well(low.Room.Mark())-low.Room.Free)
}

func (k *Watch) look() {
	r, err := k.cfg.Look()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.room = time.Now(), r
	switch {
	case err != nil:
	case r.Low(), k.low != nil && (r.Free < well(r.Mark()) || r.Inodes < well(r.InodeMark())):
		k.low = &Low{Dir: k.cfg.Dir, Room: r}
	default:
		k.low = nil
	}
}

// GiveBack makes the reserve free and tells whether there was one.
func (k *Watch) GiveBack() bool {
	k.LookNow()
	return os.Remove(k.path()) == nil
}

func (k *Watch) path() string { return filepath.Join(k.cfg.Dir, File) }

func (k *Watch) restock() {
	if _, err := os.Lstat(k.path()); !errors.Is(err, os.ErrNotExist) {
		return
	}
	k.mu.Lock()
	r := k.room
	k.mu.Unlock()
	n := min(maxReserve, r.Total/reserveShare)
	if n == 0 || r.Free < well(r.Mark())+n {
		return
	}
	f, err := os.OpenFile(k.path(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	if err := errors.Join(allocate(f, n), f.Close()); err != nil {
		_ = os.Remove(k.path())
	}
}
