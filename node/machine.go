package node

import (
	"net"

	"covey/dispatch"
	"covey/node/api"
	"covey/node/runner"
	"covey/p2p"
	"covey/taskstate"
)

// Machine is what a peer uses of the machine it runs on. A nil field is the machine's own; simulations bring theirs.
type Machine struct {
	Sockets p2p.Sockets  // TCP; without the machine's own there is neither QUIC nor mDNS
	API     net.Listener // where the local API is served, in place of the socket in the data folder; Run closes it
	// Runner makes what runs tasks; it reports to sink.
	Runner func(sink func(taskstate.RunReport)) (Runner, error)
}

// Runner runs tasks, for the worker, and knows whose output still grows.
type Runner interface {
	dispatch.Runner
	// Live tells whether a task may still write, and gives a channel that is closed when its output is complete.
	Live(id taskstate.TaskID) (over <-chan struct{}, live bool)
	// Close stops every task as interrupted and returns when all reports are delivered.
	Close() error
}

// newRunner makes what runs tasks.
func (n *Node) newRunner() (Runner, error) {
	sink := func(r taskstate.RunReport) { n.worker.Report(r) }
	if n.cfg.Machine.Runner != nil {
		return n.cfg.Machine.Runner(sink)
	}
	r, err := runner.New(runner.Config{Dir: n.folder.path("tasks"), Sink: sink, Log: n.log})
	if err != nil {
		return nil, err // not r: a nil *runner.Runner would be a Runner that is not nil
	}
	return r, nil
}

// listenAPI opens where people ask this peer.
func (n *Node) listenAPI() (net.Listener, error) {
	if n.cfg.Machine.API != nil {
		return n.cfg.Machine.API, nil
	}
	return api.Listen(api.SocketPath(n.folder.dir))
}
