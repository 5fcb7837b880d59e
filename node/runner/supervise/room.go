package supervise

import (
	"errors"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Below so much free room a disk is low: not even one task could write all the output it may by
// default. Where that is more than a twentieth of the disk – what ext4 keeps for root by default –
// that twentieth counts. HTCondor keeps 500 MiB free (RESERVED_DISK), kubelet a tenth
// (nodefs.available).
const (
	lowRoom  = 2 * DefaultLogCap
	lowShare = 20
)

// A task takes about eight inodes, and what is queued on a peer a few hundred tasks.
const lowInodes = 2000

// Room is how a file system stands.
type Room struct {
	Free, Total int64 // bytes; Free is what those who are not root may still write
	ReadOnly    bool

	Inodes, AllInodes int64 // free ones, and all; AllInodes is 0 where the file system has no fixed number
}

// Mark is the free room below which the disk is low, in bytes.
func (r Room) Mark() int64 { return min(lowRoom, r.Total/lowShare) }

// InodeMark is the number of free inodes below which the disk is low.
func (r Room) InodeMark() int64 { return min(lowInodes, r.AllInodes/lowShare) }

// OutOfInodes reports whether the disk is low because next to no file can be made.
func (r Room) OutOfInodes() bool { return r.Inodes < r.InodeMark() }

// Low reports whether next to nothing can be written any more.
func (r Room) Low() bool { return r.ReadOnly || r.Free < r.Mark() || r.OutOfInodes() }

// TakesNothing reports whether an error means that a disk takes no writes: it is full, read-only,
// broken, or gone.
func TakesNothing(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG,
		syscall.ESTALE, syscall.ENODEV, syscall.ENXIO, syscall.ENOTCONN, corrupt,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Exhausted reports whether an error means that the system refused this process another process,
// thread or open file for now.
func Exhausted(err error) bool { return sandbox.Exhausted(err) }

// roomAge is how old a look at the disk may be: however many tasks end, it costs no more than a
// hundred calls of the system a second. No disk gets from low to full in that time.
const roomAge = 10 * time.Millisecond

// roomWatch looks at the disk for an Engine. Its owner's lock guards it.
type roomWatch struct {
	look  func() (Room, error)
	probe func() error // writes a byte: a broken disk may still report its room
	at    time.Time
	room  Room
	err   error
}

func (w *roomWatch) now() (Room, error) {
	if now := time.Now(); now.Sub(w.at) >= roomAge {
		w.room, w.err = w.look()
		w.at = now
		if err := w.probe(); TakesNothing(err) {
			w.err = err
		}
	}
	return w.room, w.err
}

// Of what is free on a disk that is low, the output of running tasks gets a part in advance, so
// that a task that writes little loses nothing when the disk is full: at most so much per file, and
// an eighth in all.
const (
	maxHold   = 1 << 20
	minHold   = 16 << 10
	holdShare = 8
)

// shortage is how the disk stands as far as it matters to output: refused is why it takes nothing
// at all, hold what each output file may have.
type shortage struct {
	low     bool
	refused error
	hold    int64
}

// shortage looks at the disk.
func (e *Engine) shortage() shortage {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.room.look == nil {
		return shortage{}
	}
	room, err := e.room.now()
	switch {
	case errors.Is(err, errors.ErrUnsupported) || err != nil && !TakesNothing(err):
		return shortage{}
	case err != nil:
		return shortage{low: true, refused: err}
	case room.ReadOnly:
		return shortage{low: true, refused: syscall.EROFS}
	case !room.Low():
		return shortage{}
	}
	files := int64(len(output{}.files) * max(1, len(e.procs)))
	return shortage{low: true, hold: min(maxHold, max(minHold, room.Free/holdShare/files))}
}

// secure holds room for what a task may still write, and takes note if there is none.
func (o *output) secure(s shortage) {
	for i := range o.files {
		o.files[i].secure(s)
	}
}

func (c *capped) secure(s shortage) {
	if !s.low {
		return
	}
	c.freeze()
	if s.refused != nil { // what is held is of no use
		c.refused, c.held = s.refused, 0
		return
	}
	size, _, err := c.f.stat()
	if err != nil || c.held-size > s.hold/2 {
		return
	}
	switch err := c.f.hold(size, s.hold); {
	case err == nil:
		c.held, c.hold = size+s.hold, s.hold
	case TakesNothing(err):
		c.refused = err
	}
}

// freeze ends the growth of a file that is larger than any is by default: a job that may write much
// must not take the room that the others need. Its beginning stays as it is, whatever room there is
// later, so that it has no gap.
func (c *capped) freeze() {
	if size, _, err := c.f.stat(); err == nil && c.frozen == 0 {
		c.frozen = max(DefaultLogCap, size-c.start)
	}
}

// cutShort is why a file may not hold all that was written to it: a write would have been refused
// while the task ran, and there was no room in advance that what it wrote stayed well within. Of
// what is at its cap all is there that should be. Nobody but the task sees whether one of its
// writes was refused. Beyond refuse every one was.
func (c *capped) cutShort(size, refuse int64) error {
	switch {
	case c.lost > 0:
		return nil
	case refuse > 0 && size >= refuse:
		return syscall.EFBIG
	case c.held > 0 && size <= c.held-c.hold/2:
		return nil
	}
	return c.refused
}
