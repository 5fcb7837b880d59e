package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
)

// FileName is that of a peer's log, in its data folder.
const FileName = "audit.log"

// Bounds of a log.
const (
	MaxSize    = 8 << 20 // bytes of a file
	Keep       = 4       // files that are put aside
	MaxWaiting = 4096    // records that wait for the disk
)

// retryEvery is how long a log waits for a disk that took nothing.
const retryEvery = 5 * time.Second

// Config says where a log is.
type Config struct {
	Path    string
	Now     func() time.Time // default time.Now
	Trouble func(error)      // hears why nothing can be written, and nil when it can again; optional

	maxSize int64 // default MaxSize
}

// Log is written by one goroutine, Run's. Write may be called by anybody at any time; a nil Log
// takes everything and keeps nothing.
type Log struct {
	cfg Config

	mu      sync.Mutex
	waiting []Record
	lost    int // records there was no place for
	wake    wake.Signal

	// Run's own.
	f       *os.File
	size    int64
	seq     uint64
	last    string // hash of the last line
	failing bool
}

// New makes a log. The file is opened by Run: a disk that cannot be written keeps nobody from
// starting.
func New(cfg Config) *Log {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Trouble == nil {
		cfg.Trouble = func(error) {}
	}
	if cfg.maxSize == 0 {
		cfg.maxSize = MaxSize
	}
	return &Log{cfg: cfg, wake: wake.New()}
}

// Write takes a record. It waits for nothing.
func (l *Log) Write(r Record) {
	if l == nil {
		return
	}
	r = r.bounded()
	if r.Time.IsZero() {
		r.Time = l.cfg.Now()
	}
	r.Time = r.Time.UTC().Truncate(time.Millisecond)
	l.mu.Lock()
	if len(l.waiting) < MaxWaiting {
		l.waiting = append(l.waiting, r)
	} else {
		l.lost++
	}
	l.mu.Unlock()
	l.wake.Set()
}

// Run writes what is taken until ctx ends, and then what is left.
func (l *Log) Run(ctx context.Context) error {
	retry := time.NewTimer(retryEvery)
	defer retry.Stop()
	for {
		err := l.flush()
		l.tell(err)
		if err != nil {
			retry.Reset(retryEvery)
			select {
			case <-retry.C:
				continue
			case <-ctx.Done():
			}
		} else {
			select {
			case <-l.wake:
				continue
			case <-ctx.Done():
			}
			_ = l.flush()
		}
		if l.f == nil {
			return nil
		}
		return errors.Join(l.f.Sync(), l.f.Close())
	}
}

// tell says once that nothing can be written, and once that it can again.
func (l *Log) tell(err error) {
	if err != nil || l.failing {
		l.cfg.Trouble(err)
	}
	l.failing = err != nil
}

// flush writes all that waits. What cannot be written waits on.
func (l *Log) flush() error {
	l.mu.Lock()
	batch, lost := l.waiting, l.lost
	l.waiting, l.lost = nil, 0
	l.mu.Unlock()
	err := l.write(batch, lost)
	if err != nil {
		l.mu.Lock()
		l.waiting = append(batch, l.waiting...)
		l.lost += lost
		if over := len(l.waiting) - MaxWaiting; over > 0 {
			l.waiting, l.lost = l.waiting[:MaxWaiting], l.lost+over
		}
		l.mu.Unlock()
	}
	return err
}

// write brings records to the file: all or none.
func (l *Log) write(batch []Record, lost int) error {
	if err := l.open(); err != nil {
		return err
	}
	if lost > 0 {
		batch = append(batch, Record{What: Lost, Time: l.cfg.Now().UTC().Truncate(time.Millisecond), Detail: fmt.Sprintf("%d records before this one could not be written", lost)})
	}
	if len(batch) == 0 {
		return nil
	}
	if l.size >= l.cfg.maxSize {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	seq, last := l.seq, l.last
	for _, r := range batch {
		seq++
		r.Seq, r.Prev = seq, last
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		last = hashOf(line)
		out.Write(append(line, '\n'))
	}
	if _, err := l.f.Write(out.Bytes()); err != nil { // a part may be there: nobody is to read on from it
		return errors.Join(err, l.f.Truncate(l.size), l.forget())
	}
	l.size += int64(out.Len())
	l.seq, l.last = seq, last
	return nil
}

// forget has the file opened and read again before it is written again.
func (l *Log) forget() error {
	err := l.f.Close()
	l.f = nil
	return err
}

// open opens the file and goes on where it ends.
func (l *Log) open() error {
	if l.f != nil && l.named() {
		return nil
	} else if l.f != nil {
		_ = l.forget()
	}
	f, err := os.OpenFile(l.cfg.Path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	seq, last, size, err := ends(f)
	if err == nil && size == 0 { // after the one that was put aside, if a crash came in between
		seq, last, err = endOf(l.cfg.Path + ".1")
	}
	if err == nil {
		err = f.Truncate(size) // a line that was torn
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, size
	if l.seq == 0 { // otherwise what is known here goes on, so that it shows if the file was changed meanwhile
		l.seq, l.last = seq, last
	}
	return nil
}

// named tells whether the path still leads to the file.
func (l *Log) named() bool {
	ours, err := l.f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.cfg.Path)
	return err == nil && os.SameFile(ours, there)
}

// rotate puts the file aside and begins another.
func (l *Log) rotate() error {
	for i := Keep - 1; i > 0; i-- {
		err := os.Rename(aside(l.cfg.Path, i), aside(l.cfg.Path, i+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(l.cfg.Path, aside(l.cfg.Path, 1)); err != nil {
		return err
	}
	if err := errors.Join(l.f.Sync(), l.forget()); err != nil {
		return err
	}
	return l.open()
}

func aside(path string, n int) string { return path + "." + strconv.Itoa(n) }

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
