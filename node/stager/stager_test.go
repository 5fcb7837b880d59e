package stager_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
	"github.com/coveyproject/covey/node/stager"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

func TestMain(m *testing.M) { os.Exit(long.InMemory(m)) }

// peer is one with a store and a stager.
type peer struct {
	*stager.Stager
	t     *testing.T
	name  string
	store *store.Store
	work  string // tasks' folders
	told  chan stager.Report

	mu   sync.Mutex
	over map[taskstate.JobID]bool
	left map[taskstate.JobID][]stager.Left
}

// network is peers that know each other, as long as they are here.
type network struct {
	net *memnet.Network
	all []string

	shelf func(peer string, s blob.Shelf) blob.Shelf // what others are given; nil: as it is

	mu   sync.Mutex
	away map[string]bool
}

func newNetwork(t *testing.T, all ...string) *network {
	n := &network{net: memnet.New(), all: all, away: map[string]bool{}}
	t.Cleanup(func() { _ = n.net.Close() })
	return n
}

func (n *network) set(peer string, away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away[peer] = away
}

func (n *network) others(self string) (out []stager.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.all {
		if x != self {
			out = append(out, stager.Member{ID: x, Name: x, Here: !n.away[x]})
		}
	}
	return out
}

// peer makes one. copies: its tasks have files of their own.
func (n *network) peer(t *testing.T, name string, quota int64, copies bool) *peer {
	t.Helper()
	return n.peerOn(t, name, store.Config{Quota: quota, Leave: -1}, copies)
}

func (n *network) peerOn(t *testing.T, name string, cfg store.Config, copies bool) *peer {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(filepath.Join(dir, "blobs"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, name: name, store: s, work: filepath.Join(dir, "tasks"), told: make(chan stager.Report, 100), over: map[taskstate.JobID]bool{}}
	host := n.net.Host(name)
	shelf := blob.Shelved(s)
	if n.shelf != nil {
		shelf = n.shelf(name, shelf)
	}
	srv := blob.Serve(host, shelf, blob.ServerConfig{})
	p.Stager, err = stager.New(stager.Config{
		Store: s, Dir: filepath.Join(dir, "inputs"), Net: host, Self: name, Copies: copies,
		Members: func() []stager.Member { return n.others(name) },
		Tell:    func(r stager.Report) { p.told <- r },
		Over: func(id taskstate.JobID) (bool, bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			over, known := p.over[id]
			return over, known
		},
		Left: func(id taskstate.JobID) ([]stager.Left, bool, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if left, ok := p.left[id]; ok {
				return left, len(left) > 1, nil
			}
			return nil, false, stager.ErrNotKnown
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, p.Close()); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return p
}

// put adds blobs to a store, and keeps them.
func (p *peer) put(blobs ...[]byte) (roots []piece.Root) {
	p.t.Helper()
	for _, b := range blobs {
		root, _, err := p.store.Add(p.t.Context(), bytes.NewReader(b), true)
		if err != nil {
			p.t.Fatal(err)
		}
		roots = append(roots, root)
	}
	if err := p.store.Pin(store.Pin{Name: "put-" + strings.TrimPrefix(roots[0].String(), "b3:"), Roots: roots}); err != nil {
		p.t.Fatal(err)
	}
	return roots
}

func noise(n int, seed uint64) []byte {
	b, r := make([]byte, n), rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

func jobOf(id taskstate.JobID, submitter string, inputs ...taskstate.Input) *taskstate.Job {
	return &taskstate.Job{ID: id, Name: string(id), Submitter: taskstate.PeerID(submitter), Inputs: inputs}
}

func file(name string, root piece.Root, size int) taskstate.Input {
	return taskstate.Input{Name: name, Ref: tree.Ref{Root: root}.String(), Bytes: int64(size), Files: 1}
}

// staged asks for the inputs of a job, and returns what it comes to.
func (p *peer) staged(job *taskstate.Job) stager.Report {
	p.t.Helper()
	p.Stage(job)
	return p.until(func(r stager.Report) bool { return r.Here || r.NoRoom })
}

func (p *peer) until(ok func(stager.Report) bool) stager.Report {
	p.t.Helper()
	patience := time.After(time.Minute)
	for {
		select {
		case r := <-p.told:
			if ok(r) {
				return r
			}
		case <-patience:
			p.t.Fatal("nothing is told")
		}
	}
}

// unsaid takes what a test does not look at.
func unsaid(string) {}

// task makes the folder of one, with what it finds there.
func (p *peer) task(job *taskstate.Job, slot int) string {
	p.t.Helper()
	l := taskstate.Launch{Task: taskstate.Task(job.ID, slot, 1), Job: job}
	folder, err := l.Task.Folder()
	if err != nil {
		p.t.Fatal(err)
	}
	work := filepath.Join(p.work, folder)
	if err := os.MkdirAll(work, 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := p.Place(p.t.Context(), l, work, unsaid); err != nil {
		p.t.Fatal(err)
	}
	return work
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Case 22, in small: all tasks of a peer have one file, which came once.
func TestWhatManyTasksReadComesOnceAndIsOnce(t *testing.T) {
	n := newNetwork(t, "giver", "taker")
	giver, taker := n.peer(t, "giver", 1<<30, false), n.peer(t, "taker", 1<<30, false)
	data := noise(3*piece.Size+5, 1)
	job := jobOf("aaaaaaaaaa", "giver", file("in/data", giver.put(data)[0], len(data)))
	if r := taker.staged(job); !r.Here {
		t.Fatalf("%+v", r)
	}
	n.set("giver", true) // nothing is asked for again
	var first fs.FileInfo
	for slot := range 20 {
		work := taker.task(job, slot+1)
		info, err := os.Stat(filepath.Join(work, "in/data"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = info
		}
		if !os.SameFile(first, info) || info.Mode().Perm() != 0o444 || info.Size() != int64(len(data)) {
			t.Fatalf("slot %d has %v", slot+1, info)
		}
	}
	if read(t, taker.work, "aaaaaaaaaa/1.1/in/data") != string(data) {
		t.Error("it is something else")
	}
	if r := taker.staged(jobOf("bbbbbbbbbb", "giver", file("other", giver.put(data)[0], len(data)))); !r.Here { // case 27
		t.Errorf("renamed, while nobody can be asked: %+v", r)
	}
}

// Case 35: what a task does to its input is its own affair.
func TestATaskThatWritesToItsInputSpoilsItForNobody(t *testing.T) {
	for what, copies := range map[string]bool{"it insists": false, "the superuser": true} {
		t.Run(what, func(t *testing.T) {
			n := newNetwork(t, "giver")
			p := n.peer(t, "giver", 1<<30, copies)
			job := jobOf("aaaaaaaaaa", "giver", file("data", p.put([]byte("right"))[0], 5))
			if r := p.staged(job); !r.Here {
				t.Fatalf("%+v", r)
			}
			spoil := filepath.Join(p.task(job, 1), "data")
			if err := os.Chmod(spoil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(spoil, []byte("wrong"), 0); err != nil {
				t.Fatal(err)
			}
			if got := read(t, p.task(job, 2), "data"); got != "right" {
				t.Errorf("the next task sees %q", got)
			}
			if got := read(t, spoil); got != "wrong" {
				t.Errorf("its own is %q", got)
			}
			r, err := p.store.Reader(piece.Sum([]byte("right")))
			if err != nil {
				t.Fatalf("what is kept: %v", err)
			}
			r.Close()
		})
	}
}

// What another job left comes into a folder for each of its tasks, or of the same slot alone.
func TestWhatAnotherJobLeftIsAnInput(t *testing.T) {
	n := newNetwork(t, "maker", "taker")
	maker, taker := n.peer(t, "maker", 1<<30, false), n.peer(t, "taker", 1<<30, false)
	left := make([]stager.Left, 2)
	for i, text := range []string{"one", "two"} {
		var list bytes.Buffer
		w := tree.NewWriter(&list)
		if err := w.Add(tree.Entry{Path: "part", Kind: tree.File, Size: 3, Root: piece.Sum([]byte(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Close(); err != nil {
			t.Fatal(err)
		}
		left[i] = stager.Left{Slot: i + 1, Ref: tree.Ref{Root: maker.put(list.Bytes(), []byte(text))[0], Dir: true}, Bytes: 3}
	}
	from := func(id taskstate.JobID, in taskstate.Input) *taskstate.Job {
		in.From = "zzzzzzzzzz"
		return jobOf(id, "maker", in)
	}
	all, same := from("aaaaaaaaaa", taskstate.Input{Name: "in"}), from("bbbbbbbbbb", taskstate.Input{Name: "in", SameSlot: true})
	taker.Stage(all) // before this peer knows that the other job is complete
	taker.mu.Lock()
	taker.left = map[taskstate.JobID][]stager.Left{"zzzzzzzzzz": left}
	taker.mu.Unlock()
	if r := taker.until(func(r stager.Report) bool { return r.Here }); r.Job != all.ID {
		t.Fatalf("%+v", r)
	}
	if r := taker.staged(same); !r.Here {
		t.Fatalf("%+v", r)
	}
	n.set("maker", true)
	work := taker.task(all, 1)
	if a, b := read(t, work, "in/1/part"), read(t, work, "in/2/part"); a+b != "onetwo" {
		t.Errorf("%q and %q", a, b)
	}
	for slot, want := range map[int]string{1: "one", 2: "two"} {
		work := taker.task(same, slot)
		if got := read(t, work, "in/part"); got != want {
			t.Errorf("slot %d has %q", slot, got)
		}
		if entries, _ := os.ReadDir(filepath.Join(work, "in")); len(entries) != 1 {
			t.Errorf("slot %d has %v", slot, entries)
		}
	}
	// A job of one task has no folder of its own.
	taker.mu.Lock()
	taker.left["zzzzzzzzzz"] = left[:1]
	taker.mu.Unlock()
	one := from("cccccccccc", taskstate.Input{Name: "."})
	if r := taker.staged(one); !r.Here || read(t, taker.task(one, 1), "part") != "one" {
		t.Errorf("%+v", r)
	}
}

func TestAWritableInputIsATasksOwn(t *testing.T) {
	n := newNetwork(t, "giver")
	p := n.peer(t, "giver", 1<<30, false)
	in := file("data", p.put([]byte("right"))[0], 5)
	in.Writable = true
	job := jobOf("aaaaaaaaaa", "giver", in)
	if r := p.staged(job); !r.Here {
		t.Fatalf("%+v", r)
	}
	one, two := p.task(job, 1), p.task(job, 2)
	if err := os.WriteFile(filepath.Join(one, "data"), []byte("mine"), 0); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(one, "data")); err != nil || info.Mode().Perm()&0o200 == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if got := read(t, two, "data"); got != "right" {
		t.Errorf("another task sees %q", got)
	}
}

func TestAFolderIsWhatItWasWithXBitsEmptyFoldersAndLinks(t *testing.T) {
	for what, copies := range map[string]bool{"linked": false, "copied": true} {
		t.Run(what, func(t *testing.T) {
			n := newNetwork(t, "giver", "taker")
			giver, taker := n.peer(t, "giver", 1<<30, copies), n.peer(t, "taker", 1<<30, copies)
			var list bytes.Buffer
			w := tree.NewWriter(&list)
			for _, e := range []tree.Entry{
				{Path: "empty", Kind: tree.Dir},
				{Path: "none", Kind: tree.File, Root: piece.Sum(nil)},
				{Path: "run", Kind: tree.File, Exec: true, Size: 2, Root: piece.Sum([]byte("hi"))},
				{Path: "sub", Kind: tree.Dir},
				{Path: "sub/hi", Kind: tree.File, Size: 2, Root: piece.Sum([]byte("hi"))},
				{Path: "sub/link", Kind: tree.Link, Target: "../run"},
			} {
				if err := w.Add(e); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Close(); err != nil {
				t.Fatal(err)
			}
			roots := giver.put(list.Bytes(), []byte("hi"), nil)
			for name, below := range map[string]string{".": "", "deep/er": "deep/er"} {
				job := jobOf(taskstate.JobID(map[string]string{".": "aaaaaaaaaa", "deep/er": "bbbbbbbbbb"}[name]), "giver",
					taskstate.Input{Name: name, Ref: tree.Ref{Root: roots[0], Dir: true}.String()})
				if r := taker.staged(job); !r.Here {
					t.Fatalf("%+v", r)
				}
				dir := filepath.Join(taker.task(job, 1), below)
				if read(t, dir, "sub/link") != "hi" || read(t, dir, "none") != "" {
					t.Error("it is not what it was")
				}
				if entries, err := os.ReadDir(filepath.Join(dir, "empty")); err != nil || len(entries) > 0 {
					t.Errorf("the empty folder: %v, %v", entries, err)
				}
				for path, mode := range map[string]fs.FileMode{"run": 0o555, "sub/hi": 0o444} {
					if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
						t.Errorf("%s: %v, %v", path, info, err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, "sub/new"), nil, 0o600); err != nil {
					t.Errorf("a task cannot write beside its inputs: %v", err)
				}
			}
		})
	}
}

// Case 13: where there is no room the tasks go elsewhere; the second time they wait for room.
func TestWhereThereIsNoRoomItIsSaidOnceAndThenWaitedFor(t *testing.T) {
	n := newNetwork(t, "giver", "taker")
	giver, taker := n.peer(t, "giver", 1<<30, false), n.peerOn(t, "taker", store.Config{Quota: 1 << 30, Leave: 1 << 60}, false) // its disk is full
	data := noise(3*piece.Size, 1)
	job := jobOf("aaaaaaaaaa", "giver", file("data", giver.put(data)[0], len(data)))
	if r := taker.staged(job); !r.NoRoom || !strings.Contains(r.Message, "no room on the disk") {
		t.Fatalf("%+v", r)
	}
	taker.Stage(job)
	if r := taker.until(func(r stager.Report) bool { return r.Message != "" }); r.NoRoom || r.Here || !strings.Contains(r.Message, "no room") {
		t.Errorf("the second time: %+v", r)
	}
}

// Case 20: where the only one who has it is away that is said, and it goes on when they are back.
func TestWhoAloneMayHaveAnInputIsSaidAndItGoesOnAtTheirReturn(t *testing.T) {
	n := newNetwork(t, "giver", "taker", "third")
	giver, taker := n.peer(t, "giver", 1<<30, false), n.peer(t, "taker", 1<<30, false)
	_ = n.peer(t, "third", 1<<30, false)
	job := jobOf("aaaaaaaaaa", "giver", file("scene", giver.put([]byte("x"))[0], 1))
	n.set("giver", true)
	taker.Stage(job)
	r := taker.until(func(r stager.Report) bool { return r.Message != "" })
	if !strings.Contains(r.Message, "scene") || !strings.Contains(r.Message, "giver, where they were given, is away") || strings.Contains(r.Message, "third") {
		t.Errorf("it says %q", r.Message)
	}
	n.set("giver", false)
	if r := taker.until(func(r stager.Report) bool { return r.Here || r.NoRoom }); !r.Here {
		t.Errorf("%+v", r)
	}
}

// Case 25, for inputs: what is staged stays whatever the quota is until its job is over, and goes
// then.
func TestInputsStayUntilTheirJobIsOverAndTheQuotaHoldsAfter(t *testing.T) {
	n := newNetwork(t, "giver", "taker")
	giver, taker := n.peer(t, "giver", 1<<30, false), n.peer(t, "taker", 4<<20, false)
	one, two := noise(3*piece.Size, 1), noise(3*piece.Size, 2)
	first := jobOf("aaaaaaaaaa", "giver", file("data", giver.put(one)[0], len(one)))
	second := jobOf("bbbbbbbbbb", "giver", file("data", giver.put(two)[0], len(two)))
	for job, data := range map[*taskstate.Job][]byte{first: one, second: two} {
		if r := taker.staged(job); !r.Here {
			t.Fatalf("%+v", r)
		}
		taker.store.Sweep()
		if got := read(t, taker.task(job, 1), "data"); got != string(data) {
			t.Error("it is something else")
		}
	}
	if u := taker.store.Usage(); u.Bytes < int64(len(one)+len(two)) {
		t.Fatalf("both jobs go on, and %+v", u)
	}
	taker.mu.Lock()
	taker.over[first.ID], taker.over[second.ID] = true, false
	taker.mu.Unlock()
	taker.Sweep()
	if u := taker.store.Usage(); u.Bytes > u.Quota || !taker.store.Have(piece.Sum(two)).Whole {
		t.Errorf("one is over, and %+v", u)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(taker.work), "inputs", strings.TrimPrefix(piece.Sum(one).String(), "b3:"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy its tasks shared: %v", err)
	}
}

func TestWhatIsInTheWayOfAnotherInputIsNamed(t *testing.T) {
	n := newNetwork(t, "giver")
	p := n.peer(t, "giver", 1<<30, false)
	a := p.put([]byte("a"))[0]
	b := p.put([]byte("b"))[0]
	job := jobOf("aaaaaaaaaa", "giver", file("same", a, 1), file("same", b, 1))
	if r := p.staged(job); !r.Here {
		t.Fatalf("%+v", r)
	}
	work := t.TempDir()
	if err := p.Place(t.Context(), taskstate.Launch{Job: job}, work, unsaid); err == nil || !strings.Contains(err.Error(), `"same" exists already`) {
		t.Errorf("it says %v", err)
	}
}

func TestAHostileTreeIsRefusedWithItsPath(t *testing.T) {
	n := newNetwork(t, "giver")
	p := n.peer(t, "giver", 1<<30, false)
	job := jobOf("aaaaaaaaaa", "giver", taskstate.Input{Name: ".", Ref: tree.Ref{Root: p.put([]byte("no tree at all"))[0], Dir: true}.String()})
	if r := p.staged(job); !r.Here { // a task says what is wrong with it
		t.Fatalf("%+v", r)
	}
	if err := p.Place(t.Context(), taskstate.Launch{Job: job}, t.TempDir(), unsaid); !errors.Is(err, tree.ErrRefused) {
		t.Errorf("it says %v", err)
	}
}

func TestWhatIsDamagedHereIsBroughtAgainBeforeATaskSeesIt(t *testing.T) {
	n := newNetwork(t, "giver", "taker")
	giver, taker := n.peer(t, "giver", 1<<30, true), n.peer(t, "taker", 1<<30, true)
	data := noise(2*piece.Size, 1)
	root := giver.put(data)[0]
	job := jobOf("aaaaaaaaaa", "giver", file("data", root, len(data)))
	if r := taker.staged(job); !r.Here {
		t.Fatalf("%+v", r)
	}
	hex := strings.TrimPrefix(root.String(), "b3:")
	path := filepath.Join(filepath.Dir(taker.work), "blobs", hex[:2], hex)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, noise(2*piece.Size, 2), 0); err != nil {
		t.Fatal(err)
	}
	if got := read(t, taker.task(job, 1), "data"); got != string(data) {
		t.Error("it is something else")
	}
}
