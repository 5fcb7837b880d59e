package node

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	marks "github.com/coveyproject/covey/dispatch/ledger/quorum/mark"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// A disk that fails, or an editor in the wrong place, leaves files empty, cut off or full of
// something else; one that rots flips a bit.
var tears = map[string]func([]byte) []byte{
	"empty":     func([]byte) []byte { return nil },
	"half":      func(b []byte) []byte { return b[:len(b)/2] },
	"short":     func(b []byte) []byte { return b[:max(0, len(b)-3)] },
	"garbage":   func(b []byte) []byte { return bytes.Repeat([]byte("garbage "), 1+len(b)/8)[:len(b)] },
	"flipped 1": func(b []byte) []byte { return flipped(b, 1) },
	"flipped 2": func(b []byte) []byte { return flipped(b, 2) },
	"flipped 3": func(b []byte) []byte { return flipped(b, 3) },
	"flipped 4": func(b []byte) []byte { return flipped(b, 4) },
}

// flipped turns a bit over in one of the bytes that say something, the n-th of five.
func flipped(b []byte, n int) []byte {
	var at []int
	for i, x := range b {
		if x != 0 {
			at = append(at, i)
		}
	}
	if len(at) > 0 {
		b[at[n*len(at)/5]] ^= 1 << n
	}
	return b
}

// tornFiles are all files a peer writes beside its tasks' folders and its log, and what a start
// says when one is torn: nil where it goes on without it and nothing is missing afterwards. Where
// it may go on and may not, it either does, or says this.
var tornFiles = map[string][]string{
	"book":                 nil, // where others were
	"port":                 nil,
	"heard":                nil, // how far the workers were
	"ledger/copy":          nil, // the log has it
	"tasks/.running":       nil, // whose processes might be left
	"tasks/.ends":          nil, // how those ended that nobody heard of
	"tasks/.boot":          nil, // then the machine may have been restarted
	"roster":               nil, // the ledger has it
	"held/hhhhhhhhhh.held": {"held/hhhhhhhhhh.held", "move the file away"},
	"identity.key":         {"identity.key", "restore it from a backup"},
	"seal.key":             {"seal.key", "remove it"},
	"incarnation":          {"incarnation", "damaged", "join again"},
	"worker.db":            {"worker.db", "damaged", "join again"},
	"ledger/memo":          nil, // the log says whose it is
	"ledger/marks":         nil, // the others have theirs
	"voter.mark":           nil, // the log has what was acknowledged
	"seats":                nil, // the log says who holds one
	"starts":               nil, // as in a folder's first start
	"name":                 nil, // a start that names the peer writes it anew
}

func TestATornFileIsNamedOrNotMissed(t *testing.T) {
	long.Test(t)
	l := alive(t, Config{Name: "one"})
	id := l.submit(shellJob("done", 2, "echo here"))
	l.outcome(id)
	// Behind the forwarder's back: it looks at what is held only when something happens.
	held := noopJob("held", 1, 0)
	held.ID = "hhhhhhhhhh"
	if err := l.held.Put(held, now()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.stop(), supervise.EndAll(TasksFolder(l.cfg.Data))); err != nil {
		t.Fatal(err)
	}
	heardMark(t, l.folder)
	for file, complaint := range tornFiles {
		for how, tear := range tears {
			t.Run(file+" "+how, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "data")
				if err := os.CopyFS(dir, os.DirFS(l.cfg.Data)); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, "identity.key"), 0o600); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(dir, filepath.FromSlash(file))
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, tear(b), 0o600); err != nil {
					t.Fatal(err)
				}
				back, err := tryAlive(t, Config{Data: dir, Name: "one"})
				if err != nil {
					for _, word := range complaint {
						if !strings.Contains(err.Error(), filepath.FromSlash(word)) {
							t.Errorf("it should say %q: %v", word, err)
						}
					}
					if complaint == nil {
						t.Error(err)
					}
					return
				}
				// Where it starts, all must be there: the file was cut where nothing was written.
				back.unharmed(id, held.ID)
			})
		}
	}
}

// heardMark writes what only a peer has that is not alone.
func heardMark(t *testing.T, f *folder) {
	t.Helper()
	var book marks.Book
	book.Add(marks.Signed{Mark: marks.Mark{Server: "somebody/1", Generation: 1, Index: 7}, Sig: []byte("signed")})
	b, err := book.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.path("ledger", "marks"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// unharmed wants everything that a peer knew before: its job, its held job, its members, and that
// it works.
func (l *living) unharmed(job string, held taskstate.JobID) {
	l.t.Helper()
	if row, _ := l.outcome(job); row.State != "complete" || row.Tasks["complete"] != 2 {
		l.t.Errorf("%+v", row)
	}
	if out := l.output(job, api.LogQuery{Slot: 1}); out != "here\n" {
		l.t.Errorf("output %q", out)
	}
	if row, _ := l.outcome(string(held)); row.State != "complete" {
		l.t.Errorf("the held job: %+v", row)
	}
	l.sees("one")
	if row, _ := l.outcome(l.submit(noopJob("next", 3, 0))); row.State != "complete" {
		l.t.Errorf("%+v", row)
	}
}

func TestADamagedRosterWithoutALedgerFoundsNothing(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	two := all[1]
	_ = two.stop()
	if err := os.RemoveAll(filepath.Join(two.cfg.Data, "ledger")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(two.cfg.Data, "roster"), []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time the damaged one is out of the way
		_, err := tryAlive(t, Config{Data: two.cfg.Data, Name: "two"})
		wants(t, err, api.Failed, "roster.damaged", "peer up --join")
	}
	ticket := all[0].ticket(api.TicketRequest{Expires: 600})
	back := alive(t, Config{Data: two.cfg.Data, Name: "two", Join: ticket.Ticket})
	back.sees("one", "two", "three")
}
