package p2p

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/coveyproject/covey/p2p/starts"
)

// DefaultPort is TCP and UDP.
const DefaultPort = 26839

// HelloProtocol tells a caller whether it is admitted. Every host serves it, to strangers too.
const HelloProtocol = "/covey/hello/2"

// oldHello is what version 0.1 serves in its place.
const oldHello = "/covey/hello/1"

// What a stranger may cost, and how long anything of ours may take.
const (
	dialTimeout       = 3 * time.Second
	admittedStreams   = 256 // at once, of one protocol, each admitted peer: more than any part of ours opens
	strangerStreams   = 4   // at once, each
	strangerTime      = 20 * time.Second
	strangerBytes     = 4 << 10 // that we read from one stream
	strangerConns     = 128     // inbound connections of strangers, all together; then the idlest goes
	strangerConnTime  = 30 * time.Second
	unknownDialedTime = 2 * time.Minute // a connection we opened to a peer that is not (yet) in our roster
)

// Config is what a Host is made from. Key is required; the rest has defaults.
type Config struct {
	Key crypto.PrivKey

	// Listen has IPs, IP:port pairs or multiaddrs (/ip4/…, /ip4/…/tcp/…); empty listens on every
	// interface. Each is listened on with TCP and QUIC on one port; one given here holds for that
	// address, 0 means Prefer or a free one.
	Listen []string
	// Announce are addresses to tell others beside those found, as multiaddr or host:port: a
	// forwarded port, a name.
	Announce []string
	// Prefer is the port of the last run, or 0: it is tried before DefaultPort and a free one.
	Prefer int
	// Sought has a peer that listens elsewhere than on Prefer keep a fallback port besides, where
	// others that know its id find it: they may be looking for it where it was.
	Sought bool

	// Admitted is asked for every inbound stream; it must be quick and safe for concurrent use. nil
	// admits nobody. After its answers have changed, call Host.Recheck.
	Admitted func(peer string) bool
	// Strangers are the protocols that peers which are not admitted may open.
	Strangers []string

	// MDNS looks for peers on the local networks. It is off when only loopback is listened on.
	MDNS bool
	// OnFound hears of peers seen by mDNS, admitted or not, repeatedly. It must be quick. A
	// neighbour may answer before New has returned, so it is told by which host.
	OnFound func(by *Host, peer string, addrs []string)

	// Relay serves circuits to admitted peers, and keeps relays for ourselves while we cannot be
	// reached directly.
	Relay bool
	// RelayCheck is how often reachability and relays are looked after when nothing happens; 0
	// means five minutes.
	RelayCheck time.Duration

	// Sockets are TCP without the machine's own; nil is the machine's. With others there is no
	// QUIC.
	Sockets Sockets

	// Slowable has the host's connections pass a line of its own, which Host.Slow limits: a
	// testnet's way to hurt it. It is of no account with Sockets.
	Slowable bool

	// Peers is how many admitted peers to be ready for; 0 means 500.
	Peers int

	// Version of this program, and which start of it this is: told with every hello. Optional.
	Version string
	Start   starts.Start
	// OnHello hears what admitted peers told with theirs. OnOld hears of peers of a version that
	// does not understand this one. OnSecond hears that there is another connection to an admitted
	// peer that has one already: the same process, its successor, or a copy of it. OnNotAdmitted
	// hears of a peer each time that its gate turns away a stream of this one; Connect says so
	// itself. All may be called by anybody, must be quick and must not call the host back.
	// Optional.
	OnHello       func(peer string, start starts.Start)
	OnOld         func(peer string)
	OnSecond      func(peer string)
	OnNotAdmitted func(peer string)

	Log *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Key == nil {
		return c, errors.New("p2p: a host needs a key")
	}
	if c.Admitted == nil {
		c.Admitted = func(string) bool { return false }
	}
	if c.Peers <= 0 {
		c.Peers = 500
	}
	if c.RelayCheck <= 0 {
		c.RelayCheck = 5 * time.Minute
	}
	if c.OnNotAdmitted == nil {
		c.OnNotAdmitted = func(string) {}
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}
