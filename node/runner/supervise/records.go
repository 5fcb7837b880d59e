package supervise

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// recordSize is one line of the file .running: PID BEFORE AFTER DEADLINE BOOT TASK CAP HELD GROUP,
// padded with blanks. A free line is blank. CAP is that of the task's output, below zero if the
// newest stays, HELD what the task is kept from, GROUP its control group; lines of 0.1 have none of
// these, and its readers do not look so far.
const recordSize = 192

const runningFile = ".running"

// Forget removes what is noted about processes in dir: they are not those of who uses it now.
// Nobody may be supervising there.
func Forget(dir string) error {
	for _, name := range []string{runningFile, endsName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// record is a process whose end nobody has taken.
type record struct {
	task          string
	pid           int   // 0: about to be started
	before, after int64 // milliseconds since boot: it was started in between
	deadline      int64 // milliseconds since boot, 0: none
	boot          string
	cap           outputCap // of its output; zero: not known
	held          sandbox.Confined
	group         int // number of its control group; 0: it is in none
	slot          int
}

// records says on disk which processes run: two writes without fsync per start, one per end, and no
// file to create, which would cost twenty times as much. After a crash of the machine there is
// nothing to find, so nothing needs to be synced.
type records struct {
	f    *os.File
	boot string
	mu   sync.Mutex
	free []int
	size int // in slots
	left []record
}

func openRecords(dir string) (*records, error) {
	f, err := os.OpenFile(filepath.Join(dir, runningFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	all, err := io.ReadAll(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	r := &records{f: f, boot: BootID(), size: (len(all) + recordSize - 1) / recordSize}
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
	n, err := fmt.Sscanf(line, "%d %d %d %d %s %s", &r.pid, &r.before, &r.after, &r.deadline, &r.boot, &r.task)
	if n != 6 || err != nil || !strings.HasSuffix(line, "\n") {
		return record{}, false
	}
	if f := strings.Fields(line); len(f) > n {
		limit, err := strconv.ParseInt(f[n], 10, 64)
		if err == nil && limit > math.MinInt64 {
			r.cap = outputCap{limit: max(limit, -limit), newest: limit < 0}
		}
		if len(f) > n+2 {
			held, _ := strconv.ParseUint(f[n+1], 10, 16)
			r.held = sandbox.Confined(held)
			r.group, _ = strconv.Atoi(f[n+2])
		}
	}
	return r, r.pid == 0 || r.pid > 1
}

// begin takes note that a process is about to be started and returns the record. Where boots cannot
// be told apart there are none: slot -1.
func (r *records) begin(task string, c outputCap) (record, error) {
	rec := record{task: task, before: sinceBoot(), boot: r.boot, cap: c, slot: -1}
	if r.boot == "" {
		return rec, nil
	}
	r.mu.Lock()
	slot := r.size
	if n := len(r.free); n > 0 {
		slot, r.free = r.free[n-1], r.free[:n-1]
	} else {
		r.size++
	}
	r.mu.Unlock()
	rec.slot = slot
	if err := r.put(rec); err != nil {
		r.remove(slot)
		return rec, err
	}
	return rec, nil
}

// started completes a record.
func (r *records) started(rec record, pid int, deadline int64) {
	rec.pid, rec.after, rec.deadline = pid, sinceBoot(), deadline
	if rec.slot >= 0 {
		_ = r.put(rec) // over what begin has written: there is room
	}
}

func (r *records) put(rec record) error {
	var room [recordSize]byte
	line := room[:0]
	for _, n := range [...]int64{int64(rec.pid), rec.before, rec.after, rec.deadline} {
		line = append(strconv.AppendInt(line, n, 10), ' ')
	}
	line = append(append(append(append(line, rec.boot...), ' '), rec.task...), ' ')
	limit := rec.cap.limit
	if rec.cap.newest {
		limit = -limit
	}
	line = append(strconv.AppendInt(line, limit, 10), ' ')
	line = append(strconv.AppendUint(line, uint64(rec.held), 10), ' ')
	line = strconv.AppendInt(line, int64(rec.group), 10)
	if len(line) >= recordSize {
		return fmt.Errorf("the name %q is too long", rec.task)
	}
	return r.write(rec.slot, line)
}

func (r *records) write(slot int, line []byte) error {
	var b [recordSize]byte
	n := copy(b[:], line)
	for i := n; i < recordSize-1; i++ {
		b[i] = ' '
	}
	b[recordSize-1] = '\n'
	_, err := r.f.WriteAt(b[:], int64(slot)*recordSize)
	return err
}

// probe reports whether the disk takes a write. It writes a byte that is the same in every first
// line, and that the file has room for once a process has begun.
func (r *records) probe() error {
	_, err := r.f.WriteAt([]byte{'\n'}, recordSize-1)
	return err
}

// here tells whether a path still leads to the file.
func (r *records) here(path string) bool {
	named, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	mine, err := r.f.Stat()
	return err != nil || os.SameFile(named, mine)
}

func (r *records) remove(slot int) {
	if slot < 0 {
		return
	}
	_ = r.write(slot, nil)
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
