package clinic

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/doctor"
	"github.com/coveyproject/covey/node/runner/supervise"
)

// A disk is tried with so many writes of this many bytes, or as many as it takes in probeTime.
const (
	probeWrites = 50
	probeBytes  = 4096
	probeTime   = time.Second
)

// disk tries how fast a disk is. A write that does not come back is left to itself, and until it
// does no other is begun.
type disk struct {
	dir string

	mu    sync.Mutex
	since time.Time // when the one that is under way began; zero: none is
}

// probe writes and syncs.
func (d *disk) probe(votes bool) doctor.Known[doctor.Sync] {
	d.mu.Lock()
	if !d.since.IsZero() {
		defer d.mu.Unlock()
		return stuck(time.Since(d.since), votes)
	}
	d.since = time.Now()
	d.mu.Unlock()
	done := make(chan doctor.Sync, 1)
	go func() {
		s := trySync(d.dir)
		d.mu.Lock()
		d.since = time.Time{}
		d.mu.Unlock()
		done <- s
	}()
	select {
	case s := <-done:
		s.Votes = votes
		return doctor.Is(s)
	case <-time.After(probeTime + patience):
		return stuck(probeTime+patience, votes)
	}
}

func stuck(since time.Duration, votes bool) doctor.Known[doctor.Sync] {
	return doctor.Is(doctor.Sync{Votes: votes, Failed: fmt.Sprintf("a write has been under way for %s", since.Round(time.Second))})
}

func trySync(dir string) (s doctor.Sync) {
	f, err := os.CreateTemp(dir, "space-*")
	if err != nil {
		return doctor.Sync{Failed: err.Error()}
	}
	var took []time.Duration
	for began := time.Now(); len(took) < probeWrites && (len(took) == 0 || time.Since(began) < probeTime) && err == nil; {
		at := time.Now()
		if _, err = f.WriteAt(make([]byte, probeBytes), 0); err == nil {
			err = f.Sync()
		}
		took = append(took, time.Since(at))
	}
	if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
		return doctor.Sync{Failed: err.Error()}
	}
	slices.Sort(took)
	return doctor.Sync{Tries: len(took), P50: took[len(took)/2], P99: took[len(took)*99/100]}
}

func room(look func() (supervise.Room, error)) doctor.Known[doctor.Room] {
	r, err := look()
	if err != nil {
		return doctor.NotTried[doctor.Room](err.Error())
	}
	return doctor.Is(doctor.Room{Free: r.Free, Total: r.Total, LowLimit: r.Mark(), Inodes: r.Inodes, AllInodes: r.AllInodes, LowFiles: r.InodeMark(), ReadOnly: r.ReadOnly})
}
