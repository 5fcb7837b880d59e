// Package highwater remembers on disk how many batches of statuses every worker has signed: so that
// a worker's journal that was put back is noticed also where everybody was down at once, by the
// coordinator of then, or by the peer itself. A worker has a batch on disk before anybody gets it:
// one that begins with less than is remembered has lost what came after.
//
// The file is written after a batch was shown, at once if nothing was written just now: what a
// worker began in the last moment before all peers were cut off at once is not in it. Any batch
// after those of the copy shows that it is one, so that this matters only where the copy was made
// in that moment, too.
//
// A coordinator may have been away when a worker said something, so that it asks the others who
// hold a seat before it welcomes one that comes back: see Inquiry. Their word is enough, as a
// coordinator's is: each of them may become one.
//
// The package does not decide what follows from a journal that is behind; the worker does.
package highwater

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Name is the name of the file in the data folder.
const Name = "heard"

const (
	pauseSeated = 20 * time.Millisecond // after a write, at a peer that may coordinate
	pauseOther  = time.Second           // at any other
	writeShare  = 2                     // and so many times what the write took: a slow disk has other things to do
	recordBytes = 256                   // bytes of a record: within a sector, so that it is written whole or not at all
	maxRecords  = 4096                  // records
)

// record is the newest batch of one worker.
type record struct {
	Author      taskstate.PeerID      `cbor:"1,keyasint"`
	Incarnation taskstate.Incarnation `cbor:"2,keyasint"`
	Number      uint64                `cbor:"3,keyasint"`
}

// Config is what a File is made of.
type Config struct {
	Path string
	// Newest is what is known now: a mark of each worker's incarnation that counts.
	Newest func() []digest.Mark
	// Seated tells whether this peer may have to coordinate: then it writes as soon as it can.
	Seated func() bool
	Log    *slog.Logger
}

// File is the file, and its writer. It is safe for concurrent use; nil remembers nothing.
type File struct {
	cfg  Config
	news wake.Signal

	mu    sync.Mutex
	saved []record // on disk, each where it is in the file; with an empty author: free
	at    map[taskstate.PeerID]int
}

// Open reads what was remembered. A record that cannot be read is as good as none.
func Open(cfg Config) *File {
	h := &File{cfg: cfg, news: wake.New(), at: map[taskstate.PeerID]int{}}
	b, err := readUpTo(cfg.Path, maxRecords*recordBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		cfg.Log.Warn("how far the workers were is not remembered; it is heard again from them", "err", err)
	}
	for ; len(b) >= recordBytes; b = b[recordBytes:] {
		m, _ := decode(b[:recordBytes])
		if _, twice := h.at[m.Author]; twice {
			m = record{}
		}
		if m.Author != "" {
			h.at[m.Author] = len(h.saved)
		}
		h.saved = append(h.saved, m)
	}
	return h
}

func readUpTo(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// Noted says that there may be more to remember. It never blocks.
func (h *File) Noted() {
	if h != nil {
		h.news.Set()
	}
}

// Highest is the number of the newest batch that is remembered of a worker's incarnation, 0 if none
// is.
func (h *File) Highest(peer taskstate.PeerID, inc taskstate.Incarnation) uint64 {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if i, ok := h.at[peer]; ok && h.saved[i].Incarnation == inc {
		return h.saved[i].Number
	}
	return 0
}

// Run writes the file until ctx ends.
func (h *File) Run(ctx context.Context) error {
	sick := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.news:
		}
		began := time.Now()
		err := h.save()
		if err != nil && !sick {
			h.cfg.Log.Warn("how far the workers are cannot be remembered", "err", err)
		}
		sick = err != nil
		least := pauseOther
		if h.cfg.Seated() && !sick {
			least = pauseSeated
		}
		if pause.For(ctx, max(least, writeShare*time.Since(began))) != nil {
			return nil
		}
	}
}

// save writes what is more than what is on disk. Run alone calls it: nobody else changes what is
// saved.
func (h *File) save() error {
	all := h.cfg.Newest()
	next := map[int]record{}
	for _, t := range all {
		m := record{Author: t.Stream.Author, Incarnation: taskstate.Incarnation(t.Stream.Incarnation), Number: t.Top}
		i, known := h.at[m.Author]
		switch {
		case !known:
			if i = h.vacant(next, all); i < 0 {
				continue
			}
		case h.saved[i].Incarnation == m.Incarnation && h.saved[i].Number >= m.Number:
			continue
		}
		next[i] = m
	}
	if len(next) == 0 {
		return nil
	}
	if err := write(h.cfg.Path, next); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, m := range next {
		if i >= len(h.saved) {
			h.saved = append(h.saved, make([]record, i+1-len(h.saved))...)
		}
		delete(h.at, h.saved[i].Author)
		h.saved[i], h.at[m.Author] = m, i
	}
	return nil
}

// vacant finds a place for a worker that has none: one that is free, or behind the last, or that of
// one who is not here any more; -1 if there is none.
func (h *File) vacant(next map[int]record, all []digest.Mark) int {
	here := func(m record) bool {
		return slices.ContainsFunc(all, func(t digest.Mark) bool { return t.Stream.Author == m.Author })
	}
	for i := range maxRecords {
		_, taken := next[i]
		if !taken && (i >= len(h.saved) || h.saved[i].Author == "") {
			return i
		}
	}
	for i := range maxRecords {
		if _, taken := next[i]; !taken && !here(h.saved[i]) {
			return i
		}
	}
	return -1
}

// write writes records where they belong, on disk when it returns.
func write(path string, records map[int]record) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	for i, m := range records {
		b, encErr := encode(m)
		if encErr == nil {
			_, encErr = f.WriteAt(b, int64(i)*recordBytes)
		}
		err = errors.Join(err, encErr)
	}
	return errors.Join(err, atomicfile.FlushData(f), f.Close())
}

var table = crc32.MakeTable(crc32.Castagnoli)

// encode makes a record: a checksum of the rest, the length of the mark, the mark, zeros. One
// flipped bit in a number would make an old journal of an honest one.
func encode(m record) ([]byte, error) {
	v, err := wire.Marshal(m)
	if err == nil && len(v) > recordBytes-6 {
		err = fmt.Errorf("the name of worker %.60s is too long to be remembered", m.Author)
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, recordBytes)
	binary.BigEndian.PutUint16(b[4:], uint16(len(v)))
	copy(b[6:], v)
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[4:], table))
	return b, nil
}

func decode(b []byte) (m record, err error) {
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n > recordBytes-6 || binary.BigEndian.Uint32(b) != crc32.Checksum(b[4:recordBytes], table) {
		return m, errors.New("not a record of what a worker said")
	}
	if err := wire.Unmarshal(b[6:6+n], &m); err != nil {
		return record{}, err
	}
	return m, nil
}
