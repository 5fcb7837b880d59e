package supervise

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// house is a supervisor without processes of the system: it sees to puppets, and what it is told to
// start stays in its queue.
type house struct {
	*server
	log   bytes.Buffer
	peers chan net.Conn
	over  chan struct{} // live has returned
	came  []net.Conn
}

// keepHouse runs one in a bubble of time until f returns.
func keepHouse(t *testing.T, f func(t *testing.T, h *house)) {
	t.Helper()
	c := make(chan os.Signal, 1) // the first one starts a goroutine that never ends: not in the bubble
	signal.Notify(c, syscall.SIGUSR2)
	signal.Stop(c)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		h := &house{peers: make(chan net.Conn), over: make(chan struct{})}
		e := &Engine{cfg: EngineConfig{Dir: dir, Grace: DefaultGrace}, procs: map[string]*proc{}, taken: map[string]unackedEnd{}, quit: make(chan struct{})}
		e.queued.L = &e.mu
		var err error
		if e.records, err = openRecords(dir); err != nil {
			t.Fatal(err)
		}
		if e.ends, _, err = openEnds(dir); err != nil {
			t.Fatal(err)
		}
		h.server = &server{dir: dir, engine: e, guard: make(chan int, 1), log: newLog(&h.log, time.Now, logLimit)}
		go func() {
			h.live(h.peers)
			close(h.over)
		}()
		f(t, h)
		for _, c := range h.came {
			_ = c.Close()
		}
		<-h.over
		e.all.Wait()
		e.ends.close()
		_ = e.records.close()
	})
}

// ended tells whether the supervisor has nothing more to do.
func (h *house) ended() bool {
	synctest.Wait()
	select {
	case <-h.over:
		return true
	default:
		return false
	}
}

// visit is a peer: it says words and has all that the supervisor says read.
func (h *house) visit(words []byte) (c net.Conn, heard <-chan []string) {
	c, supervisor := net.Pipe()
	h.came = append(h.came, c)
	heard = arrivals(c)
	h.peers <- supervisor
	_, _ = c.Write(words) // fails when the supervisor has heard enough
	synctest.Wait()
	return c, heard
}

func said(orders ...order) (words []byte) {
	for _, o := range orders {
		words = appendFrame(words, appendOrder(nil, o))
	}
	return words
}

var hello = order{kind: orderHello, version: protocolVersion}

func TestASupervisorWaitsForItsFirstPeerAndThenOnlyAsLongAsThereIsSomethingToDo(t *testing.T) {
	keepHouse(t, func(t *testing.T, h *house) {
		time.Sleep(helloWait - time.Second)
		if h.ended() {
			t.Fatal("it ended before its peer came")
		}
		p := newPuppet(0)
		h.engine.enrol("a.1.1", p, -1)
		c, _ := h.visit(said(hello))
		_ = c.Close()
		time.Sleep(time.Minute)
		if h.ended() {
			t.Fatal("it left its task alone")
		}
		p.end(ending{exit: 3})
		time.Sleep(houseEvery)
		if !h.ended() {
			t.Error("it goes on with nothing to do")
		}
	})
	keepHouse(t, func(t *testing.T, h *house) {
		time.Sleep(helloWait + houseEvery)
		if !h.ended() {
			t.Error("nobody came, and it waits on")
		}
	})
}

func TestAPeerWithNothingToDoKeepsItsSupervisorAsLongAsItIsThere(t *testing.T) {
	keepHouse(t, func(t *testing.T, h *house) {
		c, _ := h.visit(said(hello))
		time.Sleep(10 * time.Minute)
		if h.ended() {
			t.Error("it ended under its peer")
		}
		_ = c.Close()
		if !h.ended() {
			t.Error("its peer is gone, and it goes on with nothing to do")
		}
	})
}

func TestWhoDoesNotSayHelloIsNotListenedTo(t *testing.T) {
	frame := func(body string) []byte { return appendFrame(nil, []byte(body)) }
	for what, words := range map[string][]byte{
		"nothing":             nil,
		"half a hello":        said(hello)[:3],
		"an order first":      said(order{kind: orderEnd}),
		"noise":               frame("\xff\x00noise"),
		"an old version":      said(order{kind: orderHello, version: oldestVersion - 1}),
		"an endless message":  binary.AppendUvarint(nil, maxFrame+1),
		"an endless number":   bytes.Repeat([]byte{0xff}, 20),
		"a hello with a tail": frame(string(appendOrder(nil, hello)) + "x"),
	} {
		t.Run(what, func(t *testing.T) {
			keepHouse(t, func(t *testing.T, h *house) {
				p := newPuppet(0)
				h.engine.enrol("a.1.1", p, -1)
				began := time.Now()
				_, heard := h.visit(words)
				if got := <-heard; len(got) > 0 || time.Since(began) > helloWait {
					t.Errorf("heard %v after %s", got, time.Since(began))
				}
				c, heard := h.visit(said(hello)) // the next one is
				_ = c.Close()
				if got := <-heard; len(got) != 3 || !strings.HasPrefix(got[1], "1 a.1.1") {
					t.Errorf("the next peer heard %q", got)
				}
				p.end(ending{})
			})
		})
	}
}

func TestAfterAnOrderThatMakesNoSenseNothingOfThatPeerIsObeyed(t *testing.T) {
	keepHouse(t, func(t *testing.T, h *house) {
		p := newPuppet(-1)
		h.engine.enrol("a.1.1", p, -1)
		words := append(said(hello), appendFrame(nil, []byte{99})...)
		_, heard := h.visit(append(words, said(order{kind: orderStop, task: "a.1.1", reason: "cancelled"}, order{kind: orderEnd})...))
		<-heard
		if len(p.heard) > 0 || h.ended() {
			t.Errorf("the task heard %q", p.heard)
		}
		if !strings.Contains(h.log.String(), errFrame.Error()) {
			t.Errorf("said %q", h.log.String())
		}
		p.end(ending{})
	})
}

// A peer that is killed has said what it had said: its orders lie in the socket.
func TestOrdersOfAKilledPeerAreCarriedOutBeforeTheNextIsHeard(t *testing.T) {
	keepHouse(t, func(t *testing.T, h *house) {
		const n = 500
		orders := []order{hello}
		for i := range n {
			h.engine.enrol(fmt.Sprint("j.", i), newPuppet(-1), -1)
			orders = append(orders, order{kind: orderStop, task: fmt.Sprint("j.", i), reason: "cancelled"})
		}
		orders = append(orders, order{kind: orderStart, spec: Spec{Task: "last", Argv: []string{"x"}}})
		first, supervisor := net.Pipe()
		go func() {
			r := bufio.NewReader(first)
			_, _ = readFrame(r, nil) // the welcome; then it is killed
			_, _ = first.Write(said(orders[1:]...))
			_ = first.Close()
		}()
		go func() { _, _ = first.Write(said(hello)) }()
		h.peers <- supervisor
		second, heard := h.visit(said(hello))
		h.engine.mu.Lock()
		_, here := h.engine.procs["last"]
		h.engine.mu.Unlock()
		if !here {
			t.Error("the next peer came, and the last order was not carried out")
		}
		time.Sleep(DefaultGrace + time.Second)
		_ = second.Close()
		ends := 0
		for _, e := range <-heard {
			if strings.HasPrefix(e, "3 j.") {
				ends++
			}
		}
		if ends != n {
			t.Errorf("the next peer heard of %d ends of %d", ends, n)
		}
		h.engine.over(h.engine.procs["last"], Event{Kind: Ended, Task: "last"})
	})
}

func TestASupervisorThatIsToldToEndKillsWhatIgnoresItsOrdersAtOnce(t *testing.T) {
	keepHouse(t, func(t *testing.T, h *house) {
		p := newPuppet(-1)
		h.engine.enrol("a.1.1", p, -1)
		patient := order{kind: orderHello, version: protocolVersion, grace: time.Hour}
		_, _ = h.visit(said(patient, order{kind: orderStop, task: "a.1.1", reason: "cancelled"}, order{kind: orderEnd}))
		time.Sleep(time.Microsecond)
		if got := strings.Join(p.heard, ", "); got != "15 at 0s, 9 at 0s" || !h.ended() {
			t.Errorf("the task heard %q, and the supervisor has ended: %v", got, h.ended())
		}
	})
}

func TestASupervisorEndsWithTheProcessItIsBoundTo(t *testing.T) {
	bound, gone := exec.Command("/bin/cat"), exec.Command("/bin/true")
	in, err := bound.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := bound.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = bound.Wait() }()
	defer func() { _ = in.Close() }()
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]struct {
		pid  int
		ends bool
	}{"it lives": {bound.Process.Pid, false}, "it is gone": {gone.Process.Pid, true}, "none": {0, false}, "nonsense": {-5, false}} {
		if g := guardian(x.pid); g.gone() != x.ends {
			t.Errorf("%s: gone %v", what, g.gone())
		}
	}
	keepHouse(t, func(t *testing.T, h *house) {
		p := newPuppet(-1)
		h.engine.enrol("a.1.1", p, -1)
		c, _ := h.visit(said(order{kind: orderHello, version: protocolVersion, guard: bound.Process.Pid}))
		_ = c.Close()
		time.Sleep(time.Minute)
		if h.ended() {
			t.Fatal("it ended before")
		}
		_ = bound.Process.Kill()
		_ = bound.Wait()
		time.Sleep(2 * houseEvery)
		if !h.ended() || len(p.heard) != 2 {
			t.Errorf("ended %v, the task heard %q", h.ended(), p.heard)
		}
	})
}

func TestASupervisorWhoseFolderIsAnothersEndsWithItsTasks(t *testing.T) {
	for what, change := range map[string]func(path string) error{
		"removed":  os.Remove,
		"replaced": func(path string) error { return os.Rename(path+".other", path) },
	} {
		t.Run(what, func(t *testing.T) {
			keepHouse(t, func(t *testing.T, h *house) {
				path := filepath.Join(h.dir, runningFile)
				if err := os.WriteFile(path+".other", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				p := newPuppet(-1)
				h.engine.enrol("a.1.1", p, -1)
				_, _ = h.visit(said(hello))
				time.Sleep(time.Minute)
				if h.ended() {
					t.Fatal("it ended before")
				}
				if err := change(path); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * houseEvery)
				if !h.ended() || len(p.heard) != 2 {
					t.Errorf("ended %v, the task heard %q", h.ended(), p.heard)
				}
			})
		})
	}
}

// orderedFromATask is what the helper below does if it is told to, as a task.
const orderedFromATask = "SUPERVISE_TEST_ORDER"

func TestASupervisorTakesNoOrdersFromItsTasks(t *testing.T) {
	if dir := os.Getenv(orderedFromATask); dir != "" { // the task
		c, err := net.Dial("unix", filepath.Join(dir, socketName))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write(said(hello, order{kind: orderStart, spec: Spec{
			Task: "b.1.1", Home: dir, Path: "/bin/sh", Dir: dir, Argv: []string{"sh", "-c", "echo > escaped"}, Env: []string{"PATH=/bin"},
		}}))
		_, err = readFrame(bufio.NewReader(c), nil)
		fmt.Println("heard", err)
		return
	}
	dir, h := t.TempDir(), newHeard()
	c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = EndAll(dir) }()
	s := specIn(t, dir, "a.1.1", os.Args[0]+" -test.run '^"+t.Name()+"$' -test.v >"+dir+"/heard.new 2>&1; mv "+dir+"/heard.new "+dir+"/heard")
	s.Env = append(s.Env, orderedFromATask+"="+dir)
	c.Start(s)
	h.until("a.1.1", func(e Event) bool { return e.Kind == Started })
	_ = c.Close() // the supervisor is free for another peer
	heard := ""
	for heard == "" {
		time.Sleep(time.Millisecond)
		b, _ := os.ReadFile(filepath.Join(dir, "heard"))
		heard = string(b)
	}
	if !strings.Contains(heard, "heard EOF") && !strings.Contains(heard, "connection reset") {
		t.Errorf("the task was answered: %s", heard)
	}
	if _, err := os.Stat(filepath.Join(dir, "escaped")); err == nil {
		t.Error("what a task ordered was started")
	}
}
