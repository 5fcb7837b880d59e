package supervise

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/wake"
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
	answerLook  = 250 * time.Millisecond // how often to look whether to wait on for an answer
	ackWait     = 50 * time.Millisecond
	writeWait   = time.Minute // a supervisor that does not read for so long is given up
)

// ClientConfig is what a Client needs. Dir and Sink have no default.
type ClientConfig struct {
	Dir    string      // the tasks folder; one Client at a time
	Sink   func(Event) // told what happens, in order per task, by two goroutines at most; must not block for long
	LogCap int64
	Grace  time.Duration
	Idle   time.Duration // how long a supervisor without processes is kept; 0 = DefaultIdle
	Born   bool          // a supervisor is born so that it can carry out every Spec.Box, where that takes a user namespace
	Guard  int           // a process whose end also ends everything at once; 0: none
	Warn   func(string)

	patience time.Duration // how long to wait for a supervisor's answer before saying so, and for its end; 0 = startWait
}

func (c ClientConfig) wait() time.Duration {
	if c.patience > 0 {
		return c.patience
	}
	return startWait
}

// Client is a peer's end: it starts the supervisor when there is something to run, and a new one
// should it be killed. Methods may be called by anybody and return at once.
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
	spoken  int             // version of the protocol on up
	writing bool            // somebody writes orders
	marked  bool            // the folder says that it is of this boot
	bare    bool            // it was said that the supervisor keeps nothing from tasks
	open    map[string]bool // started, or found, and not acknowledged

	wake wake.Signal
	quit chan struct{}
	done chan struct{}

	// Owned by run, before it by Open.
	conn    net.Conn
	lost    chan net.Conn // its reader has ended
	read    sync.WaitGroup
	child   int   // the supervisor this process started, 0: none
	foreign error // why the supervisor that was met last cannot be understood, nil: it can, or there was none
}

// Open finds what an earlier peer left: a supervisor, or what is on disk of one that was killed.
// What is known is in Left; nothing of it is told to Sink.
func Open(cfg ClientConfig) (*Client, error) {
	if cfg.Idle <= 0 {
		cfg.Idle = DefaultIdle
	}
	if cfg.Warn == nil {
		cfg.Warn = func(string) {}
	}
	c := &Client{
		cfg: cfg, wake: wake.New(), quit: make(chan struct{}), done: make(chan struct{}), lost: make(chan net.Conn, 1), open: map[string]bool{},
	}
	var err error
	if c.rebooted, c.marked, err = checkBoot(cfg.Dir); err != nil {
		return nil, err
	}
	if err := c.find(); err != nil {
		return nil, err
	}
	c.met = true
	go c.run()
	return c, nil
}

// find takes up what is there. A supervisor may be just about to end: then it has left on disk what
// there was to say.
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

// Complete tells whether Left is all there was: false after the machine was started again, since
// what ran then may not be on disk.
func (c *Client) Complete() bool { return !c.rebooted && BootID() != "" }

// Rebooted tells whether the machine was started again since the folder was last used.
func (c *Client) Rebooted() bool { return c.rebooted }

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

// Close lets go of the supervisor, which goes on with what runs. What was ordered before has been
// sent.
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
			c.disconnectIfIdle()
		case <-c.quit:
			c.send()
			c.disconnect()
			return
		}
		idle.Reset(c.cfg.Idle)
	}
}

// rest lets a supervisor go that has had nothing to do.
func (c *Client) disconnectIfIdle() {
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
	if err != nil { // nobody will see to them, and their ends are about to be told
		KillTasks(open)
	}
	for id := range open {
		e := Event{Kind: Lost, Task: id, At: now(), Unseen: true, Unbegun: err == nil}
		if err != nil {
			e.Err = err.Error()
		}
		c.cfg.Sink(e)
	}
}

// checkBoot tells whether the machine was started since the folder was last used, and whether the
// folder says so already. A new folder is marked at once; one of another boot when the first
// process starts, because until then the peer may not have written down what the restart has cost
// it, and a peer that is killed in between must find out again.
func checkBoot(dir string) (rebooted, marked bool, err error) {
	was, err := os.ReadFile(filepath.Join(dir, bootName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, true, markBoot(dir)
	case err != nil:
		return false, false, err
	}
	same := string(was) == BootID()
	return !same, same, nil
}

func markBoot(dir string) error {
	path := filepath.Join(dir, bootName)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(BootID())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err // half a mark would be that of another boot
	}
	return os.Rename(path+".new", path)
}
