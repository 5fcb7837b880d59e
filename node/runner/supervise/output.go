package supervise

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Streams are the names of the two output files in a task's folder.
func Streams() [2]string { return [2]string{"stdout", "stderr"} }

// output is the two files a task writes. One goroutine uses it at a time: proc.mu guards it.
type output struct {
	files [2]capped
	limit int64
}

// capped is one file that is cut back to a cap.
type capped struct {
	f     logFile
	times times
	lost  int64 // bytes cut away; at least, since more may have come between looking and cutting

	held, hold int64 // up to where the disk keeps room, and how much it was asked for; 0: for nothing
	refused    error // why a write would have been refused while the task ran
}

// openOutput creates both files in an attempt's folder.
func openOutput(home string, limit int64) (*output, error) {
	o := &output{limit: limit}
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

func (o *output) close() {
	for i := range o.files {
		if o.files[i].f != noLog {
			_ = o.files[i].f.Close()
		}
	}
}

// look cuts back what is over its cap, and tells whether one ever was.
func (o *output) look() (over bool) {
	for i := range o.files {
		if size, written, err := o.files[i].cut(o.limit); err == nil { // a failure shows again at the end
			o.files[i].times.note(size, written)
		}
		over = over || o.files[i].lost > 0
	}
	return over
}

// cut cuts the file back if it is over the cap, and says how large it is then and when it was written to.
func (c *capped) cut(limit int64) (size, written int64, err error) {
	size, written, err = c.f.stat()
	if err != nil || size <= limit {
		return size, written, err
	}
	if err := c.f.Truncate(limit); err != nil {
		return size, written, err
	}
	c.lost += size - limit
	return limit, written, nil
}

// finish cuts a last time, notes what was cut, and closes. It says how large each file is then, and why they may not hold all they should.
func (o *output) finish(task string) (sizes [2]int64, err error) {
	var errs []error
	for i, name := range Streams() {
		f := &o.files[i]
		size, err := f.conclude(name, o.limit, task)
		sizes[i] = size
		errs = append(errs, err, f.cutShort(size))
		f.release(size)
		errs = append(errs, f.f.Close())
	}
	return sizes, errors.Join(errs...)
}

// release gives back the room that was held and is not needed.
func (c *capped) release(size int64) {
	if c.held > size {
		_ = c.f.Truncate(size)
	}
}

// conclude cuts one file and says so at its end.
func (c *capped) conclude(stream string, limit int64, task string) (size int64, err error) {
	if size, _, err = c.cut(limit); err != nil || c.lost == 0 {
		return size, err
	}
	n, err := fmt.Fprintf(c.f, "\n[covey: %s of task %s was cut here, at its cap of %d bytes; at least %d bytes more were not kept]\n", stream, task, limit, c.lost)
	return size + int64(n), err
}
