package room_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/room"
	"github.com/coveyproject/covey/node/runner/supervise"
)

const mib = 1 << 20

// told is what a Keeper says.
type told struct {
	mu  sync.Mutex
	all []error
}

func (s *told) say(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, err)
}

func (s *told) said() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func TestADiskIsSaidToBeFullOnceAndToBeWellOnlyWhenThereIsClearlyMoreRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var free atomic.Int64
		free.Store(500 * mib)
		var s told
		k := room.Open(room.Config{
			Dir: t.TempDir(), Say: s.say,
			Look: func() (supervise.Room, error) { return supervise.Room{Free: free.Load(), Total: 100 << 30}, nil },
		})
		end := make(chan error, 1)
		go func() { end <- k.Run(t.Context()) }()
		wait := func(now int64, says int, low bool) {
			t.Helper()
			free.Store(now)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if len(s.said()) != says || (k.Low() != nil) != low {
				t.Errorf("with %d MiB: said %v, low: %v", now/mib, s.said(), k.Low())
			}
		}
		wait(500*mib, 0, false)
		wait(100*mib, 1, true)
		wait(90*mib, 1, true)
		wait(130*mib, 1, true)
		wait(145*mib, 2, false)
		wait(130*mib, 2, false)
		var low *room.Low
		if !errors.As(s.all[0], &low) || low.Code() != api.TroubleDiskFull || !strings.Contains(low.Error(), "100 MiB are free") || !strings.Contains(low.Error(), "make room") || s.all[1] != nil {
			t.Errorf("said %v", s.all)
		}
	})
}

func TestADiskWithoutInodesIsSaidToBeFullUntilThereAreClearlyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := supervise.Room{Free: 1 << 40, Total: 1 << 41, Inodes: 30_000, AllInodes: 100_000}
		k := room.Open(room.Config{Dir: t.TempDir(), Say: func(error) {}, Look: func() (supervise.Room, error) { return at, nil }})
		for _, c := range []struct {
			free int64
			low  bool
		}{{2000, false}, {1999, true}, {2100, true}, {2250, false}} {
			at.Inodes = c.free
			time.Sleep(time.Second) // a look is good for a moment
			low := k.LowNow()
			if (low != nil) != c.low {
				t.Errorf("with %d inodes: %v", c.free, low)
			}
			if c.free == 1999 && (low == nil || low.Code() != api.TroubleDiskFull || !strings.Contains(low.Error(), "1999 are free of 100000") || k.Lacks() == 0 || !strings.Contains(k.Advice(), "1999 inodes free")) {
				t.Errorf("%v; %s; %d", low, k.Advice(), k.Lacks())
			}
		}
		at.Inodes, at.AllInodes = 0, 0 // as btrfs has it
		if time.Sleep(time.Second); k.LowNow() != nil {
			t.Errorf("a file system without a number of inodes: %v", k.LowNow())
		}
	})
}

// A disk that hangs must hold up neither the peer's end nor those who ask.
func TestADiskThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, looks := make(chan struct{}), atomic.Int64{}
		var s told
		k := room.Open(room.Config{Dir: t.TempDir(), Say: s.say, Look: func() (supervise.Room, error) {
			if looks.Add(1) > 1 {
				<-stuck
			}
			return supervise.Room{}, errors.ErrUnsupported
		}})
		ctx, cancel := context.WithCancel(t.Context())
		end := make(chan error, 1)
		go func() { end <- k.Run(ctx) }()
		time.Sleep(time.Minute)
		if k.Low() != nil || looks.Load() != 2 {
			t.Errorf("looked %d times, low: %v", looks.Load(), k.Low())
		}
		cancel()
		if err := <-end; err != nil {
			t.Error(err)
		}
		close(stuck)
	})
}

func TestTheReserveIsThereWhenTheDiskIsFullAndCanBeGivenBackOnce(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() != 0 || syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=32m") != nil {
		t.Skip("needs to mount a file system")
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	var s told
	k := room.Open(room.Config{Dir: dir, Say: s.say})
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- k.Run(ctx) }()
	k.LookNow()
	for {
		if st, err := os.Stat(filepath.Join(dir, room.File)); err == nil && st.Sys().(*syscall.Stat_t).Blocks*512 >= 32*mib/100 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("no reserve is made")
		}
	}
	cancel()
	<-end
	rest, err := os.Create(filepath.Join(dir, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	for size := mib; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = rest.Write(make([]byte, size))
		}
	}
	if k.LowNow() == nil {
		t.Error("it is full")
	}
	if !k.GiveBack() || k.GiveBack() {
		t.Error("the reserve is there, and there once")
	}
	if err := os.WriteFile(filepath.Join(dir, "end"), make([]byte, 100<<10), 0o600); err != nil {
		t.Error(err)
	}
	// A start on a full disk finds what it needs.
	if err := os.WriteFile(filepath.Join(dir, room.File), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if again := room.Open(room.Config{Dir: dir, Say: s.say}); again.Low() == nil || again.GiveBack() {
		t.Error("it was not given back at the start")
	}
}
