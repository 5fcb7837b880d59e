package caller

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// Listener is where the local API is served, and knows who asks it. A connection is one process's,
// which is looked at when it first asks for something.
type Listener struct {
	net.Listener
	Tasks string                                                      // the tasks folder
	By    func(taskstate.TaskID) (signer taskstate.PeerID, err error) // of what a task runs that has not ended
	Name  func(taskstate.PeerID) string
}

// called is a connection and the process that opened it.
type called struct {
	net.Conn
	p    Process
	err  error // why that cannot be told
	once sync.Once
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p, err := Of(conn) // now: it may have ended when it asks
	return &called{Conn: conn, p: p, err: err}, nil
}

// Close implements net.Conn.
func (c *called) Close() error {
	if c.err == nil {
		c.once.Do(c.p.Close)
	}
	return c.Conn.Close()
}

// Greet is http.Server's ConnContext: api.CallerOf tells who asks.
func (l *Listener) Greet(ctx context.Context, conn net.Conn) context.Context {
	return api.WithCaller(ctx, sync.OnceValue(func() api.Caller { return l.who(conn) }))
}

// freshTask is how long a process is looked at again that belongs to a task not yet noted: one
// that asks in the first moment of its life. The same while this peer may not open another file.
const freshTask = time.Second

// who is the process of a connection. What cannot be told counts as inside a task, but where the
// system tells nothing at all.
func (l *Listener) who(conn net.Conn) api.Caller {
	from, ok := conn.(*called)
	if !ok || errors.Is(from.err, errors.ErrUnsupported) {
		return api.Caller{UID: -1}
	}
	if supervise.Exhausted(from.err) {
		return api.Caller{UID: -1, Inside: true, Busy: true}
	}
	if from.err != nil {
		return api.Caller{UID: -1, Inside: true, Why: from.err.Error()}
	}
	who := api.Caller{PID: from.p.PID, UID: from.p.UID}
	task, inside, err := supervise.Whose(l.Tasks, from.p.PID)
	for until := time.Now().Add(freshTask); inside && task == "" && (err == nil || supervise.Exhausted(err)) && time.Now().Before(until); {
		time.Sleep(freshTask / 100)
		task, inside, err = supervise.Whose(l.Tasks, from.p.PID)
	}
	if err == nil && from.p.Gone() {
		err = errors.New("the process that asks has ended")
	}
	if err != nil {
		who.Inside, who.Why, who.Busy = true, err.Error(), supervise.Exhausted(err)
		return who
	}
	if who.Inside, who.Task = inside, task; !inside {
		return who
	}
	if task == "" {
		who.Why = "the processes that started this one have ended"
		return who
	}
	id, err := taskstate.ParseTaskID(task)
	if err == nil {
		who.As, err = l.By(id)
	}
	if err != nil {
		who.Why = err.Error()
		return who
	}
	who.AsName = l.Name(who.As)
	return who
}
