package quorum_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
)

// badDisk is a disk that can be made to refuse writes, or to let them wait.
type badDisk struct {
	mu    sync.Mutex
	err   error
	stuck chan struct{} // nil: writes come back
	skip  int           // so many writes go well before err
}

func (fl *cluster) disk(id string) *badDisk {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.disks == nil {
		fl.disks = map[string]*badDisk{}
	}
	if fl.disks[id] == nil {
		fl.disks[id] = &badDisk{}
	}
	return fl.disks[id]
}

func (d *badDisk) ask() error {
	d.mu.Lock()
	stuck, err := d.stuck, d.err
	if err != nil && d.skip > 0 {
		d.skip--
		err = nil
	}
	d.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	return err
}

func (d *badDisk) fail(after int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.skip = err, after
}

// hang lets writes wait until the returned function is called.
func (d *badDisk) hang() (thaw func()) {
	c := make(chan struct{})
	d.mu.Lock()
	d.stuck = c
	d.mu.Unlock()
	return func() {
		d.mu.Lock()
		d.stuck = nil
		d.mu.Unlock()
		close(c)
	}
}

// patiently proposes once, for as long as a client waits for one answer.
func patiently(b *testNode, c ledger.Command) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, _, err := b.Propose(ctx, []ledger.Command{c})
	return err
}

func TestALoneVoterWhoseDiskRefusesDecidesNothingAndGoesOnWhenItTakesAgain(t *testing.T) {
	for _, why := range []error{syscall.ENOSPC, syscall.EROFS, syscall.EIO} {
		for after := range 4 { // of the writes that an entry, or an election, takes: each may be the first to fail
			inBubble(t, func(t *testing.T, fl *cluster) {
				fl.grow(1, "a")
				a := fl.nodes["a"]
				fl.insist(job(1))
				fl.disk("a").fail(after, why)
				for i := range 3 {
					_ = patiently(a, job(10+i)) // the first may still be written
				}
				if err := patiently(a, job(20)); err == nil {
					t.Error("a job was accepted on a disk that takes nothing")
				}
				if err := a.Health(); err == nil || !errors.Is(err, why) || !strings.Contains(err.Error(), "a1") {
					t.Errorf("health: %v; want the reason and the folder", err)
				}
				time.Sleep(10 * time.Minute) // terms rise in memory only
				fl.disk("a").fail(0, nil)
				fl.insist(job(2))
				if err := a.Health(); err != nil {
					t.Errorf("health, when it is well again: %v", err)
				}
				if has(a, 20) {
					t.Error("what was refused was decided all the same")
				}
				fl.stop("a")
				b := fl.run(fl.start("a", "1"))
				fl.settle()
				if !has(b, 1) || !has(b, 2) {
					t.Error("decided jobs are gone after a restart")
				}
			})
		}
	}
}

func TestACoordinatorWhoseDiskRefusesMakesRoomForAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c")
		old := fl.leader()
		fl.disk(old.id).fail(0, syscall.EROFS)
		_ = patiently(old, job(1))
		took := fl.await("another coordinator", func() bool { l := fl.leader(); return l != nil && l != old })
		t.Log("another one after", took)
		fl.insist(job(2))
		fl.await("the one with the bad disk follows", func() bool { return has(old, 2) })
		time.Sleep(time.Minute)
		if l := fl.leader(); l == nil || l == old {
			t.Error("the one with the bad disk coordinates again")
		}
		fl.disk(old.id).fail(0, nil)
		fl.insist(job(3))
		fl.settle()
		fl.await("all well", func() bool { return old.Health() == nil })
	})
}

func TestACoordinatorWhoseDiskIsStuckIsReplacedAndFollowsWhenItComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		old := fl.leader()
		thaw := fl.disk(old.id).hang()
		go func() { _ = patiently(old, job(1)) }()
		took := fl.await("another coordinator", func() bool { l := fl.leader(); return l != nil && l != old })
		if took > 10*time.Second {
			t.Errorf("another one only after %v", took)
		}
		t.Log("another one after", took)
		if err := old.Health(); err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("health of the one that waits for its disk: %v", err)
		}
		fl.insist(job(2))
		fl.await("its replica follows all the same", func() bool { return has(old, 2) })
		if c, _, ok := old.Coordinator(); !ok || c == old.id {
			t.Errorf("it takes %q for the coordinator", c)
		}
		thaw()
		fl.insist(job(3))
		fl.settle()
		fl.await("it is well again", func() bool { return old.Health() == nil }) // the write that hung comes back in its own time
	})
}

func TestALoneVoterWhoseDiskWasStuckCoordinatesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a")
		a := fl.nodes["a"]
		thaw := fl.disk("a").hang()
		if err := patiently(a, job(1)); err == nil {
			t.Error("a job was accepted that is on no disk")
		}
		fl.await("it says that it does not coordinate", func() bool { _, _, ok := a.Coordinator(); return !ok })
		thaw()
		took := fl.await("it coordinates again", func() bool { l := fl.leader(); return l == a })
		t.Log("again after", took)
		fl.insist(job(2))
		if !has(a, 2) || a.Health() != nil {
			t.Errorf("job 2: %v, health: %v", has(a, 2), a.Health())
		}
	})
}

func TestAPeerWhoseDiskIsStuckCanBeStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(1, "a")
		a := fl.nodes["a"]
		thaw := fl.disk("a").hang()
		_ = patiently(a, job(1))
		time.Sleep(time.Minute)
		a.cancel()
		begin := time.Now()
		<-a.ran
		delete(fl.nodes, "a")
		if err := a.Close(); err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("closing it said %v", err)
		}
		if took := time.Since(begin); took > 15*time.Second {
			t.Errorf("it took %v to stop", took)
		}
		thaw()
	})
}
