package saver_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// peak watches the memory of this process until it is called: how much more there was than at the
// beginning.
func peak() func() int64 {
	used := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64() + s[1].Value.Uint64())
	}
	runtime.GC()
	before, most := used(), int64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // ends with the call
		defer close(done)
		for {
			most = max(most, used()-before)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-done
		return most
	}
}

// Case 4, its memory: 100,000 files of 4 KiB are collected, and kept by another.
func TestAHundredThousandFilesAreSavedInBoundedMemory(t *testing.T) {
	long.Test(t)
	const n, most = 100_000, 200 << 20
	s := &scene{t: t, net: memnet.New(), dir: t.TempDir(), got: map[taskstate.TaskID][]taskstate.RunReport{}}
	defer s.net.Close()
	s.stores = map[string]*store.Store{}
	s.hands = &hands{dir: filepath.Join(s.dir, "tasks"), runs: map[taskstate.TaskID]func(string) taskstate.RunReport{}}
	s.store = s.openStore("self", 4<<30)
	s.begin()
	s.keeper("home", 4<<30)
	for slot, copies := range map[int]int{1: 1, 2: 2} {
		j := job("out")
		j.Outputs.Keep = copies
		id := taskstate.Task(j.ID, slot, 1)
		rel, err := id.Folder()
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4<<10)
		for i := range n {
			dir := filepath.Join(s.hands.dir, rel, "work", "out", strconv.Itoa(i/1000))
			if i%1000 == 0 {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			binary.LittleEndian.PutUint64(buf, uint64(slot*n+i))
			if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), buf, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.hands.runs[id] = func(string) taskstate.RunReport { return ended(0) }
		memory, began := peak(), time.Now()
		s.Start(taskstate.Launch{Task: id, Job: j})
		end := s.end(id)
		more := memory()
		t.Logf("%d copies: %v, %d MiB more", copies, time.Since(began).Round(time.Millisecond), more>>20)
		if more > most*int64(copies) { // all peers are in this process
			t.Errorf("%d MiB more memory", more>>20)
		}
		if end.State != taskstate.Complete || end.Saved.Files != n || len(end.Saved.Keepers) != copies {
			t.Fatalf("%+v, %+v", end, end.Saved)
		}
		if p, ok := s.store.PinNamed(keep.PinName(id)); !ok || len(p.Roots) != n+1 {
			t.Errorf("%d are pinned", len(p.Roots))
		}
		if err := os.RemoveAll(filepath.Join(s.hands.dir, rel)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
