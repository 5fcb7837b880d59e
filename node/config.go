package node

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/door"
	"github.com/coveyproject/covey/node/runner"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

// Config says how a peer lives. The zero value of everything but Data is a default.
type Config struct {
	Data      string   // data folder
	Join      string   // ticket
	Bootstrap []string // addresses to join through by hand
	Invite    string   // secret, with Bootstrap
	Open      bool     // found a cluster that anybody may join

	NewIdentity bool // give up the identity that the folder holds and draw another one; needs Join or Bootstrap
	Moved       bool // the folder was moved, and a person says that it is its only and newest copy; for this start

	Listen     []string // multiaddrs or host:port
	Announce   []string // further addresses to tell others
	Name       string   // default: the host's name
	Labels     map[string]string
	MilliCPU   int64            // offered; default: all
	Memory     int64            // offered, bytes; default: all
	Disk       int64            // offered, bytes; negative: none; default: what is free when it starts, but for a tenth of the disk
	Others     taskstate.Counts // offered, by name: gpus, licenses, whatever jobs ask for
	TaskUser   string           // the user of this machine whom tasks run as where the policy does not say; takes root
	NoMDNS     bool
	API        door.Listen // where the API is served over TCP, besides the socket; nowhere unless it is said
	Testnet    bool        // the API may cut this peer off from others
	Version    string
	KeepOutput int64            // bytes that the files of finished jobs may take here, and 16 times what copies of output may; default 16 GiB
	Store      int64            // bytes that copies of files for others may take here; negative: none; default: a fair share of the disk
	Now        func() time.Time // the machine's clock; default time.Now
	Say        func(string)     // tells a person, in a sentence, what the start waits for; default: the log
	// Ending is called when an orderly end takes long that may as well be cut short, as tasks go on
	// without the peer; it is over within limit.
	Ending  func(limit time.Duration)
	Log     *slog.Logger
	Machine Machine
}

// Machine is what a peer uses of the machine it runs on. A nil field is the machine's own;
// simulations bring theirs.
type Machine struct {
	Sockets p2p.Sockets  // TCP; without the machine's own there is neither QUIC nor mDNS
	API     net.Listener // where the local API is served, in place of the socket in the data folder; Run closes it
	// Runner makes what runs tasks; it reports to sink.
	Runner func(sink func(taskstate.RunReport)) (Runner, error)
	// Propose and Sessions stand before what decides here and what serves workers, while this peer
	// coordinates: so one in bad hands is played. Verify tells whether somebody signed something.
	Propose  func(next Propose) Propose
	Sessions func(serve func(peer string, c net.Conn)) func(peer string, c net.Conn)
	Verify   func(by taskstate.PeerID, data, sig []byte) error
	// StartWithin is how long a worker may leave undone what it has room for; 0: as it is for all.
	StartWithin time.Duration
	// Room is how the disk with the data folder stands.
	Room func() (supervise.Room, error)
	// Journal replaces what opens the worker's journal, which it is given: a disk that takes its
	// time.
	Journal func(open journal.Opener) journal.Opener
	Place   string // tells the data folder from a copy of it; "" asks the file system
}

// Propose has the ledger decide commands: see ledger.Ledger.
type Propose = func(context.Context, []ledger.Command) (uint64, []ledger.Result, error)

// decider is the ledger as one coordinates with it.
type decider struct {
	*quorum.Node
	propose Propose
}

// Propose implements ledger.Ledger.
func (d decider) Propose(ctx context.Context, commands []ledger.Command) (uint64, []ledger.Result, error) {
	return d.propose(ctx, commands)
}

func (m Machine) decides(l *quorum.Node) decider {
	if m.Propose == nil {
		return decider{l, l.Propose}
	}
	return decider{l, m.Propose(l.Propose)}
}

func (m Machine) sessions(serve func(peer string, c net.Conn)) func(peer string, c net.Conn) {
	if m.Sessions == nil {
		return serve
	}
	return m.Sessions(serve)
}

func (m Machine) verify(by taskstate.PeerID, data, sig []byte) error {
	if m.Verify == nil {
		return p2p.Verify(by, data, sig)
	}
	return m.Verify(by, data, sig)
}

// Runner runs tasks, for the worker, and knows whose output still grows.
type Runner interface {
	runner.Executor
	// Lasting tells whether processes go on when this peer ends, and its next start takes them up
	// again.
	Lasting() bool
}

// listenAPI opens where people ask this peer.
func (m Machine) listenAPI(dir string) (net.Listener, error) {
	if m.API != nil {
		return m.API, nil
	}
	return api.ListenIn(dir)
}
