package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	socketName = ".supervisor.sock"
	lockName   = ".supervisor"
	logName    = ".supervisor.log"
	bootName   = ".boot"
)

// How long a supervisor without processes is kept, and how long to wait for one that comes or goes.
const (
	DefaultIdle = 10 * time.Second
	startWait   = 5 * time.Second
	ackWait     = 50 * time.Millisecond
	writeWait   = time.Minute // a supervisor that does not read for so long is given up
)

// ClientConfig is what a Client needs. Dir and Sink have no default.
type ClientConfig struct {
	Dir    string      // the tasks folder; one Client at a time
	Sink   func(Event) // told what happens, by one goroutine at a time, in order per task; must not block for long
	LogCap int64
	Grace  time.Duration
	Idle   time.Duration // how long a supervisor without processes is kept; 0 = DefaultIdle
	Guard  int           // a process whose end also ends everything at once; 0: none
	Warn   func(string)
}

// Client is a peer's end: it starts the supervisor when there is something to run, and a new one should it be killed. Methods may be
// called by anybody and return at once.
type Client struct {
	cfg      ClientConfig
	rebooted bool
	left     []Event
	met      bool // left is complete

	mu      sync.Mutex
	next    []order
	acks    []string
	armed   bool            // acks will be sent after a while
	up      net.Conn        // conn, once orders may be written to it
	writing bool            // somebody writes orders
	open    map[string]bool // started, or found, and not acknowledged

	wake chan struct{}
	quit chan struct{}
	done chan struct{}

	// Owned by run, before it by Open.
	conn  net.Conn
	lost  chan net.Conn // its reader has ended
	read  sync.WaitGroup
	child int // the supervisor this process started, 0: none
}

// Open finds what an earlier peer left: a supervisor, or what is on disk of one that was killed. What is known is in Left; nothing of it
// is told to Sink.
func Open(cfg ClientConfig) (*Client, error) {
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Warn == nil {
		cfg.Warn = func(string) {}
	}
	c := &Client{
		cfg: cfg, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), lost: make(chan net.Conn, 1), open: map[string]bool{},
	}
	var err error
	if c.rebooted, err = checkBoot(cfg.Dir); err != nil {
		return nil, err
	}
	if err := c.find(); err != nil {
		return nil, err
	}
	c.met = true
	go c.run()
	return c, nil
}

// find takes up what is there. A supervisor may be just about to end: then it has left on disk what there was to say.
func (c *Client) find() error {
	if c.connect() == nil && c.greet(c.remember) == nil {
		return nil
	}
	lock, err := c.lock()
	if err != nil {
		return err
	}
	_ = lock.Close()
	c.left, c.open = nil, map[string]bool{}
	if !c.anythingLeft() {
		return nil
	}
	if err := c.start(); err != nil {
		return err
	}
	return c.greet(c.remember)
}

func (c *Client) remember(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[e.Task] = true
	if c.met {
		return
	}
	c.left = append(c.left, e)
}

// Left is what Open found.
func (c *Client) Left() []Event { return c.left }

// Complete tells whether Left is all there was: false after the machine was started again, since what ran then may not be on disk.
func (c *Client) Complete() bool { return !c.rebooted && BootID() != "" }

// checkBoot tells whether the machine was started since the folder was last used.
func checkBoot(dir string) (rebooted bool, err error) {
	path := filepath.Join(dir, bootName)
	was, err := os.ReadFile(path)
	if err == nil && string(was) == BootID() {
		return false, nil
	}
	rebooted = err == nil
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return rebooted, err
	}
	_, err = f.WriteString(BootID())
	return rebooted, errors.Join(err, f.Sync(), f.Close(), os.Rename(path+".new", path))
}

// anythingLeft tells whether a supervisor that is no more left something on disk.
func (c *Client) anythingLeft() bool {
	if st, err := os.Stat(filepath.Join(c.cfg.Dir, endsName)); err == nil && st.Size() > 0 {
		return true
	}
	r, err := openRecords(c.cfg.Dir)
	if err != nil {
		return false
	}
	defer func() { _ = r.close() }()
	return len(r.left) > 0
}

// Start runs a process; what becomes of it is told to Sink.
func (c *Client) Start(s Spec) {
	c.mu.Lock()
	c.next = append(c.next, order{kind: orderStart, spec: s})
	if !c.flush() {
		c.poke()
	}
	c.mu.Unlock()
}

// Stop ends one. Its end is told as usual.
func (c *Client) Stop(task, reason string) {
	c.mu.Lock()
	c.next = append(c.next, order{kind: orderStop, task: task, reason: reason})
	c.mu.Unlock()
	c.poke()
}

// Ack says that the ends of these tasks need not be told again. It goes with the next order, or after a while.
func (c *Client) Ack(tasks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks = append(c.acks, tasks...)
	if !c.armed && len(c.acks) > 0 {
		c.armed = true
		time.AfterFunc(ackWait, func() {
			c.mu.Lock()
			c.armed = false
			c.mu.Unlock()
			c.poke()
		})
	}
}

// poke wakes run.
func (c *Client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flush writes what is to be said, unless nobody is there to hear it: then it says false. Whoever comes while another writes leaves
// its words to that one. Called with c.mu held, which it gives up meanwhile.
func (c *Client) flush() bool {
	for !c.writing && c.up != nil && len(c.next)+len(c.acks) > 0 {
		conn, words := c.up, c.words()
		c.writing = true
		c.mu.Unlock()
		_ = conn.SetWriteDeadline(time.Now().Add(writeWait))
		if _, err := conn.Write(words); err != nil {
			_ = conn.Close() // its reader tells
		}
		c.mu.Lock()
		c.writing = false
	}
	return c.writing || c.up != nil
}

// words encodes what is to be said. Acknowledgements come first: the same attempt may be started anew.
func (c *Client) words() (words []byte) {
	var body []byte
	say := func(o order) {
		body = appendOrder(body[:0], o)
		words = appendFrame(words, body)
	}
	if len(c.acks) > 0 {
		say(order{kind: orderAck, tasks: c.acks})
		for _, id := range c.acks {
			delete(c.open, id)
		}
	}
	for _, o := range c.next {
		say(o)
		if o.kind == orderStart {
			c.open[o.spec.Task] = true
		}
	}
	clear(c.next)
	c.next, c.acks = c.next[:0], c.acks[:0]
	return words
}

// Close lets go of the supervisor, which goes on with what runs. What was ordered before has been sent.
func (c *Client) Close() error {
	c.mu.Lock()
	select {
	case <-c.quit:
	default:
		close(c.quit)
	}
	c.mu.Unlock()
	<-c.done
	return nil
}

// run owns the connection.
func (c *Client) run() {
	defer close(c.done)
	idle := time.NewTimer(c.cfg.Idle)
	defer idle.Stop()
	for {
		select {
		case <-c.wake:
			c.send()
		case conn := <-c.lost:
			if conn == c.conn {
				c.disconnect()
				c.revive()
			}
		case <-idle.C:
			c.rest()
		case <-c.quit:
			c.send()
			c.disconnect()
			return
		}
		idle.Reset(c.cfg.Idle)
	}
}

// rest lets a supervisor go that has had nothing to do.
func (c *Client) rest() {
	c.mu.Lock()
	rest := len(c.open) == 0 && len(c.next) == 0 && c.conn != nil
	if rest {
		c.up = nil
	}
	c.mu.Unlock()
	if rest {
		c.disconnect()
		c.reap(startWait)
	}
}

// send says what Start could not say itself. If a supervisor is needed and none is to be had, nothing starts.
func (c *Client) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flush() {
		return
	}
	starts := slices.ContainsFunc(c.next, func(o order) bool { return o.kind == orderStart })
	if starts {
		c.mu.Unlock()
		err := c.ensure()
		c.mu.Lock()
		if err == nil {
			c.flush()
			return
		}
		orders := c.next
		c.next = nil
		c.mu.Unlock()
		for _, o := range orders {
			if o.kind == orderStart {
				c.cfg.Sink(refused(o.spec.Task, err))
			}
		}
		c.mu.Lock()
		return
	}
	c.next, c.acks = nil, nil // nobody there: nothing to stop, nothing to acknowledge
}

// ensure: a supervisor is there.
func (c *Client) ensure() error {
	if c.conn != nil {
		return nil
	}
	if c.connect() == nil && c.greet(c.found) == nil {
		return nil // one of before that has not ended yet
	}
	if err := c.start(); err != nil {
		return err
	}
	return c.greet(c.found)
}

// found takes in what a supervisor says it has, in the middle of a peer's life.
func (c *Client) found(e Event) {
	c.remember(e)
	c.cfg.Sink(e)
}

// revive finds out what became of everything when the supervisor was killed.
func (c *Client) revive() {
	c.mu.Lock()
	open := c.open
	c.open = map[string]bool{}
	c.mu.Unlock()
	if len(open) == 0 {
		return
	}
	c.cfg.Warn("the supervisor of this peer's tasks has ended; a new one takes them up, their exit codes are lost")
	err := c.ensure()
	c.mu.Lock()
	for id := range c.open {
		delete(open, id)
	}
	c.mu.Unlock()
	for id := range open {
		e := Event{Kind: Lost, Task: id, At: now(), Unseen: true, Unbegun: err == nil}
		if err != nil {
			e.Err = err.Error()
		}
		c.cfg.Sink(e)
	}
}

func (c *Client) disconnect() {
	if c.conn != nil {
		c.mu.Lock()
		c.up = nil
		c.mu.Unlock()
		_ = c.conn.Close()
		c.read.Wait()
		c.conn = nil
		select {
		case <-c.lost: // known
		default:
		}
	}
}

// connect finds the supervisor that is there.
func (c *Client) connect() error {
	path, done, err := shortPath(c.cfg.Dir, socketName)
	if err != nil {
		return err
	}
	defer done()
	conn, err := net.DialTimeout("unix", path, startWait)
	if err != nil {
		return err
	}
	c.conn = conn
	return nil
}

// shortPath names a file of a folder whose path may be too long for a socket.
func shortPath(dir, name string) (path string, done func(), err error) {
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(int(d.Fd())), name), func() { _ = d.Close() }, nil
}

// greet says hello and takes in what the supervisor has.
func (c *Client) greet(found func(Event)) error {
	err := c.hello(found)
	if err != nil {
		_ = c.conn.Close()
		c.conn = nil
		return fmt.Errorf("the supervisor of this peer's tasks does not answer: %w; see %s", err, filepath.Join(c.cfg.Dir, logName))
	}
	return nil
}

func (c *Client) hello(found func(Event)) error {
	_ = c.conn.SetDeadline(time.Now().Add(startWait))
	o := order{kind: orderHello, version: protocolVersion, logCap: c.cfg.LogCap, grace: c.cfg.Grace, guard: c.cfg.Guard}
	if _, err := c.conn.Write(appendFrame(nil, appendOrder(nil, o))); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c.conn, 16<<10)
	for first := true; ; first = false {
		body, err := readFrame(r, nil)
		if err != nil {
			return err
		}
		e, err := decodeEvent(body)
		switch {
		case err != nil:
			return err
		case first && (e.Kind != welcome || e.version != protocolVersion):
			return fmt.Errorf("it speaks version %d of the protocol, this peer %d", e.version, protocolVersion)
		case e.Kind == synced:
			_ = c.conn.SetDeadline(time.Time{})
			conn := c.conn
			c.mu.Lock()
			c.up = conn
			c.mu.Unlock()
			c.read.Go(func() { c.listen(conn, r) })
			return nil
		case !first:
			found(e)
		}
	}
}

// listen hands on what the supervisor says.
func (c *Client) listen(conn net.Conn, r *bufio.Reader) {
	var buf []byte
	for {
		body, err := readFrame(r, buf)
		if err != nil {
			break
		}
		e, err := decodeEvent(body)
		if err != nil {
			c.cfg.Warn("the supervisor: " + err.Error())
			break
		}
		c.cfg.Sink(e)
		buf = body
	}
	select {
	case c.lost <- conn:
	default: // one is as good as two: run looks which
	}
}

// start starts a supervisor. Its socket is bound here, so that it can be dialled at once and what goes wrong is known.
func (c *Client) start() error {
	lock, err := c.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	path, done, err := shortPath(c.cfg.Dir, socketName)
	if err != nil {
		return err
	}
	defer done()
	_ = os.Remove(path) // whoever holds the lock owns the name
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return fmt.Errorf("socket of the supervisor: %w", err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	socket, err := l.File()
	if err != nil {
		return err
	}
	defer socket.Close()
	log, err := os.OpenFile(filepath.Join(c.cfg.Dir, logName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("/proc/self/exe", beginWord, c.cfg.Dir) // this very program, even if its file was replaced
	cmd.Args[0] = os.Args[0]
	cmd.Env = []string{beginEnv + "=1"}
	cmd.Dir = c.cfg.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{socket, lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("the supervisor of this peer's tasks does not start: %w", err)
	}
	c.child = cmd.Process.Pid
	_ = cmd.Process.Release() // reaped in reap
	return c.connect()
}

// lock takes the supervisor's lock, which one that is about to end may still hold for a moment.
func (c *Client) lock() (*os.File, error) {
	c.reap(startWait)
	f, err := os.OpenFile(filepath.Join(c.cfg.Dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(startWait); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if time.Now().After(end) {
			_ = f.Close()
			return nil, fmt.Errorf("another supervisor holds %s and does not answer: %w; end it by hand", filepath.Join(c.cfg.Dir, lockName), err)
		}
	}
}

// reap takes note of the end of a supervisor this process started, so that it does not stay in the list of processes.
func (c *Client) reap(patience time.Duration) {
	if c.child == 0 {
		return
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		pid, err := retry(func() (int, error) { return syscall.Wait4(c.child, nil, syscall.WNOHANG, nil) })
		if pid == c.child || err != nil || time.Now().After(end) {
			break
		}
	}
	c.child = 0
}

// EndAll ends the supervisor of a tasks folder and everything it runs, and returns when that is done. No peer may use the folder. It is for testnets
// and tests, which leave nothing behind.
func EndAll(dir string) error {
	c := &Client{cfg: ClientConfig{Dir: dir, Warn: func(string) {}}, lost: make(chan net.Conn, 1), open: map[string]bool{}}
	if err := c.connect(); err != nil {
		return nil //nolint:nilerr // nobody there
	}
	defer c.disconnect()
	words := appendFrame(nil, appendOrder(nil, order{kind: orderHello, version: protocolVersion}))
	words = appendFrame(words, appendOrder(nil, order{kind: orderEnd}))
	_, _ = c.conn.Write(words) // if it fails, the supervisor is about to end
	lock, err := c.lock()
	if err != nil {
		return err
	}
	return lock.Close()
}
