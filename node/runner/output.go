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
	home  string // the attempt's folder
	slot  int    // of the process's record, -1 if there is none
	work  string // the work folder

	mu   sync.Mutex // guards what follows and every cut
	next *timer
	over bool
}

// capped is one file that is cut back to a cap. While the process runs, only the watch touches it.
type capped struct {
	f    *os.File
	lost int64 // bytes cut away; at least, since more may have come between looking and cutting
}

// openOutput creates both files in an attempt's folder.
func openOutput(home string, limit int64) (*output, error) {
	o := &output{home: home, limit: limit, slot: -1}
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
		_, _ = o.files[i].cut(o.limit) // a failure shows again at the end
		if o.files[i].lost > 0 {
			every = lookEveryOver
		}
	}
	o.next = clock.after(every, func() { o.look(clock) })
}

// cut cuts the file back if it is over the cap, and says how large it is then.
func (c *capped) cut(limit int64) (size int64, err error) {
	st, err := c.f.Stat()
	if err != nil || st.Size() <= limit {
		if st != nil {
			size = st.Size()
		}
		return size, err
	}
	if err := c.f.Truncate(limit); err != nil {
		return st.Size(), err
	}
	c.lost += st.Size() - limit
	return limit, nil
}

// finish cuts a last time, notes what was cut, and closes. It says how large each file is then.
func (o *output) finish(clock *timers, id taskstate.TaskID) (sizes [2]int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	clock.stop(o.next)
	var errs []error
	for i := range o.files {
		size, err := o.files[i].conclude(streams[i], o.limit, id)
		sizes[i] = size
		errs = append(errs, err, o.files[i].f.Close())
	}
	return sizes, errors.Join(errs...)
}

// conclude cuts one file and says so at its end.
func (c *capped) conclude(stream string, limit int64, id taskstate.TaskID) (size int64, err error) {
	if size, err = c.cut(limit); err != nil || c.lost == 0 {
		return size, err
	}
	n, err := fmt.Fprintf(c.f, "\n[covey: %s of task %s was cut here, at its cap of %d bytes; at least %d bytes more were not kept]\n", stream, id, limit, c.lost)
	return size + int64(n), err
}
