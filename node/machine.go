package node

import (
	"net"
	"os"

	"covey/dispatch/worker/journal"
	"covey/node/api"
	"covey/node/runner"
	"covey/node/runner/supervise"
	"covey/p2p"
	"covey/taskstate"
)

// Machine is what a peer uses of the machine it runs on. A nil field is the machine's own;
// simulations bring theirs.
type Machine struct {
	Sockets p2p.Sockets  // TCP; without the machine's own there is neither QUIC nor mDNS
	API     net.Listener // where the local API is served, in place of the socket in the data folder; Run closes it
	// Runner makes what runs tasks; it reports to sink.
	Runner func(sink func(taskstate.RunReport)) (Runner, error)
	// Room is how the disk with the data folder stands.
	Room func() (supervise.Room, error)
	// Journal replaces what opens the worker's journal, which it is given: a disk that takes its
	// time.
	Journal func(open journal.Opener) journal.Opener
}

// Runner runs tasks, for the worker, and knows whose output still grows.
type Runner interface {
	runner.Executor
	// Lasting tells whether processes go on when this peer ends, and its next start takes them up
	// again.
	Lasting() bool
}

// newRunner makes what runs tasks.
func (n *Node) newRunner() (Runner, error) {
	sink := func(r taskstate.RunReport) { n.worker.Report(n.room.addTo(r)) }
	if n.cfg.Machine.Runner != nil {
		return n.cfg.Machine.Runner(sink)
	}
	cfg := runner.Config{Dir: TasksFolder(n.folder.dir), Log: n.log, Copied: n.moved, Stdin: n.feeds}
	if n.cfg.Testnet {
		cfg.Guard = os.Getppid() // nothing of a testnet outlives it
	}
	r, err := runner.New(sink, cfg)
	if err != nil {
		return nil, err // not r: a nil *runner.Runner would be a Runner that is not nil
	}
	return r, nil
}

// listenAPI opens where people ask this peer.
func (m Machine) listenAPI(dir string) (net.Listener, error) {
	if m.API != nil {
		return m.API, nil
	}
	return api.Listen(api.SocketPath(dir))
}
