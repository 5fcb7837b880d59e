package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"covey/taskstate"
)

// recordSize is one line of the file .running: PID BEFORE AFTER BOOT TASK, padded with blanks. A free line is blank.
const recordSize = 160

// record is a process an earlier life of this runner started and did not see the end of.
type record struct {
	task          taskstate.TaskID
	pid           int
	before, after int64 // milliseconds since boot: it was started in between
	boot          string
	slot          int
}

// records says on disk which processes run: one write without fsync per start and per end, and no file to create, which would cost
// twenty times as much.
type records struct {
	f    *os.File
	boot string
	mu   sync.Mutex
	free []int
	size int // in slots
	left []record
}

func openRecords(dir string) (*records, error) {
	f, err := os.OpenFile(filepath.Join(dir, ".running"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r := &records{f: f, boot: bootID(), size: (len(all) + recordSize - 1) / recordSize}
	for i := range r.size {
		line := string(all[i*recordSize : min(len(all), (i+1)*recordSize)])
		if rec, ok := parseRecord(line); ok {
			rec.slot = i
			r.left = append(r.left, rec)
		} else {
			r.free = append(r.free, i)
		}
	}
	return r, nil
}

// parseRecord reads a line; what is blank or torn says nothing.
func parseRecord(line string) (record, bool) {
	var r record
	var id string
	if n, err := fmt.Sscanf(line, "%d %d %d %s %s", &r.pid, &r.before, &r.after, &r.boot, &id); n != 5 || err != nil || !strings.HasSuffix(line, "\n") {
		return record{}, false
	}
	var err error
	r.task, err = taskstate.ParseTaskID(id)
	return r, err == nil && r.pid > 1
}

// begin is called right before a process is started; its answer goes to add.
func (r *records) begin() int64 { return sinceBoot() }

// add takes note of a started process and returns its slot, -1 if it could not: then Reap has only the environment to go by.
func (r *records) add(id taskstate.TaskID, pid int, before int64) int {
	line := fmt.Sprintf("%d %d %d %s %s", pid, before, sinceBoot(), r.boot, id)
	if r.boot == "" || len(line) >= recordSize {
		return -1
	}
	r.mu.Lock()
	slot := r.size
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		r.size++
	}
	r.mu.Unlock()
	if err := r.put(slot, line); err != nil {
		r.remove(slot)
		return -1
	}
	return slot
}

func (r *records) put(slot int, line string) error {
	var b [recordSize]byte
	n := copy(b[:], line)
	for i := n; i < recordSize-1; i++ {
		b[i] = ' '
	}
	b[recordSize-1] = '\n'
	_, err := r.f.WriteAt(b[:], int64(slot)*recordSize)
	return err
}

// remove frees a slot.
func (r *records) remove(slot int) {
	if slot < 0 {
		return
	}
	_ = r.put(slot, "")
	r.mu.Lock()
	r.free = append(r.free, slot)
	r.mu.Unlock()
}

func (r *records) close() error {
	err := r.f.Close()
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// Reap kills what an earlier life of this peer left running of these tasks; when it returns, nothing of them runs any more. The worker
// calls it once, after a restart, before it reports them as lost. Whoever got the number of a dead process since is never touched: a
// process is killed if it started, on this boot, when the record says, or if its own environment names the task. Where a system cannot
// tell (all but Linux), nothing is killed.
//
// It says how many it killed: groups, and beside them single processes.
func (r *Runner) Reap(tasks []taskstate.TaskID) (killed int) {
	want := make(map[taskstate.TaskID]bool, len(tasks))
	for _, id := range tasks {
		want[id] = true
	}
	for _, rec := range r.records.take(want) {
		if rec.boot == r.records.boot && rec.boot != "" && killGroup(rec) {
			killed++
		}
		r.records.remove(rec.slot)
	}
	killed += killByEnvironment(func(id taskstate.TaskID) bool { return want[id] })
	if killed > 0 {
		r.cfg.Log.Info("killed what an earlier life left running", "killed", killed)
	}
	return killed
}

// take hands over what an earlier life recorded of these tasks.
func (r *records) take(want map[taskstate.TaskID]bool) (mine []record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []record
	for _, rec := range r.left {
		if want[rec.task] {
			mine = append(mine, rec)
		} else {
			others = append(others, rec)
		}
	}
	r.left = others
	return mine
}
