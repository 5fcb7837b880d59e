package tasklog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

var task = taskstate.Task("k3v5q7x2ab", 1, 1)

// owner is a peer's tasks folder with one task in it that writes when it is told to.
type owner struct {
	t     testing.TB
	dir   string
	store *Store
	over  chan struct{} // nil: the task is not running
}

func newOwner(t testing.TB, limit int64, running bool) *owner {
	t.Helper()
	o := &owner{t: t, dir: t.TempDir()}
	if running {
		o.over = make(chan struct{})
	}
	o.store = NewStore(Config{Dir: o.dir, Live: func(id taskstate.TaskID) (<-chan struct{}, int64, bool) {
		if id != task || o.over == nil {
			return nil, 0, false
		}
		select {
		case <-o.over:
			return nil, 0, false
		default:
			return o.over, limit, true
		}
	}})
	return o
}

func (o *owner) write(stream, data string) {
	o.t.Helper()
	rel, err := task.Folder()
	if err != nil {
		o.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(o.dir, rel), 0o700); err != nil {
		o.t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(o.dir, rel, stream), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		o.t.Fatal(err)
	}
	if _, err := f.WriteString(data); err != nil {
		o.t.Fatal(err)
	}
	_ = f.Close()
}

// got gathers chunks.
type got struct {
	mu   sync.Mutex
	data map[string]string
	eof  map[string]int
}

func (g *got) chunk(c Chunk) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.data == nil {
		g.data, g.eof = make(map[string]string), make(map[string]int)
	}
	if len(c.Data) > MaxChunk || g.eof[c.Stream] > 0 {
		return errors.New("a chunk too large, or after the end")
	}
	g.data[c.Stream] += string(c.Data)
	if c.EOF {
		g.eof[c.Stream]++
	}
	return nil
}

func (g *got) of(stream string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.data[stream]
}

func TestTheOutputOfAnEndedTaskIsReadWhole(t *testing.T) {
	o := newOwner(t, 0, false)
	long := strings.Repeat("0123456789\n", 30_000)
	o.write(Stdout, long)
	o.write(Stderr, "oops\n")
	var g got
	if err := o.store.Copy(t.Context(), AllOutput(task, true), g.chunk); err != nil {
		t.Fatal(err)
	}
	if g.of(Stdout) != long || g.of(Stderr) != "oops\n" || g.eof[Stdout] != 1 || g.eof[Stderr] != 1 {
		t.Fatalf("%d bytes, %q, ends %v", len(g.of(Stdout)), g.of(Stderr), g.eof)
	}
}

func TestATaskThatIsNotHereIsNotFound(t *testing.T) {
	o := newOwner(t, 0, false)
	if err := o.store.Copy(t.Context(), AllOutput(task, true), nil); !NotFound(err) {
		t.Fatalf("err = %v", err)
	}
	if _, err := o.store.Open(task, Stdout, 0, false); !NotFound(err) {
		t.Fatalf("err = %v", err)
	}
}

func TestOffsetAndTailBeginWhereTheySay(t *testing.T) {
	o := newOwner(t, 0, false)
	lines := strings.Repeat(strings.Repeat("x", 999)+"\n", 200)
	o.write(Stdout, lines+"one\ntwo\nthree")
	size := len(lines)
	cases := []struct {
		name string
		req  Request
		want string
	}{
		{"offset", Request{Parts: []Part{{Stream: Stdout, Offset: int64(size) + 4}}}, "two\nthree"},
		{"offset beyond the end", Request{Parts: []Part{{Stream: Stdout, Offset: 1 << 40}}}, ""},
		{"last line", Request{Parts: []Part{{Stream: Stdout}}, Tail: 1}, "three"},
		{"last lines", Request{Parts: []Part{{Stream: Stdout}}, Tail: 3}, "one\ntwo\nthree"},
		{"all lines and more", Request{Parts: []Part{{Stream: Stdout}}, Tail: 10_000}, lines + "one\ntwo\nthree"},
		{"many lines, over several blocks", Request{Parts: []Part{{Stream: Stdout}}, Tail: 153}, lines[size-150_000:] + "one\ntwo\nthree"},
		{"the later of both", Request{Parts: []Part{{Stream: Stdout, Offset: int64(size) + 8}}, Tail: 3}, "three"},
	}
	for _, c := range cases {
		c.req.Task = task
		var g got
		if err := o.store.Copy(t.Context(), c.req, g.chunk); err != nil || g.of(Stdout) != c.want {
			t.Errorf("%s: %d bytes, want %d; %v", c.name, len(g.of(Stdout)), len(c.want), err)
		}
	}
}

func TestTailIsTheLastLinesOfAnyText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`([ab]{0,3}\n){0,6}[ab]{0,2}`).Draw(rt, "text")
		n := rapid.IntRange(1, 8).Draw(rt, "lines")
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if _, err := f.WriteString(text); err != nil {
			rt.Fatal(err)
		}
		at, err := tailOffset(f, n, 1<<40)
		if err != nil {
			rt.Fatal(err)
		}
		lines := strings.SplitAfter(text, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if want := strings.Join(lines[max(0, len(lines)-n):], ""); text[at:] != want {
			rt.Fatalf("tail %d of %q = %q, want %q", n, text, text[at:], want)
		}
	})
}

func TestWhatIsBeyondTheCapIsNotShownWhileTheTaskRuns(t *testing.T) {
	o := newOwner(t, 10, true)
	o.write(Stdout, "0123456789 this will be cut")
	req := Request{Task: task, Parts: []Part{{Stream: Stdout}}}
	var g got
	if err := o.store.Copy(t.Context(), req, g.chunk); err != nil || g.of(Stdout) != "0123456789" {
		t.Fatalf("%q, %v", g.of(Stdout), err)
	}
	close(o.over)
	var after got
	if err := o.store.Copy(t.Context(), req, after.chunk); err != nil || after.of(Stdout) != "0123456789 this will be cut" {
		t.Fatalf("%q, %v", after.of(Stdout), err)
	}
}

func TestAReaderFollowsUntilTheTaskIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t, 0, true)
		r, err := o.store.Open(task, Stdout, 2, true) // nothing is there yet
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		go func() {
			o.write(Stdout, "hello")
			time.Sleep(time.Minute)
			o.write(Stdout, ", world")
			close(o.over)
		}()
		if b, err := io.ReadAll(r); err != nil || string(b) != "llo, world" {
			t.Fatalf("%q, %v", b, err)
		}
	})
}

// The runner may begin a task just while a reader looks for it.
func TestAReaderFollowsATaskThatBeginsWhileItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t, 0, false)
		begun := false
		live := o.store.live
		o.store.live = func(id taskstate.TaskID) (over <-chan struct{}, limit int64, running bool) {
			over, limit, running = live(id)
			if !begun {
				begun, o.over = true, make(chan struct{})
				o.write(Stdout, "")
			}
			return over, limit, running
		}
		r, err := o.store.Open(task, Stdout, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		go func() {
			time.Sleep(time.Minute)
			o.write(Stdout, "hello")
			close(o.over)
		}()
		if b, err := io.ReadAll(r); err != nil || string(b) != "hello" {
			t.Fatalf("%q, %v", b, err)
		}
	})
}

// givenAway is what the runner does with the folder of a task that left nothing: it becomes
// another's, and an empty file takes its place.
func (o *owner) givenAway() (other string) {
	o.t.Helper()
	rel, _ := task.Folder()
	home := filepath.Join(o.dir, rel)
	other = home + "x"
	if err := errors.Join(os.Rename(home, other), os.WriteFile(home, nil, 0o400)); err != nil {
		o.t.Fatal(err)
	}
	return other
}

func TestATaskThatLeftNothingHasEmptyOutput(t *testing.T) {
	o := newOwner(t, 0, false)
	o.write(Stdout, "")
	o.givenAway()
	var g got
	if err := o.store.Copy(t.Context(), AllOutput(task, true), g.chunk); err != nil {
		t.Fatal(err)
	}
	if g.of(Stdout) != "" || g.of(Stderr) != "" || g.eof[Stdout] != 1 || g.eof[Stderr] != 1 {
		t.Fatalf("%q, %q, ends %v", g.of(Stdout), g.of(Stderr), g.eof)
	}
}

func TestWhatALaterTaskWritesIntoAFileIsNotShownAsTheEarlierOnes(t *testing.T) {
	for _, tail := range []int{0, 1} {
		o := newOwner(t, 0, true)
		o.write(Stdout, "")
		c, err := o.store.begin(Request{Task: task, Parts: []Part{{Stream: Stdout}}, Follow: true, Tail: tail})
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		if n, end, err := c.read(c.parts[0], buf); n != 0 || end || err != nil { // now it has the file open
			t.Fatal(n, end, err)
		}
		close(o.over)
		if err := os.WriteFile(filepath.Join(o.givenAway(), Stdout), []byte("another's"), 0o600); err != nil {
			t.Fatal(err)
		}
		if n, end, err := c.read(c.parts[0], buf); n != 0 || !end || err != nil {
			t.Errorf("tail %d: %q, %v, %v", tail, buf[:n], end, err)
		}
		_ = c.close()
	}
}

func TestOutputThatIsRemovedWhileItIsReadIsReadToItsEnd(t *testing.T) {
	o := newOwner(t, 0, false)
	long := strings.Repeat("0123456789\n", 30_000)
	o.write(Stdout, long)
	var g got
	err := o.store.Copy(t.Context(), Request{Task: task, Parts: []Part{{Stream: Stdout}}}, func(c Chunk) error {
		return errors.Join(g.chunk(c), os.RemoveAll(o.dir))
	})
	if err != nil || g.of(Stdout) != long {
		t.Fatalf("%d bytes, %v", len(g.of(Stdout)), err)
	}
}

func TestCloseUnblocksAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(t, 0, true)
		r, err := o.store.Open(task, Stdout, 0, true)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { _, err := r.Read(make([]byte, 10)); ended <- err }()
		time.Sleep(time.Minute)
		_ = r.Close()
		if err := <-ended; !errors.Is(err, os.ErrClosed) {
			t.Fatalf("err = %v", err)
		}
	})
}

// far runs f in a bubble with the owner at peer "a" and a reader at peer "b".
func far(t *testing.T, running bool, f func(t *testing.T, o *owner, n *memnet.Network, b *memnet.Host)) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		o := newOwner(t, 0, running)
		srv := Serve(n.Host("a"), o.store, nil, nil)
		f(t, o, n, n.Host("b"))
		srv.Close()
		_ = n.Close()
	})
}

func TestAnotherPeerFollowsBothStreamsAsTheyAreWritten(t *testing.T) {
	far(t, true, func(t *testing.T, o *owner, _ *memnet.Network, b *memnet.Host) {
		var g got
		ended := make(chan error, 1)
		go func() { ended <- Fetch(t.Context(), b, "a", AllOutput(task, true), g.chunk) }()
		for i, step := range []struct{ stream, data, out, err string }{
			{Stdout, "one ", "one ", ""}, {Stderr, "two ", "one ", "two "}, {Stdout, "three", "one three", "two "},
		} {
			time.Sleep(time.Duration(i) * 40 * time.Second) // silence longer than any read may wait
			o.write(step.stream, step.data)
			time.Sleep(lookLate + time.Millisecond) // the latency that is promised
			synctest.Wait()
			if g.of(Stdout) != step.out || g.of(Stderr) != step.err {
				t.Fatalf("step %d: %q, %q", i, g.of(Stdout), g.of(Stderr))
			}
		}
		close(o.over)
		if err := <-ended; err != nil || g.eof[Stdout] != 1 || g.eof[Stderr] != 1 {
			t.Fatalf("%v, ends %v", err, g.eof)
		}
	})
}

func TestALargeOutputArrivesWholeAndASlowReaderIsWaitedFor(t *testing.T) {
	far(t, false, func(t *testing.T, o *owner, _ *memnet.Network, b *memnet.Host) {
		long := strings.Repeat("0123456789abcdef", 100_000)
		o.write(Stdout, long)
		var at int64
		err := Fetch(t.Context(), b, "a", Request{Task: task, Parts: []Part{{Stream: Stdout}}}, func(c Chunk) error {
			time.Sleep(time.Second)
			if c.Offset != at || !strings.HasPrefix(long[at:], string(c.Data)) {
				return errors.New("out of place")
			}
			at += int64(len(c.Data))
			return nil
		})
		if err != nil || at != int64(len(long)) {
			t.Fatalf("%d bytes, %v", at, err)
		}
	})
}

func TestAnotherPeerHearsThatItIsNotFound(t *testing.T) {
	far(t, false, func(t *testing.T, _ *owner, n *memnet.Network, b *memnet.Host) {
		if err := Fetch(t.Context(), b, "a", AllOutput(task, true), nil); !NotFound(err) {
			t.Errorf("err = %v", err)
		}
		n.Kill("a")
		if err := Fetch(t.Context(), b, "a", AllOutput(task, true), nil); err == nil || NotFound(err) {
			t.Errorf("a dead peer: %v", err)
		}
	})
}

func TestABrokenStreamIsAnErrorAndFetchGoesOnWhereItStopped(t *testing.T) {
	far(t, true, func(t *testing.T, o *owner, n *memnet.Network, b *memnet.Host) {
		o.write(Stdout, "before ")
		var at int64
		var text bytes.Buffer
		take := func(c Chunk) error { at = c.Offset + int64(len(c.Data)); text.Write(c.Data); return nil }
		ended := make(chan error, 1)
		ask := func() {
			go func() {
				ended <- Fetch(t.Context(), b, "a", Request{Task: task, Parts: []Part{{Stream: Stdout, Offset: at}}, Follow: true}, take)
			}()
		}
		ask()
		time.Sleep(time.Second)
		n.Reset("a", "b")
		if err := <-ended; err == nil {
			t.Fatal("no error")
		}
		o.write(Stdout, "after")
		ask()
		time.Sleep(time.Second)
		close(o.over)
		if err := <-ended; err != nil || text.String() != "before after" {
			t.Fatalf("%q, %v", text.String(), err)
		}
	})
}

func TestAReaderThatGoesAwayAndAnErrorOfItsOwnEndTheFetch(t *testing.T) {
	far(t, true, func(t *testing.T, o *owner, _ *memnet.Network, b *memnet.Host) {
		o.write(Stdout, "x")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Fetch(ctx, b, "a", AllOutput(task, true), func(Chunk) error { return nil }) }()
		time.Sleep(time.Second)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
		mine := errors.New("mine")
		if err := Fetch(t.Context(), b, "a", AllOutput(task, true), func(Chunk) error { return mine }); !errors.Is(err, mine) {
			t.Errorf("err = %v", err)
		}
	}) // the bubble ends only when the server's goroutines have
}

func TestClosingTheServerEndsItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		o := newOwner(t, 0, true)
		srv := Serve(n.Host("a"), o.store, nil, nil)
		ended := make(chan error, 1)
		go func() {
			ended <- Fetch(t.Context(), n.Host("b"), "a", AllOutput(task, true), func(Chunk) error { return nil })
		}()
		time.Sleep(time.Second)
		srv.Close()
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		_ = n.Close()
	})
}

func TestTooManyReadersAreToldSo(t *testing.T) {
	far(t, true, func(t *testing.T, o *owner, _ *memnet.Network, b *memnet.Host) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range limit.MaxReadersPerPeer {
			go func() { _ = Fetch(ctx, b, "a", AllOutput(task, true), func(Chunk) error { return nil }) }()
		}
		time.Sleep(time.Second)
		var e *Error
		if err := Fetch(ctx, b, "a", AllOutput(task, true), nil); !errors.As(err, &e) || e.Code != CodeBusy {
			t.Errorf("err = %v", err)
		}
	})
}

func TestNonsenseAndSilenceAreAnsweredOrCutOff(t *testing.T) {
	far(t, true, func(t *testing.T, _ *owner, _ *memnet.Network, b *memnet.Host) {
		for _, say := range [][]byte{nil, []byte("GET / HTTP/1.1\r\n\r\n"), {0, 0, 0, 1, 0xff}, {0, 0, 0, 1, 0xa0}} {
			c, err := b.Dial(t.Context(), "a", LogsProtocol)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write(say); err != nil {
				t.Fatal(err)
			}
			var a answer
			if err := wire.NewReader(c, 0).Read(&a); err != nil || a.Error == nil || a.Error.Code != CodeBad {
				t.Errorf("%q: %+v, %v", say, a.Error, err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				t.Errorf("%q: the stream stays open: %v", say, err)
			}
			_ = c.Close()
		}
	})
}

func TestABadRequestIsRefusedBeforeAnythingIsOpened(t *testing.T) {
	bad := map[string]Request{
		"no stream":       {Task: task},
		"unknown stream":  {Task: task, Parts: []Part{{Stream: "../pid"}}},
		"twice":           {Task: task, Parts: []Part{{Stream: Stdout}, {Stream: Stdout}}},
		"negative offset": {Task: task, Parts: []Part{{Stream: Stdout, Offset: -1}}},
		"negative tail":   {Task: task, Parts: []Part{{Stream: Stdout}}, Tail: -1},
		"huge tail":       {Task: task, Parts: []Part{{Stream: Stdout}}, Tail: MaxTail + 1},
		"a way out":       {Task: taskstate.Task("../../etc", 1, 1), Parts: []Part{{Stream: Stdout}}},
		"no slot":         {Task: taskstate.Task("k3v5q7x2ab", 0, 1), Parts: []Part{{Stream: Stdout}}},
	}
	o := newOwner(t, 0, false)
	for name, req := range bad {
		var e *Error
		if err := o.store.Copy(t.Context(), req, nil); !errors.As(err, &e) || e.Code != CodeBad {
			t.Errorf("%s: %v", name, err)
		}
		b, err := wire.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeRequest(b); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
}

// decodeRequest is how a request from outside is read.
func decodeRequest(b []byte) (r Request, err error) {
	if err = wire.Unmarshal(b, &r); err == nil {
		err = r.Validate()
	}
	return r, err
}

func FuzzADecodedRequestIsAlwaysValid(f *testing.F) {
	b, _ := wire.Marshal(AllOutput(task, true))
	f.Add(b)
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRequest(b)
		if err != nil {
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		again, err := wire.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeRequest(again); err != nil {
			t.Fatal(err)
		}
	})
}

// A peer that has just started does not know yet that a task of its earlier life runs: a reader
// that follows it would take what is there for all there is.
func TestNobodyFollowsATaskBeforeItIsKnownWhatRuns(t *testing.T) {
	o, started := newOwner(t, 0, true), make(chan struct{})
	o.write(Stdout, "so far")
	s := NewStore(Config{Dir: o.dir, Live: o.store.live, Started: started})
	var told *Error
	if err := s.Copy(t.Context(), AllOutput(task, true), func(Chunk) error { return nil }); !errors.As(err, &told) || told.Code != CodeBusy {
		t.Errorf("it was followed: %v", err)
	}
	if err := s.Copy(t.Context(), AllOutput(task, false), func(Chunk) error { return nil }); err != nil {
		t.Errorf("what is there cannot be read: %v", err)
	}
	close(started)
	close(o.over)
	if err := s.Copy(t.Context(), AllOutput(task, true), func(Chunk) error { return nil }); err != nil {
		t.Error(err)
	}
}
