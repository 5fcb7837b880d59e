package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/raft-wal/metadb"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/dispatch/ledger/quorum/raftlog"
)

// markedLog is a log with its mark, and what it would take to open a seat on it again.
type markedLog struct {
	dir     string
	log     *Log
	snaps   raft.SnapshotStore
	decided uint64
}

// promise is what the log of this folder is held against.
func (m *markedLog) promise() Promise {
	return Promise{
		File: filepath.Join(m.dir, "mark"), Self: mark.Mark{Server: "p/1", Generation: 1},
		Decided: func() uint64 { return m.decided },
	}
}

// openMarked opens the log in a folder as a seat does; the error is that of Check.
func openMarked(dir string, hurt func() error) (*markedLog, error) {
	m := &markedLog{dir: dir}
	raftDir := filepath.Join(dir, "raft-1")
	if err := os.MkdirAll(raftDir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if m.log, err = Open(Config{Dir: raftDir, Log: quiet, Hurt: hurt}); err != nil {
		return nil, err
	}
	kept, err := raft.NewFileSnapshotStoreWithLogger(raftDir, 2, raftlog.New(quiet))
	if err != nil {
		return nil, err
	}
	m.snaps = m.log.Marked(kept)
	return m, m.log.Check(m.promise(), m.snaps)
}

func entries(from, to, term uint64) (out []*raft.Log) {
	for i := from; i <= to; i++ {
		out = append(out, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: []byte("x")})
	}
	return out
}

func TestALogThatDoesWhatRaftDoesNeverFallsBehindItsMark(t *testing.T) {
	base, runs := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		if runs++; runs > 20 {
			return // each run writes to a real disk
		}
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := openMarked(dir, nil)
		if err == nil {
			err = m.log.SetUint64([]byte(keyTerm), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		last, term, floor := uint64(0), uint64(1), uint64(0) // floor: a snapshot has everything up to there
		store := func() *Log { return m.log }
		var newest mark.Mark
		t.Repeat(map[string]func(*rapid.T){
			"entries": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 5).Draw(t, "n")
				if err := store().StoreLogs(entries(last+1, last+n, term)); err != nil {
					t.Fatal(err)
				}
				last += n
				if got, _ := store().Acknowledged(); got.Index != last || got.Term != term {
					t.Fatalf("the mark is %+v when entry %d is acknowledged in term %d", got, last, term)
				}
			},
			"another leader": func(t *rapid.T) {
				term++
				if err := store().SetUint64([]byte(keyTerm), term); err != nil {
					t.Fatal(err)
				}
				if last == floor {
					return
				}
				from := rapid.Uint64Range(floor+1, last).Draw(t, "from") // it decided otherwise from here on
				if err := store().DeleteRange(from, last); err != nil {
					t.Fatal(err)
				}
				last = from - 1
			},
			"snapshot": func(t *rapid.T) {
				if last == floor {
					return
				}
				floor = rapid.Uint64Range(floor+1, last).Draw(t, "up to")
				takeSnapshot(t, m.snaps, floor)
				if err := store().DeleteRange(1, floor); err != nil {
					t.Fatal(err)
				}
			},
			"snapshot from the leader": func(t *rapid.T) {
				to := last + rapid.Uint64Range(1, 9).Draw(t, "ahead")
				takeSnapshot(t, m.snaps, to)
				if first, err := store().FirstIndex(); err != nil || first > 0 {
					if err := errors.Join(err, store().DeleteRange(first, last)); err != nil {
						t.Fatal(err)
					}
				}
				last, floor = to, to
			},
			"start": func(t *rapid.T) {
				if err := store().Close(); err != nil {
					t.Fatal(err)
				}
				if m, err = openMarked(dir, nil); err != nil {
					t.Fatalf("a log that lost nothing is not believed: %v", err)
				}
			},
			"a second passes": func(t *rapid.T) {
				if err := store().Note(); err != nil {
					t.Fatal(err)
				}
				if on, now := store().acked.file.Mark(), *store().acked.now.Load(); on != now {
					t.Fatalf("on disk is the mark %+v, and it is %+v", on, now)
				}
			},
			"kill": func(t *rapid.T) {
				killed, err := os.MkdirTemp(base, "")
				if err == nil {
					err = os.CopyFS(killed, os.DirFS(dir))
				}
				if err != nil {
					t.Fatal(err)
				}
				left, err := openMarked(killed, nil)
				if err != nil {
					t.Fatalf("a log whose writer was killed is not believed: %v", err)
				}
				if now, _ := left.log.Acknowledged(); now.Behind(newest) {
					t.Fatalf("a kill takes the mark from %+v, as others may have seen it, to %+v", newest, now)
				}
				if err := left.log.Close(); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				now, _ := store().Acknowledged()
				if now.Behind(newest) {
					t.Fatalf("the mark fell from %+v to %+v", newest, now)
				}
				newest = now
			},
		})
		if err := store().Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func persist(sink raft.SnapshotSink, b []byte) error {
	_, err := sink.Write(b)
	return errors.Join(err, sink.Close())
}

func takeSnapshot(t *rapid.T, snaps raft.SnapshotStore, index uint64) {
	_, trans := raft.NewInmemTransport("p/1")
	sink, err := snaps.Create(raft.SnapshotVersionMax, index, 1, raft.Configuration{}, 1, trans)
	if err == nil {
		err = persist(sink, []byte("state"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFolderThatLostSomethingIsToldByItsMark(t *testing.T) {
	copyOf := func(t *testing.T, path string) func() {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		lose       func(t *testing.T, dir string)
		held, left uint64
	}{
		"its last entries": {func(t *testing.T, dir string) {
			store, err := Open(Config{Dir: filepath.Join(dir, "raft-1"), Log: quiet})
			if err == nil {
				err = errors.Join(store.DeleteRange(8, 9), store.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 9, 7},
		"all its files": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "raft-1")); err != nil {
				t.Fatal(err)
			}
		}, 9, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m, err := openMarked(dir, nil)
			if err == nil {
				err = errors.Join(m.log.StoreLogs(entries(1, 5, 1)), m.log.StoreLogs(entries(6, 9, 1)), m.log.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			c.lose(t, dir)
			m, err = openMarked(dir, nil)
			if u := new(Unsound); !errors.As(err, &u) || u.Held != c.held || u.Left != c.left {
				t.Errorf("it is believed: %v", err)
			}
			_ = m.log.Close()
		})
	}
	t.Run("its newest term, in which it may have voted", func(t *testing.T) {
		dir := t.TempDir()
		m, err := openMarked(dir, nil)
		if err == nil {
			err = errors.Join(m.log.StoreLogs(entries(1, 5, 1)), m.log.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		back := copyOf(t, filepath.Join(dir, "raft-1", "wal-meta.db"))
		if m, err = openMarked(dir, nil); err == nil {
			err = errors.Join(m.log.SetUint64([]byte(keyTerm), 7), m.log.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		back()
		if m, err = openMarked(dir, nil); !errors.As(err, new(*Unsound)) {
			t.Errorf("it is believed: %v", err)
		}
		_ = m.log.Close()
	})
}

// What a seat, or a generation, before this one voted and held decided is not this one's.
func TestASeatBeginsWithAMarkOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	m, err := openMarked(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.log.Close() }()
	old := m.log.acked.self
	old.Generation--
	old.Term, old.Index, old.Voted, old.Decided = 9, 90, 9, 90
	if err := m.log.acked.file.Put(old); err != nil {
		t.Fatal(err)
	}
	if err := m.log.StoreLogs(entries(1, 3, 1)); err != nil {
		t.Fatal(err)
	}
	if now, _ := m.log.Acknowledged(); now.Voted >= 9 || now.Decided >= 90 || now.Index != 3 {
		t.Errorf("it begins with %+v", now)
	}
	if err := m.log.DeleteRange(2, 3); err != nil {
		t.Errorf("what was never decided in this generation is not taken back: %v", err)
	}
}

// The log holds what was acknowledged; the mark comes after it, and its disk may fail meanwhile.
func TestNoAppendWaitsForTheMark(t *testing.T) {
	fails := false
	hurt := func() error {
		if fails {
			return errors.New("no space left on device")
		}
		return nil
	}
	dir := t.TempDir()
	m, err := openMarked(dir, hurt)
	if err == nil {
		err = errors.Join(m.log.StoreLogs(entries(1, 3, 1)), m.log.Note(), m.log.StoreLogs(entries(4, 6, 1)))
	}
	if err != nil {
		t.Fatal(err)
	}
	now, _ := m.log.Acknowledged()
	if on := m.log.acked.file.Mark(); on.Index != 3 || now.Index != 6 {
		t.Errorf("an append brought the mark on disk to %d, and the one that is shown to %d", on.Index, now.Index)
	}
	fails = true
	if err := m.log.Note(); err == nil {
		t.Error("a mark that is not written is no error")
	}
	if err := m.log.DeleteRange(5, 6); err == nil {
		t.Error("entries are taken out while the mark says that they are there")
	}
	fails = false
	if err := errors.Join(m.log.DeleteRange(5, 6), m.log.Close()); err != nil {
		t.Fatal(err)
	}
	if m, err = openMarked(dir, nil); err != nil {
		t.Errorf("it is not believed: %v", err)
	}
	if now, _ := m.log.Acknowledged(); now.Index != 4 {
		t.Errorf("the mark is %+v", now)
	}
	_ = m.log.Close()
}

func TestAMarkThatIsGoneIsMissedWhereOthersVote(t *testing.T) {
	for name, c := range map[string]struct {
		others []raft.Server
		ok     bool
	}{
		"alone":        {nil, true},
		"with another": {[]raft.Server{{ID: "q/1", Address: "q/1"}}, false},
	} {
		dir := t.TempDir()
		m, err := openMarked(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		conf := raft.Configuration{Servers: append([]raft.Server{{ID: "p/1", Address: "p/1"}}, c.others...)}
		l := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(conf)}
		if err := errors.Join(m.log.StoreLog(l), m.log.Close(), os.Remove(m.promise().File)); err != nil {
			t.Fatal(err)
		}
		store, err := Open(m.log.cfg)
		if err != nil {
			t.Fatal(err)
		}
		p := m.promise()
		p.Marked = true
		err = store.Check(p, m.snaps)
		if (err == nil) != c.ok || err != nil && !errors.As(err, new(*Unsound)) {
			t.Errorf("%s: %v", name, err)
		}
		_ = store.Close()
	}
}

// quiet is a log nobody reads.
var quiet = slog.New(slog.DiscardHandler)

func TestWhatWasDecidedIsNotTakenBack(t *testing.T) {
	dir := t.TempDir()
	m, err := openMarked(dir, nil)
	if err == nil {
		err = m.log.StoreLogs(entries(1, 9, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	m.decided = 6
	if err := errors.Join(m.log.Note(), m.log.Close()); err != nil {
		t.Fatal(err)
	}
	if m, err = openMarked(dir, nil); err != nil { // raft does not know what was decided when it starts
		t.Fatal(err)
	}
	defer m.log.Close()
	if err := m.log.DeleteRange(6, 9); !errors.As(err, new(errTakenBack)) {
		t.Errorf("entry 6 was decided, and taken back: %v", err)
	}
	if err := m.log.DeleteRange(7, 9); err != nil {
		t.Errorf("entry 7 was not decided: %v", err)
	}
	if last, err := m.log.LastIndex(); last != 6 || err != nil {
		t.Errorf("the log ends at %d, %v", last, err)
	}
}

// A flipped bit in a bucket's name leaves a store of sound pages.
func TestALogWhoseSmallStoreLostABucketIsUnsound(t *testing.T) {
	for _, bucket := range []string{metadb.MetaBucket, metadb.StableBucket} {
		dir := t.TempDir()
		s, err := Open(Config{Dir: dir, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(filepath.Join(dir, metadb.FileName), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte(bucket)) })
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		var u *Unsound
		if _, err = Open(Config{Dir: dir, Log: quiet}); !errors.As(err, &u) || !strings.Contains(err.Error(), bucket) {
			t.Errorf("without %s: %v", bucket, err)
		}
	}
}
