package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"covey/internal/atomicfile"
	"covey/node/api"
	"covey/node/caller"
	"covey/node/runner/supervise"
	"covey/taskstate"
)

// callers knows who asks the local API. A connection is one process's, which is looked at when it
// first asks for something.
type callers struct {
	net.Listener
	tasks string                                                    // the tasks folder
	by    func(taskstate.TaskID) (peer taskstate.PeerID, err error) // who submitted a task
	name  func(taskstate.PeerID) string
}

// called is a connection and the process that opened it.
type called struct {
	net.Conn
	p    caller.Process
	err  error // why that cannot be told
	once sync.Once
}

// Accept implements net.Listener.
func (c *callers) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p, err := caller.Of(conn) // now: it may have ended when it asks
	return &called{Conn: conn, p: p, err: err}, nil
}

// Close implements net.Conn.
func (c *called) Close() error {
	if c.err == nil {
		c.once.Do(c.p.Close)
	}
	return c.Conn.Close()
}

// greet is http.Server's ConnContext.
func (c *callers) greet(ctx context.Context, conn net.Conn) context.Context {
	return api.WithCaller(ctx, sync.OnceValue(func() api.Caller { return c.who(conn) }))
}

// freshTask is how long a process is looked at again that belongs to a task not yet noted: one
// that asks in the first moment of its life.
const freshTask = time.Second

// who is the process of a connection. What cannot be told counts as inside a task, but where the
// system tells nothing at all.
func (c *callers) who(conn net.Conn) api.Caller {
	from, ok := conn.(*called)
	if !ok || errors.Is(from.err, errors.ErrUnsupported) {
		return api.Caller{UID: -1}
	}
	if from.err != nil {
		return api.Caller{UID: -1, Inside: true, Why: from.err.Error()}
	}
	who := api.Caller{PID: from.p.PID, UID: from.p.UID}
	task, inside, err := supervise.Whose(c.tasks, from.p.PID)
	for until := time.Now().Add(freshTask); inside && task == "" && err == nil && time.Now().Before(until); {
		time.Sleep(freshTask / 100)
		task, inside, err = supervise.Whose(c.tasks, from.p.PID)
	}
	if err == nil && from.p.Gone() {
		err = errors.New("the process that asks has ended")
	}
	if err != nil {
		who.Inside, who.Why = true, err.Error()
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
		who.As, err = c.by(id)
	}
	if err != nil {
		who.Why = err.Error()
		return who
	}
	who.AsName = c.name(who.As)
	return who
}

// submitted is who signed what a task runs here, as it was found when the task was let in: what the
// ledger has of its job by now may be of somebody else.
func (n *Node) submitted(id taskstate.TaskID) (taskstate.PeerID, error) {
	switch by, runs := n.guard.By(id); {
	case !runs:
		return "", fmt.Errorf("%s has ended", id)
	case by == "":
		return "", errors.New("nobody signed its job")
	default:
		return by, nil
	}
}

// openGate draws the token of this start, for who can read the data folder.
func (n *Node) openGate() *api.Gate {
	g := &api.Gate{Self: n.self, Note: n.noted, Reads: n.readers.All}
	if n.cfg.Machine.API != nil {
		return g // whoever simulates this machine may do everything
	}
	path := api.TokenPath(n.folder.dir)
	g.Token = api.NewToken()
	err := atomicfile.Write(path, []byte(g.Token+"\n"))
	if err == nil {
		return g
	}
	if old, wrong := os.ReadFile(path); wrong == nil && len(old) > 1 { // a disk that is full takes no new one
		g.Token = strings.TrimSpace(string(old))
		return g
	}
	n.log.Error("administration has no token: `peer ticket` and its like are refused until this peer is started again with room on its disk", "err", err)
	return g
}
