package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/room"
	"github.com/coveyproject/covey/taskstate"
)

// diskPatience is how long a command waits for this peer's disk.
const diskPatience = 3 * time.Second

// disk carries out writes to the data folder for those who must answer in time. A write that does
// not come back is left to itself; until it does, no other is begun, so that only those wait that
// were under way side by side.
type disk struct {
	dir string

	mu    sync.Mutex
	stuck int       // writes that did not come back: those that were under way side by side
	since time.Time // when the first of them began
}

// Do carries out a write and says what to do about it if it fails. One that it has given up on is
// taken back by undo (may be nil), if it succeeds after all.
func (d *disk) Do(write func() error, undo func()) error {
	if err := d.health(); err != nil {
		return err
	}
	begin, done := time.Now(), make(chan error, 1)
	go func() { done <- write() }() // ends when the disk answers
	select {
	case err := <-done:
		return d.advise(err)
	case <-time.After(diskPatience):
	}
	d.mu.Lock()
	if d.stuck++; d.stuck == 1 || begin.Before(d.since) {
		d.since = begin
	}
	d.mu.Unlock()
	go func() {
		if err := <-done; err == nil && undo != nil {
			undo()
		}
		d.mu.Lock()
		d.stuck--
		d.mu.Unlock()
	}()
	return d.health()
}

// health is nil, or that the disk does not answer.
func (d *disk) health() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stuck == 0 {
		return nil
	}
	return fmt.Errorf("the disk with the data folder %s is stuck: a write has been under way for %s; look at that disk, or restart this machine",
		d.dir, time.Since(d.since).Round(time.Second))
}

// advise adds to an error of the disk what to do about it.
func (d *disk) advise(err error) error {
	if err == nil {
		return nil
	}
	what := "look at that disk"
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		what = "make room in " + d.dir
	case errors.Is(err, syscall.EROFS):
		what = "it is read-only: check that disk and mount it for writing"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		what = "this peer may not open more files: raise the limit (`ulimit -n`) and start it again, or let some of its tasks end"
	case errors.Is(err, fs.ErrPermission):
		what = "the folder must belong to the user who runs the peer"
	}
	return fmt.Errorf("%w; %s", err, what)
}

// Takes tells whether a block can be written now.
func (d *disk) Takes() error {
	return d.Do(func() error {
		f, err := os.CreateTemp(d.dir, "space-*") // one of its own: jobs are submitted side by side
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 4096))
		return errors.Join(err, f.Close(), os.Remove(f.Name())) // an empty one may be left
	}, nil)
}

// fullDisk says of ends and of starts that failed what a full disk has to do with it.
type fullDisk struct{ *room.Watch }

// addTo adds to the end of a task what its disk may have to do with it. Whether it failed
// because of that only the task knows: its code stands.
func (f fullDisk) addTo(r taskstate.RunReport) taskstate.RunReport {
	switch {
	case r.Reason == taskstate.ReasonOutputLost, r.Reason == taskstate.ReasonStuck:
		f.LookNow()
	case r.State == taskstate.Failed && r.Reason == taskstate.ReasonExit && f.LowNow() != nil:
		f.LookNow()
		r.Message += "; the disk of its peer was full at its end"
	}
	return r
}

// explain says of a start that failed what the disk has to do with it. Tasks of before go on
// meanwhile: their supervisor has them.
func (f fullDisk) explain(err error) error {
	if f.Watch == nil || api.AsError(err).Code != api.Failed || f.LowNow() == nil {
		return err
	}
	return api.Errorf(api.Failed, "%v. %s, and start this peer again: what runs here goes on meanwhile", err, f.Advice())
}
