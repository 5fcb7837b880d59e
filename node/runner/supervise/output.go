package supervise

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Streams are the names of the two output files in a task's folder.
func Streams() [2]string { return [2]string{"stdout", "stderr"} }

// output is the two files a task writes. One goroutine uses it at a time: proc.mu guards it.
type output struct {
	files  [2]capped
	cap    outputCap
	refuse int64 // from this size on the system refuses the task's writes; 0: that is not known
}

// outputCap is how much is kept of each output file.
type outputCap struct {
	limit  int64
	newest bool // beyond it the newest stays, and not the oldest
}

// capped is one file that is kept within a cap.
type capped struct {
	f     logFile
	times times
	lost  int64 // bytes cut away; at least, since more may have come between looking and cutting

	start  int64 // the bytes before are not kept any more
	frozen int64 // a disk that was low has made this the cap; 0: it has not

	held, hold int64 // up to where the disk keeps room, and how much it was asked for; 0: for nothing
	refused    error // why a write would have been refused while the task ran
}

// openOutput creates both files in an attempt's folder.
func openOutput(home string, c outputCap) (*output, error) {
	o := &output{cap: c}
	o.files[0].f, o.files[1].f = noLog, noLog
	for i, name := range Streams() {
		f, err := openLog(filepath.Join(home, name))
		if err != nil {
			o.close()
			return nil, err
		}
		o.files[i].f = f
		o.files[i].times = times{path: filepath.Join(home, TimesFile(name)), count: -1}
	}
	return o, nil
}

// give makes the files those of the user that a task runs as: it may open its stdout once more, as
// /dev/stdout does.
func (o *output) give(box *sandbox.Spec) error {
	if box == nil || box.User == nil {
		return nil
	}
	for i := range o.files {
		if err := o.files[i].f.chown(box.User.UID, box.User.GID); err != nil {
			return err
		}
	}
	return nil
}

// takeUp finds out what became of files that another supervisor kept within their cap.
func (o *output) takeUp() {
	for i := range o.files {
		c := &o.files[i]
		switch size, _, err := c.f.stat(); {
		case err != nil:
		case o.cap.newest:
			c.start = c.f.dataFrom(size)
		case size >= o.cap.limit:
			c.lost = 1 // it may just have been cut
		}
	}
}

func (o *output) close() {
	for i := range o.files {
		if o.files[i].f != noLog {
			_ = o.files[i].f.Close()
		}
	}
}

// look keeps both files within their cap, and tells whether one was cut back.
func (o *output) look() (over bool) {
	for i := range o.files {
		if size, written, err := o.files[i].keep(o.cap); err == nil { // a failure shows again at the end
			o.files[i].times.note(size, written)
		}
		over = over || o.files[i].lost > 0
	}
	return over
}

// keep brings the file back to its cap if it is over that, and says how large it is then and when
// it was written to.
func (c *capped) keep(to outputCap) (size, written int64, err error) {
	limit := to.limit
	if c.frozen > 0 {
		limit = min(limit, c.frozen)
	}
	size, written, err = c.f.stat()
	if err != nil || size-c.start <= limit {
		return size, written, err
	}
	if to.newest && c.lost == 0 && c.dropOldest(size, limit) {
		return size, written, nil
	}
	if err := c.f.Truncate(limit); err != nil {
		return size, written, err
	}
	c.lost += size - limit
	return limit, written, nil
}

// dropAlign is what the part that is dropped is a multiple of at least: disks give back whole
// blocks.
const dropAlign = 4 << 10

// dropOldest gives back the disk what is older than the newest half of the cap. The bytes that stay
// have the offsets they had. It says false where the disk cannot do that: then the oldest stays.
func (c *capped) dropOldest(size, limit int64) bool {
	to := size - limit/2
	to -= to % max(dropAlign, c.f.block())
	if to <= c.start {
		return true
	}
	if c.f.drop(c.start, to-c.start) != nil {
		return c.start > 0 // once it could, a failure passes
	}
	c.start = to
	return true
}

// outputEnd is how the files of a task stand at its end.
type outputEnd struct {
	sizes [2]int64
	cut   [2]bool // what was written beyond the cap was not kept
}

// finish brings both files to their cap a last time, notes in stderr what was cut, and closes them.
// The error is why they may not hold all they should.
func (o *output) finish(task string) (end outputEnd, err error) {
	var errs []error
	for i := range o.files {
		f := &o.files[i]
		size, _, err := f.keep(o.cap)
		end.sizes[i], end.cut[i] = size, f.lost > 0
		errs = append(errs, err, f.cutShort(size, o.refuse))
	}
	for i, name := range Streams() {
		if end.cut[i] {
			n, err := o.note(name, &o.files[i], task)
			end.sizes[1] += n
			errs = append(errs, err)
		}
	}
	for i := range o.files {
		o.files[i].release(end.sizes[i])
		errs = append(errs, o.files[i].f.Close())
	}
	return end, errors.Join(errs...)
}

// release gives back the room that was held and is not needed.
func (c *capped) release(size int64) {
	if c.held > size {
		_ = c.f.Truncate(size)
	}
}

// note says in stderr that a stream was cut: in stdout it would pass for a result.
func (o *output) note(stream string, c *capped, task string) (n int64, err error) {
	limit, why := o.cap.limit, "its cap"
	if c.frozen > 0 && c.frozen < limit {
		limit, why = c.frozen, "all that its peer's full disk had room for"
	}
	written, err := fmt.Fprintf(o.files[1].f, "\n[covey: %s of task %s was cut at %d bytes, %s; at least %d bytes more were not kept]\n", stream, task, limit, why, c.lost)
	return int64(written), err
}
