package node

import (
	"net"
	"os"

	"covey/dispatch/worker"
	"covey/dispatch/worker/journal"
	"covey/node/api"
	runner "covey/node/runner/process"
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
	worker.Runner
	// Live tells whether a task may still write, and gives a channel that is closed when its output
	// is complete. What is beyond limit may be cut away yet; 0: nothing will be.
	Live(id taskstate.TaskID) (over <-chan struct{}, limit int64, live bool)
	// Clean removes what tasks of a job left behind, when the job is forgotten.
	Clean(job taskstate.JobID) error
	// Lasting tells whether processes go on when this peer ends, and its next start takes them up
	// again.
	Lasting() bool
	// Close ends the runner. What lasts goes on; otherwise every task is stopped as interrupted.
	// All reports are delivered when it returns.
	Close() error
}

// newRunner makes what runs tasks.
func (n *Node) newRunner() (Runner, error) {
	sink := func(r taskstate.RunReport) { n.worker.Report(n.besidesRoom(r)) }
	if n.cfg.Machine.Runner != nil {
		return n.cfg.Machine.Runner(sink)
	}
	cfg := runner.Config{Dir: TasksFolder(n.folder.dir), Sink: sink, Log: n.log, Copied: n.moved, Stdin: n.feeds}
	if n.cfg.Testnet {
		cfg.Guard = os.Getppid() // nothing of a testnet outlives it
	}
	r, err := runner.New(cfg)
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
