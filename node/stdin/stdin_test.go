package stdin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

const job = taskstate.JobID("k3v5q7x2ab")

var task = taskstate.Task(job, 1, 1)

// local is a network of one peer.
type local struct{}

func (local) Handle(string, func(string, net.Conn)) {}

// peers is a submitter and a way to ask it.
type peers struct {
	t      testing.TB
	spools *Spools
	server *Server
	may    func(peer string, q Request) error

	mu    sync.Mutex
	conns []net.Conn
	down  bool
}

func newPeers(t testing.TB) *peers {
	p := &peers{t: t, spools: Open(t.TempDir())}
	p.server = Serve(Config{Net: local{}, Spools: p.spools, May: func(_ context.Context, peer string, q Request) error {
		if p.may != nil {
			return p.may(peer, q)
		}
		return nil
	}})
	t.Cleanup(p.server.Close)
	return p
}

func (p *peers) dial(context.Context) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, errors.New("it is down")
	}
	a, b := net.Pipe()
	p.conns = append(p.conns, a)
	go p.server.Answer("worker", b)
	return a, nil
}

// cut breaks every stream.
func (p *peers) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns, p.down = nil, down
}

// reading is a task that reads.
type reading struct {
	got  bytes.Buffer
	ends int
	slow func()
}

func (r *reading) put(b []byte) error {
	if r.slow != nil {
		r.slow()
	}
	if len(b) == 0 {
		r.ends++
	}
	r.got.Write(b)
	return nil
}

func (p *peers) copy(r *reading, t taskstate.TaskID) error {
	return Asker{Dial: p.dial, Ready: func() {}, Put: r.put}.Copy(p.t.Context(), Request{Task: t, At: int64(r.got.Len())})
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// However the pieces fall and whenever streams break: the task reads every byte once, in order, and
// then one end.
func TestATaskReadsEveryByteOnceAndThenTheEnd(t *testing.T) {
	long.Cases(t, 15)
	rapid.Check(t, func(rt *rapid.T) {
		keep := rapid.Int64Range(1, 3*MaxPiece).Draw(rt, "keep")
		all := noise(rapid.IntRange(0, 6*MaxPiece).Draw(rt, "bytes"))
		pieces := rapid.SliceOfN(rapid.IntRange(1, 2*MaxPiece), 1, 8).Draw(rt, "pieces")
		breaks := rapid.SliceOfN(rapid.IntRange(0, 12), 0, 4).Draw(rt, "breaks")
		synctest.Test(t, func(t *testing.T) {
			p := newPeers(t)
			p.spools.keep = keep
			if err := p.spools.Expect(job); err != nil {
				rt.Fatal(err)
			}
			given := make(chan error, 1)
			go func() { given <- p.spools.Give(context.Background(), job, &inPieces{all: all, sizes: pieces}) }()
			r, puts := &reading{}, 0
			r.slow = func() {
				puts++
				for _, n := range breaks {
					if n == puts {
						p.cut(false)
					}
				}
			}
			if err := p.copy(r, task); err != nil {
				rt.Fatal(err)
			}
			if err := <-given; err != nil {
				rt.Fatal(err)
			}
			if !bytes.Equal(r.got.Bytes(), all) || r.ends != 1 {
				rt.Fatalf("%d bytes of %d, %d ends", r.got.Len(), len(all), r.ends)
			}
			p.server.Close()
		})
	})
}

// inPieces reads in pieces of these sizes, again and again.
type inPieces struct {
	all   []byte
	sizes []int
	n     int
}

func (r *inPieces) Read(b []byte) (int, error) {
	if len(r.all) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), r.sizes[r.n%len(r.sizes)])], r.all)
	r.all, r.n = r.all[n:], r.n+1
	return n, nil
}

func TestASmallStdinIsReadAgainByAnotherAttemptAlsoAfterARestart(t *testing.T) {
	p := newPeers(t)
	if err := p.spools.Expect(job); err != nil {
		t.Fatal(err)
	}
	if err := p.spools.Give(t.Context(), job, strings.NewReader("all of it")); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 3; attempt++ {
		if attempt == 3 {
			fresh := Open(p.spools.dir)
			p.spools.open, fresh.open = fresh.open, nil
		}
		r := &reading{}
		if err := p.copy(r, taskstate.Task(job, 1, attempt)); err != nil || r.got.String() != "all of it" || r.ends != 1 {
			t.Errorf("attempt %d: %q, %d ends, %v", attempt, r.got.String(), r.ends, err)
		}
	}
}

func TestOfALargeStdinAnotherAttemptIsToldThatItIsNotKept(t *testing.T) {
	p := newPeers(t)
	p.spools.keep = 1000
	if err := p.spools.Expect(job); err != nil {
		t.Fatal(err)
	}
	given := make(chan error, 1)
	go func() { given <- p.spools.Give(context.Background(), job, bytes.NewReader(noise(5000))) }()
	r := &reading{}
	if err := p.copy(r, task); err != nil || r.got.Len() != 5000 {
		t.Fatal(r.got.Len(), err)
	}
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	again := &reading{}
	err := p.copy(again, taskstate.Task(job, 1, 2))
	var told *Error
	if !errors.As(err, &told) || told.Code != CodeGone || again.got.Len() > 0 || again.ends > 0 {
		t.Errorf("%v; it read %d bytes", err, again.got.Len())
	}
}

// A task that takes nothing holds the command back: no more is read than is kept.
func TestACommandIsHeldBackByATaskThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		p.spools.keep = 1000
		if err := p.spools.Expect(job); err != nil {
			t.Fatal(err)
		}
		from := &counted{}
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() { given <- p.spools.Give(ctx, job, from) }()
		synctest.Wait()
		if from.n > 1000+MaxPiece {
			t.Errorf("%d bytes were read ahead", from.n)
		}
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// counted is without end.
type counted struct{ n int }

func (c *counted) Read(b []byte) (int, error) { c.n += len(b); return len(b), nil }

// Whatever ends a stdin but its own end is an error for the task.
func TestAStdinThatBreaksOffIsNoEnd(t *testing.T) {
	broken := map[string]func(p *peers){
		"the command was killed": func(p *peers) {
			_ = p.spools.Give(context.Background(), job, io.MultiReader(strings.NewReader("some"), &failing{io.ErrUnexpectedEOF}))
		},
		"the command never came": func(*peers) {},
		"the peer was restarted": func(p *peers) { p.spools.open = map[taskstate.JobID]*opened{} },
		"the job is over": func(p *peers) {
			p.spools.Forget(func(taskstate.JobID) bool { return true })
			if left, _ := os.ReadDir(filepath.Join(p.spools.dir, string(job))); len(left) > 0 {
				p.t.Errorf("what cannot be used stays: %v", left)
			}
		},
	}
	for name, does := range broken {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeers(t)
				if err := p.spools.Expect(job); err != nil {
					t.Fatal(err)
				}
				does(p)
				r := &reading{}
				err := p.copy(r, task)
				var told *Error
				if !errors.As(err, &told) || told.Code != CodeBroken && told.Code != CodeNone || r.ends > 0 {
					t.Errorf("%v, %d ends", err, r.ends)
				}
				p.server.Close()
			})
		})
	}
}

type failing struct{ error }

func (f *failing) Read([]byte) (int, error) { return 0, f.error }

func TestATaskWaitsAMinuteForAPeerThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		if err := p.spools.Expect(job); err != nil {
			t.Fatal(err)
		}
		pr, pw := io.Pipe()
		go func() { _ = p.spools.Give(context.Background(), job, pr) }()
		r, done := &reading{}, make(chan error, 1)
		go func() { done <- p.copy(r, task) }()
		_, _ = pw.Write([]byte("one"))
		synctest.Wait()
		p.cut(true)
		pauseFor(Patience / 2)
		p.cut(false)
		_, _ = pw.Write([]byte("two"))
		pauseFor(Patience)
		if r.got.String() != "onetwo" {
			t.Errorf("it read %q", r.got.String())
		}
		p.cut(true)
		err := <-done
		if err == nil || !strings.Contains(err.Error(), "could not be reached for 1m0s") || r.ends > 0 {
			t.Errorf("%v, %d ends", err, r.ends)
		}
		_ = pw.Close()
		p.server.Close()
	})
}

func TestWhoIsToldThatAPeerIsBusyAsksAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled := 0
		dial := func(context.Context) (net.Conn, error) {
			dialled++
			ask, answers := net.Pipe()
			go func() {
				defer answers.Close()
				out := wire.NewWriter(answers, maxAnswer)
				if dialled < 4 { // without reading what is asked
					_ = send(answers, out, answer{Error: &Error{Code: CodeBusy, Message: "busy"}})
					return
				}
				var q Request
				if err := wire.NewReader(answers, maxRequest).Read(&q); err != nil {
					t.Error(err)
				}
				_ = send(answers, out, answer{End: true})
			}()
			return ask, nil
		}
		begin := time.Now()
		a := Asker{Dial: dial, Ready: func() {}, Put: func([]byte) error { return nil }}
		if err := a.Copy(t.Context(), Request{}); err != nil || dialled != 4 {
			t.Errorf("dialled %d times: %v", dialled, err)
		}
		if d := time.Since(begin); d > 4*retryMost {
			t.Errorf("it took %v", d)
		}
	})
}

func TestASlowTaskKeepsItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		if err := p.spools.Expect(job); err != nil {
			t.Fatal(err)
		}
		go func() { _ = p.spools.Give(context.Background(), job, bytes.NewReader(noise(3*Window))) }()
		r := &reading{slow: func() { pauseFor(Patience) }}
		if err := p.copy(r, task); err != nil || r.got.Len() != 3*Window {
			t.Error(r.got.Len(), err)
		}
		if n := len(p.conns); n != 1 {
			t.Errorf("%d streams were opened", n)
		}
		p.server.Close()
	})
}

func TestAPeerThatDoesNotRunTheTaskGetsNothing(t *testing.T) {
	p := newPeers(t)
	p.may = func(string, Request) error { return &Error{Code: CodeNot, Message: "it is not yours"} }
	if err := p.spools.Expect(job); err != nil {
		t.Fatal(err)
	}
	if err := p.spools.Give(t.Context(), job, strings.NewReader("secret")); err != nil {
		t.Fatal(err)
	}
	r := &reading{}
	if err := p.copy(r, task); err == nil || err.Error() != "it is not yours" || r.got.Len() > 0 {
		t.Errorf("%v; it read %q", err, r.got.String())
	}
}

// A peer that runs the task may lie about how far it is, or send anything.
func TestAnAskerThatLiesIsHungUpOn(t *testing.T) {
	for name, say := range map[string]any{
		"more than it was sent": progress{At: 1000}, "less than before": progress{At: -1}, "something else": Request{Task: task, At: 3}, "noise": []byte("noise"),
	} {
		p := newPeers(t)
		if err := p.spools.Expect(job); err != nil {
			t.Fatal(err)
		}
		c, err := p.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out, in := wire.NewWriter(c, 0), wire.NewReader(c, 0)
		if err := out.Send(Request{Task: task}); err != nil {
			t.Fatal(err)
		}
		var first answer
		if err := in.Read(&first); err != nil {
			t.Fatal(err)
		}
		if err := out.Send(say); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil { // until it hangs up
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, q := range map[string]Request{"no task": {}, "a path": {Task: taskstate.Task("../../etc", 1, 1)}, "before the beginning": {Task: task, At: -1}} {
		p := newPeers(t)
		err := Asker{Dial: p.dial, Ready: func() {}, Put: (&reading{}).put}.Copy(t.Context(), q)
		var told *Error
		if !errors.As(err, &told) || told.Code != CodeBad {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASubmitterThatSendsWithoutEndIsHungUpOn(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		_, _ = io.CopyN(io.Discard, b, 4)
		out := wire.NewWriter(b, 0)
		go func() { _, _ = io.Copy(io.Discard, b) }()
		for out.Send(answer{Data: make([]byte, MaxPiece)}) == nil {
			continue
		}
	}()
	box := newInbox()
	go func() { _, _ = a.Write(make([]byte, 4)) }()
	box.fill(a)
	if box.err == nil || len(box.buf) > Window+MaxPiece {
		t.Errorf("%d bytes were taken, %v", len(box.buf), box.err)
	}
	_ = a.Close()
}

func TestAStdinIsGivenOnce(t *testing.T) {
	p := newPeers(t)
	if err := p.spools.Give(t.Context(), job, strings.NewReader("x")); err == nil {
		t.Error("nobody expects it")
	}
	if err := p.spools.Expect(job); err != nil {
		t.Fatal(err)
	}
	if err := p.spools.Give(t.Context(), job, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := p.spools.Give(t.Context(), job, strings.NewReader("y")); err == nil {
		t.Error("it was given twice")
	}
	if b, err := os.ReadFile(filepath.Join(p.spools.dir, string(job), wholeName)); string(b) != "x" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if err := p.spools.Expect("../x"); err == nil {
		t.Error("a path is a job")
	}
}

// What these frames look like is what peers of this version and of later ones agree on. A field
// that is added gets the next number: who does not know it refuses the frame, and says so.
func TestFramesLookAsTheyDid(t *testing.T) {
	var b bytes.Buffer
	for _, v := range []any{
		Request{Task: task, Index: 7, At: 1 << 20},
		Request{Task: task},
		answer{},
		answer{Data: []byte("data")},
		answer{End: true},
		answer{Error: &Error{Code: CodeGone, Message: "gone"}},
		progress{At: 1 << 20},
	} {
		raw, err := wire.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%T %x\n", v, raw)
	}
	if err := golden.Check("testdata/frames.golden", b.String()); err != nil {
		t.Error(err)
	}
}

func FuzzAFrameNeverPanics(f *testing.F) {
	for _, v := range []any{Request{Task: task, Index: 7, At: 9}, answer{Data: []byte("x")}, answer{End: true}, progress{At: 4}} {
		b, _ := wire.Marshal(v)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Request
		if wire.Unmarshal(b, &q) == nil && q.check() == nil {
			if _, err := q.Task.Folder(); err != nil {
				t.Error("a request for what cannot be passed")
			}
		}
		var a answer
		if wire.Unmarshal(b, &a) == nil && a.check() == nil && len(a.Data) > 0 && (a.End || a.Error != nil) {
			t.Error("data and an end in one passed")
		}
		var p progress
		_ = wire.Unmarshal(b, &p)
	})
}
