package care_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// peer is the store of one, and what looks after it.
type peer struct {
	*care.Care
	id    string
	store *store.Store
	dir   string
}

// cluster is some peers in memory; in a bubble.
type cluster struct {
	t     *testing.T
	net   *memnet.Network
	rep   *ledger.Replica
	peers map[string]*peer
	away  map[string]time.Time
	held  atomic.Pointer[taskstate.Job] // one that nobody has accepted yet
}

func newCluster(t *testing.T, names ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, net: memnet.New(), rep: ledger.NewReplica(), peers: map[string]*peer{}, away: map[string]time.Time{}}
	t.Cleanup(func() { _ = c.net.Close() })
	for _, name := range names {
		dir := t.TempDir()
		s, err := store.Open(dir, store.Config{Quota: 1 << 30, Leave: -1})
		if err != nil {
			t.Fatal(err)
		}
		host := c.net.Host(name)
		srv := blob.Serve(host, blob.Shelved(s), blob.ServerConfig{})
		t.Cleanup(srv.Close)
		p := &peer{id: name, store: s, dir: dir}
		p.Care = care.New(care.Config{
			Self: name, Store: s, Net: host, Held: func() []*taskstate.Job {
				if j := c.held.Load(); j != nil && j.Submitter == name {
					return []*taskstate.Job{j}
				}
				return nil
			}, Replica: c.rep, Current: func() bool { return true }, Now: time.Now,
			Peers: func() map[taskstate.PeerID]care.Peer {
				all := map[taskstate.PeerID]care.Peer{}
				for _, id := range names {
					since, away := c.away[id]
					all[id] = care.Peer{Here: !away, Since: since}
				}
				return all
			},
		})
		c.peers[name] = p
	}
	return c
}

// leave has a peer's task leave files, whose names are kept.
func (p *peer) leave(t *testing.T, files map[string]string, order ...string) piece.Root {
	t.Helper()
	var list bytes.Buffer
	w := tree.NewWriter(&list)
	b := p.store.Batch(true)
	defer b.Close()
	add := func(content string) piece.Root {
		root, _, err := b.Add(t.Context(), strings.NewReader(content), -1)
		if err != nil {
			t.Fatal(err)
		}
		return root
	}
	var roots []piece.Root
	for _, name := range order {
		root := add(files[name])
		roots = append(roots, root)
		if err := w.Add(tree.Entry{Path: name, Kind: tree.File, Size: int64(len(files[name])), Root: root}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	root := add(list.String())
	if err := b.Done(); err != nil {
		t.Fatal(err)
	}
	if err := p.store.Pin(store.Pin{Name: "mine", Roots: append(roots, root)}); err != nil {
		t.Fatal(err)
	}
	return root
}

// Case 34.
func TestTheOutputOfATaskIsReadFromWhoeverKeepsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		long := strings.Repeat("a line of it\n", 300_000)
		s := &taskstate.Saved{Logs: c.peers["a"].leave(t, map[string]string{"stdout": long, "stderr": "e\n"}, "stderr", "stdout")}
		read := func(from *peer, req tasklog.Request) (string, error) {
			var got strings.Builder
			err := from.Logs(t.Context(), s, 0, req, func(c tasklog.Chunk) error {
				got.Write(c.Data)
				return nil
			})
			return got.String(), err
		}
		task := taskstate.Task("job", 1, 1)
		for _, name := range []string{"a", "b"} {
			if got, err := read(c.peers[name], tasklog.AllOutput(task, true)); err != nil || got != long+"e\n" {
				t.Errorf("%s reads %d bytes, %v", name, len(got), err)
			}
			req := tasklog.Request{Task: task, Parts: []tasklog.Part{{Stream: tasklog.Stdout, Offset: int64(len(long)) - 3}}}
			if got, err := read(c.peers[name], req); err != nil || got != "it\n" {
				t.Errorf("%s reads %q, %v", name, got, err)
			}
		}

		// What is damaged while it is read comes from the other one.
		hex := strings.TrimPrefix(piece.Sum([]byte(long)).String(), "b3:")
		flip(t, filepath.Join(c.peers["b"].dir, hex[:2], hex), 2<<20)
		if got, err := read(c.peers["b"], tasklog.AllOutput(task, false)); err != nil || got != long+"e\n" {
			t.Errorf("of a damaged copy %d bytes are read, %v", len(got), err)
		}
		c.away["b"] = time.Now()
		flip(t, filepath.Join(c.peers["a"].dir, hex[:2], hex), 0)
		if got, err := read(c.peers["a"], tasklog.AllOutput(task, false)); err == nil {
			t.Errorf("of the only copy, which is damaged, %d bytes are read", len(got))
		}
	})
}

func TestWhatAJobNeedsStaysHereUntilSomebodyAcceptsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		a := c.peers["a"]
		root := piece.Sum([]byte("needed"))
		b := a.store.Batch(true)
		if _, _, err := b.Add(t.Context(), strings.NewReader("needed"), -1); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Done(), a.store.Pin(store.Pin{Name: "put", Roots: []piece.Root{root}, Until: time.Now().Add(time.Hour)})); err != nil {
			t.Fatal(err)
		}
		b.Close()
		c.held.Store(&taskstate.Job{ID: "k3v5q7x2ab", Submitter: "a", Inputs: []taskstate.Input{{Ref: tree.Ref{Root: root}.String(), Name: "n"}}})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		pins := func() (out int) { return len(a.store.Pins()) }
		time.Sleep(48 * time.Hour)
		a.store.Sweep()
		if got := a.store.Have(root); got.Pieces == nil || pins() != 1 {
			t.Fatalf("after two days %+v is here, in %d pins", got, pins())
		}
		c.held.Store(nil) // it was taken back
		time.Sleep(time.Hour)
		if pins() != 0 {
			t.Error("it stays for ever")
		}
		end()
		<-ended
	})
}

func TestAPeerThatLostItsDiskBringsWhatManyJobsLeftTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 60
		c := newCluster(t, "a", "b")
		n := uint64(0)
		do := func(cmd ledger.Command) {
			t.Helper()
			n++
			for _, r := range c.rep.Apply(ledger.Entry{Index: n, Epoch: taskstate.At(1, 1), Stamp: int64(n), By: "a", Commands: []ledger.Command{cmd}}) {
				if r.Refused != ledger.CodeNone {
					t.Fatalf("%+v is refused: %s", cmd, r.Refused)
				}
			}
		}
		member := admission.Entry{Cluster: "simsimsimsimsims", Peer: "a", Name: "a", Roles: admission.AllRoles(), By: "a"}
		do(ledger.Command{Found: &ledger.Found{Cluster: member.Cluster, Generation: 1, Founder: member}})
		do(ledger.Command{Register: &ledger.Register{Peer: "a", Incarnation: "a1"}})
		for i := range jobs {
			id := taskstate.JobID(fmt.Sprint("job", i))
			do(ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{
				ID: id, Name: string(id), Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}, Outputs: &taskstate.Outputs{Globs: []string{"out"}},
			}}})
			do(ledger.Command{Assign: &ledger.Assign{Job: id, Peer: "a", Incarnation: "a1", Slots: []ledger.Slots{{First: 1, N: 1, Attempt: 1}}}})
			root := c.peers["a"].leave(t, map[string]string{"out": string(id)}, "out")
			saved := &taskstate.Saved{Root: root, Files: 1, Bytes: int64(len(id)), Keepers: []taskstate.PeerID{"a", "b"}, Keep: 2}
			st := taskstate.Status{Task: taskstate.Task(id, 1, 1), Seq: 3, State: taskstate.Complete, Saved: saved}
			do(ledger.Command{Settle: &ledger.Settle{Peer: "a", Incarnation: "a1", Statuses: []taskstate.Status{st}}})
		}
		b := c.peers["b"]
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		time.Sleep(time.Second)
		if pins := len(b.store.Pins()); pins != jobs {
			t.Errorf("of %d things %d are back after a second", jobs, pins)
		}
		end()
		<-ended
	})
}

// flip turns a bit of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}
