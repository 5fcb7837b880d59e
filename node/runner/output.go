package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"covey/taskstate"
)

// How often the size of a running task's output is looked at: normally, and once it was over the cap.
const (
	lookEvery     = 100 * time.Millisecond
	lookEveryOver = 10 * time.Millisecond
)

var streams = [2]string{"stdout", "stderr"}

// output is the two files a task writes.
type output struct {
	files [2]capped
	limit int64
	slot  int    // of the process's record, -1 if there is none
	work  string // the work folder

	mu     sync.Mutex // guards what follows and every cut
	next   *timer
	over   bool
	shared bool // after finish: somebody else still writes a file
}

// capped is one file that is cut back to a cap. While the process runs, only the watch touches it.
type capped struct {
	f    *os.File
	lost int64 // bytes cut away; at least, since more may have come between looking and cutting
}

// openOutput creates both files in an attempt's folder.
func openOutput(home string, limit int64) (*output, error) {
	o := &output{limit: limit, slot: -1}
	for i, name := range streams {
		f, err := os.OpenFile(filepath.Join(home, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			o.close()
			return nil, err
		}
		o.files[i].f = f
	}
	return o, nil
}

func (o *output) close() {
	for i := range o.files {
		if o.files[i].f != nil {
			_ = o.files[i].f.Close()
		}
	}
}

// watch looks at the sizes from now on, until finish.
func (o *output) watch(clock *timers) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.next = clock.after(lookEvery, func() { o.look(clock) })
	}
}

func (o *output) look(clock *timers) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return
	}
	every := lookEvery
	for i := range o.files {
		_ = o.files[i].cut(o.limit) // a failure shows again at the end
		if o.files[i].lost > 0 {
			every = lookEveryOver
		}
	}
	o.next = clock.after(every, func() { o.look(clock) })
}

// cut cuts the file back if it is over the cap.
func (c *capped) cut(limit int64) error {
	st, err := c.f.Stat()
	if err != nil || st.Size() <= limit {
		return err
	}
	if err := c.f.Truncate(limit); err != nil {
		return err
	}
	c.lost += st.Size() - limit
	return nil
}

// finish closes both files, sees to it that nobody writes them any more, and, where a file was or is over its cap, cuts it a last time
// and notes that.
func (o *output) finish(clock *timers, id taskstate.TaskID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	clock.stop(o.next)
	var errs []error
	for i := range o.files {
		c := &o.files[i]
		path := c.f.Name()
		st, err := c.f.Stat()
		errs = append(errs, err, c.f.Close())
		if err != nil {
			continue
		}
		if rest := endWriters(path, id); !rest {
			errs = append(errs, fmt.Errorf("%s is still being written by a process that left the task's group", path))
			o.shared = true
		}
		if c.lost > 0 || st.Size() > o.limit {
			errs = append(errs, c.conclude(path, streams[i], o.limit, id))
		}
	}
	return errors.Join(errs...)
}

// conclude cuts a file that went over its cap and says so at its end.
func (c *capped) conclude(path, stream string, limit int64, id taskstate.TaskID) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|noFollow, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	c.f = f
	if err := c.cut(limit); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\n[covey: %s of task %s was cut here, at its cap of %d bytes; at least %d bytes more were not kept]\n", stream, id, limit, c.lost)
	return err
}
