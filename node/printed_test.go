package node

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/logreplica"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/taskstate"
)

// hasCopies waits until a peer has copies of what so many tasks of a job printed.
func (l *living) hasCopies(id string, n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%s has copies of the output of %d tasks", l.name, n), func() (bool, string) {
		found, err := filepath.Glob(filepath.Join(l.files.copies.Dir, id, "*.*"))
		return err == nil && len(found) == n, fmt.Sprint(found, err)
	})
}

func printing(name, on, line string, count int) taskstate.Job {
	j := shellJob(name, count, line)
	j.Constraints = []string{"peer.name == " + on}
	return j
}

// The machine that ran the tasks leaves, then the one that submitted the job: what they printed is
// there, large and small, and of tasks that printed nothing it is known that they did not.
func TestWhatTasksPrintedOutlivesTheirPeerAndThenItsSecondKeeper(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, two, three := all[0], all[1], all[2]
	line := `case $COVEY_SLOT in 1) ;; 2) echo bad >&2; exit 3;; 3) head -c 300000 /dev/zero | tr '\0' x;; *) echo four;; esac`
	id := one.submit(printing("words", "three", line, 4))
	one.outcome(id)
	one.hasCopies(id, 3) // the first one printed nothing
	if err := three.Leave(timed(t)); err != nil {
		t.Fatal(err)
	}
	one.hasCopies(id, 4)
	want := strings.Repeat("x", 300_000)
	read := func(l *living) {
		t.Helper()
		text, wrong := l.said(id)
		if wrong != nil || len(text) != len("bad\nfour\n")+len(want) || !strings.Contains(text, want) || !strings.Contains(text, "bad\n") || !strings.Contains(text, "four\n") {
			t.Errorf("%s is told %d bytes, %v", l.name, len(text), wrong)
		}
	}
	read(two)
	two.hasCopies(id, 3) // there are two again
	if err := one.Leave(timed(t)); err != nil {
		t.Fatal(err)
	}
	read(two)
}

// A peer that is killed takes nothing along that was copied. When it is back it offers what it has,
// and sends nothing.
func TestOutputIsReadElsewhereWhileItsPeerIsAway(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	one, three := all[0], all[2]
	id := one.submit(printing("away", "three", "echo here", 2))
	one.outcome(id)
	one.hasCopies(id, 2)
	three.crash()
	if text, wrong := all[1].said(id); wrong != nil || text != "here\nhere\n" {
		t.Errorf("it is told %q, %v", text, wrong)
	}
	back := three.back()
	eventually(t, "nothing is kept once", func() (bool, string) {
		s, err := back.files.printed.Sole(timed(t), "", false)
		return err == nil && !s.Unsure && len(s.Jobs) == 0, fmt.Sprintf("%+v, %v", s, err)
	})
	all[1].hasCopies(id, 0)
}

// The submitter has run its tasks itself: another peer that may read keeps the copies. Where none
// may, people are told, and the peer neither is empty nor leaves.
func TestOutputThatNoOtherPeerMayReadIsKeptOnceAndThatIsSaid(t *testing.T) {
	t.Parallel()
	one := clusterOf(t, "one")[0]
	guest := alive(t, Config{Name: "guest", Join: one.ticket(api.TicketRequest{Expires: 600, Roles: []string{"worker", "submit"}}).Ticket})
	guest.sees("one", "guest")
	id := one.submit(printing("alone", "one", "echo "+covert, 2))
	one.outcome(id)
	row, err := one.Job(timed(t), id)
	if err != nil || len(row.Job.Sole) != 1 || row.Job.Sole[0].Tasks != 2 || row.Job.Sole[0].PeerName != "one" || !strings.Contains(row.Job.Sole[0].Why, "may read") {
		t.Fatalf("%+v, %v", row.Job.Sole, err)
	}
	wants(t, one.Leave(timed(t)), api.Conflict, id, "did not leave", "2 tasks")
	if _, err := one.SetAvailability(timed(t), "one", api.Availability{Availability: api.Drained}); err != nil {
		t.Fatal(err)
	}
	var last api.Draining
	err = one.Draining(timed(t), "one", func(d api.Draining) error { last = d; return nil })
	wants(t, err, api.Conflict, id, "--drop-output")
	if last.Sole != 2 || len(last.Jobs) != 1 {
		t.Errorf("%+v", last)
	}
	all := alive(t, Config{Name: "late", Join: one.ticket(api.TicketRequest{Expires: 600}).Ticket})
	all.hasCopies(id, 2)
	if err := one.Draining(timed(t), "one", func(api.Draining) error { return nil }); err != nil {
		t.Error(err)
	}
}

// A job that wants one copy has one.
func TestAJobThatSaysSoHasOneCopy(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	once := printing("once", "two", "echo once", 1)
	once.KeepLogs = 1
	id, twice := all[0].submit(once), all[0].submit(printing("twice", "two", "echo twice", 1))
	all[0].outcome(id)
	all[0].outcome(twice)
	all[0].hasCopies(twice, 1)
	all[0].hasCopies(id, 0)
}

// tap remembers what came over some streams.
type tap struct {
	mu   sync.Mutex
	came []byte
}

func (p *tap) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.came)
}

type tapped struct {
	net.Conn
	tap *tap
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.tap.mu.Lock()
	defer c.tap.mu.Unlock()
	c.tap.came = append(c.tap.came, b[:n]...)
	return n, err
}

// What tasks print is secret: a guest that runs tasks and hands in its own gets no byte of another
// peer's, on disk or by asking for it, nor is any in what all peers are told: batches, entries and
// snapshots. It cannot plant output either.
func TestAGuestGetsNoByteOfWhatOthersTasksPrint(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one, two := all[0], all[1]
	guest := alive(t, Config{Name: "guest", Join: one.ticket(api.TicketRequest{Expires: 600, Roles: []string{"worker", "submit"}}).Ticket})
	guest.sees("one", "two", "guest")
	srv := guest.files.serveKeeping()
	t.Cleanup(srv.Close)
	var wire tap
	guest.host.Handle(keep.Protocol, func(peer string, c net.Conn) { srv.Answer(peer, &tapped{c, &wire}) })
	printed := "p" + covert + "-printed"
	id := one.submit(printing("secret", "two", "echo p"+strings.Replace(covert, "-", "''-", 1)+"-printed; exit 1", 3))
	one.outcome(id)
	one.hasCopies(id, 3)
	two.trusts(t, guest.self)
	own := guest.submit(printing("own", "two", "echo "+ownWord, 1)) // the way is open: its own comes to it
	guest.outcome(own)
	guest.hasCopies(own, 1)
	if got := wire.text(); strings.Contains(got, printed) || !strings.Contains(got, ownWord) {
		t.Errorf("others send it %q", got)
	}

	for _, l := range all {
		for slot := range 3 {
			req := tasklog.AllOutput(taskstate.Task(taskstate.JobID(id), slot+1, 1), false)
			err := tasklog.Fetch(timed(t), guest.host, l.self, req, func(c tasklog.Chunk) error {
				return fmt.Errorf("%q came", c.Data)
			})
			if !tasklog.Refused(err) {
				t.Errorf("%s tells the guest %v", l.name, err)
			}
		}
	}
	task := taskstate.Task(taskstate.JobID(id), 1, 1)
	text := []byte("planted")
	b := keep.Batch{Job: task.Job, Tasks: []keep.Printed{{Slot: 1, Attempt: 1, Out: int64(len(text)), Stdout: text}}}
	lacks, err := keep.Send(timed(t), guest.host, one.self, b, nil)
	var no *keep.Refused
	if !errors.As(err, &no) {
		t.Errorf("the guest's words are answered %v, %v", lacks, err)
	}
	if got := one.output(id, api.LogQuery{Slot: 1}); !strings.Contains(got, printed) {
		t.Errorf("it reads %q", got)
	}
	one.replica.Read(func(s *ledger.State) {
		if j, _ := s.Job(task.Job); j.Slot(1).Final.Saved != nil {
			t.Error("the ledger names what it printed")
		}
	})

	for _, l := range []*living{one, two, guest} {
		if err := l.stop(); err != nil { // what it has in memory goes to disk
			t.Fatal(err)
		}
		err := filepath.WalkDir(l.cfg.Data, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			mine := l != guest && (strings.Contains(path, "/tasks/") || strings.Contains(path, "/"+logreplica.Folder+"/"))
			if bytes.Contains(text, []byte(printed)) && !mine {
				t.Errorf("%s of %s has it", path, l.name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
