package supervise

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Descriptors a supervisor is born with.
const (
	listenerFD = 3
	lockFD     = 4
)

const (
	helloWait   = 5 * time.Second
	houseEvery  = time.Second
	acceptPause = 100 * time.Millisecond
)

// server is a supervisor: an Engine and one peer at a time. Orders of a peer that was killed are
// carried out to the last one before the next peer is heard, so that what it finds is all there is.
type server struct {
	dir    string
	engine *Engine
	ending bool
	guard  chan int
	log    *boundedLog

	orphans func() // reaps those that ended, now and then; nil: this process has none
}

// superviseMain is all of a supervisor's life; dir is its tasks folder. It returns the exit code.
func superviseMain(dir string) int {
	syscall.CloseOnExec(listenerFD)
	syscall.CloseOnExec(lockFD)
	lock := os.NewFile(lockFD, "lock") // held as long as this process lives
	defer lock.Close()
	_ = os.WriteFile("/proc/self/comm", []byte("peer-supervise"), 0) // how `ps` calls it; only a name
	likeOthers("/proc/self/oom_score_adj")
	adoptOrphans()
	makeThreads(spareThreads)
	s := &server{orphans: reapOrphans, dir: dir, guard: make(chan int, 1), log: newLog(os.Stderr, time.Now, logLimit)}
	if err := s.run(); err != nil {
		s.log.write(err.Error())
		return 1
	}
	return 0
}

// likeOthers takes back what a service manager gave the peer against being killed when memory is
// short. It is inherited, and tasks that use it up are whom the kernel should choose. file has this
// process's score.
func likeOthers(file string) {
	if score, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(score), "-") {
		_ = os.WriteFile(file, []byte("0"), 0) // raising it is anybody's
	}
}

func (s *server) run() (err error) {
	f := os.NewFile(listenerFD, "socket")
	l, err := net.FileListener(f)
	_ = f.Close()
	if err != nil {
		return fmt.Errorf("the supervisor has no socket: %w", err)
	}
	defer l.Close()
	s.engine, err = NewEngine(EngineConfig{Dir: s.dir, Warn: s.log.write, Groups: sandbox.OpenGroups(s.dir)})
	if err != nil {
		return err
	}
	peers := make(chan net.Conn)
	go s.accept(l, peers) // ends with the listener, and so with this process
	s.live(peers)
	mine := !s.forgotten()
	err = s.engine.Close("interrupted")
	if s.orphans != nil {
		endStrays(nil)
	}
	if mine { // otherwise the name is another's
		_ = os.Remove(filepath.Join(s.dir, socketName)) // while the lock is held
	}
	return err
}

// accept hands on the peers that connect, until the listener is closed.
func (s *server) accept(l net.Listener, peers chan<- net.Conn) {
	for {
		c, err := l.Accept()
		switch {
		case Exhausted(err): // the peer waits in the queue of the socket
			time.Sleep(acceptPause)
		case err != nil:
			return
		case fromBelow(c):
			s.log.write("a process of a task wanted to give orders, and was sent away")
			_ = c.Close()
		default:
			peers <- c
		}
	}
}

// live serves one peer after the other until nothing runs and nobody is there.
func (s *server) live(peers <-chan net.Conn) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	house := time.NewTicker(houseEvery)
	defer house.Stop()
	born, guard := time.Now(), guardian(0)
	next := peers
	left := make(chan bool, 1) // who is being served when this returns is not waited for
	met := false
	for {
		select {
		case c := <-next:
			next, met = nil, true // one at a time
			go func() { left <- s.serve(c) }()
		case s.ending = <-left:
			next = peers
		case pid := <-s.guard:
			guard = guardian(pid)
		case <-ended:
			return // Close stops them
		case <-house.C:
			if s.orphans != nil {
				endStrays(s.engine.running())
				s.orphans()
			}
			if guard.gone() || s.forgotten() {
				s.engine.KillAll("interrupted")
				return
			}
		}
		alone := next != nil && (met || time.Since(born) > helloWait)
		if s.ending || alone && s.engine.Idle() {
			return
		}
	}
}

// forgotten tells whether the folder was removed, be it that another has its name by now: then no
// peer will ever come.
func (s *server) forgotten() bool { return !s.engine.records.here(filepath.Join(s.dir, runningFile)) }

// serve is one peer, from its hello until it is gone. It tells whether the supervisor shall end.
func (s *server) serve(c net.Conn) (end bool) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 32<<10)
	_ = c.SetReadDeadline(time.Now().Add(helloWait))
	body, err := readFrame(r, nil)
	if err != nil {
		return false
	}
	hello, err := decodeOrder(body)
	if err != nil || hello.kind != orderHello || hello.version < oldestVersion {
		return false
	}
	_ = c.SetReadDeadline(time.Time{}) // a peer may be silent for ever; when it ends, so does the stream
	s.engine.Configure(hello.logCap, hello.grace)
	if hello.guard > 0 {
		s.guard <- hello.guard
	}
	q := newQueue(c)
	defer q.close()
	spoken := min(hello.version, protocolVersion)
	q.add(Event{Kind: welcome, version: spoken, At: now()})
	s.engine.Attach(func(e Event) { q.add(e.in(spoken)) })
	end = s.obey(r, body)
	s.engine.Detach()
	return end
}

// obey carries out orders until the peer is gone.
func (s *server) obey(r *bufio.Reader, buf []byte) (end bool) {
	for {
		body, err := readFrame(r, buf)
		if err != nil {
			return false
		}
		o, err := decodeOrder(body)
		if err != nil {
			s.log.write(err.Error())
			return false
		}
		switch o.kind {
		case orderStart, orderStartWith, orderStartIn:
			s.engine.Start(o.spec)
		case orderStop:
			s.engine.Stop(o.task, o.reason)
		case orderAck:
			s.engine.Ack(o.tasks)
		case orderEnd:
			s.engine.KillAll("interrupted")
			end = true
		}
		if end {
			return true
		}
		if buf = body; cap(buf) > 64<<10 {
			buf = nil // one long command line must not keep its memory
		}
	}
}

// guarded is a process whose end is the supervisor's: that of a testnet, so that nothing is left on
// the machine.
type guarded struct{ p *os.Process }

func guardian(pid int) guarded {
	if pid <= 1 {
		return guarded{}
	}
	p, err := os.FindProcess(pid) // a pidfd
	if err != nil {
		return guarded{}
	}
	return guarded{p}
}

func (g guarded) gone() bool { return g.p != nil && g.p.Signal(syscall.Signal(0)) != nil }

// logLimit is how many bytes a supervisor says to its log in its life, and how large a log may be
// for another to go on with it: of what goes wrong again and again, the beginning explains most.
const logLimit = 1 << 20

// boundedLog is a supervisor's log: bounded, because trouble on a machine may last for months.
type boundedLog struct {
	now func() time.Time

	mu   sync.Mutex
	to   io.Writer
	left int
}

func newLog(to io.Writer, now func() time.Time, limit int) *boundedLog {
	return &boundedLog{to: to, now: now, left: limit}
}

// write adds a line, or nothing once the limit is reached. Safe for concurrent use.
func (t *boundedLog) write(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left <= 0 {
		return
	}
	line := fmt.Sprintln(t.now().Format(time.RFC3339), what)
	if t.left -= len(line); t.left <= 0 {
		line = fmt.Sprintln(t.now().Format(time.RFC3339), "much has been said here; nothing more is, until this supervisor is started again")
	}
	_, _ = io.WriteString(t.to, line)
}

// openLogFile opens the log of a supervisor that begins. A large one is put aside, in place of the
// one put aside before.
func openLogFile(path string) (*os.File, error) {
	if st, err := os.Stat(path); err == nil && st.Size() >= logLimit {
		if err := os.Rename(path, path+".1"); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}
