// Package p2p carries authenticated bytes between named peers: identity, host, admission gate,
// streams, topics. It knows nothing of tasks. TCP connections are secured with TLS, or with Noise
// where the other side does not know that (tls.go); QUIC secures itself.
//
// A peer is named by its peer id, which is its ed25519 public key. Everything above asks for a
// stream to a name and a protocol ([Net]); where that name lives, by which transport it is reached,
// and whether a relay stands between, is settled here.
//
// # Who may come in
//
// Config.Admitted is asked on every inbound stream, not only once per connection, so that a removed
// peer loses the right at the next stream. Peers it does not know are strangers: they may open only
// the protocols of Config.Strangers, few at a time, briefly, and may send little. The gate stands
// in front of every handler on every transport, relay included.
//
// What the gate cannot be asked about yet – handshakes of nobody knows whom, streams that name no
// protocol, strangers that sit there – is bounded on a connLimits in front of it: a resource
// manager of our own (connLimits.go).
//
// # Errors that tell what to do
//
// Dial fails within three seconds, or within some round trips where the peer is known to be far
// away (package far). [Refused] tells a process that is gone (its machine answered "nobody
// listens") from silence: only the first is evidence of death. [ErrNotAdmitted] ends a Connect to a
// cluster that does not know us.
//
// # Peers that cannot be reached
//
// With Config.Relay a peer asks a few of those it talks to to dial it back. While one of them
// cannot, it keeps a place at two relays and tells their addresses ([Host.Addrs]): relays are
// admitted peers that it could open a connection to itself. Every peer relays for the roster, and
// for nobody else. Two peers that talk through a relay then try for a direct connection over QUIC,
// and use it for new streams once it stands.
//
// # What goes on inside
//
// A [Host] is made of parts that own their fields: life counts what Close waits for, listeners is
// where it listens, gate and connLimits are who may come in, peers is who is connected, silence
// closes connections that say nothing, topics is GossipSub, relays keeps places at relays and looks
// for a direct way beside them.
//
// One goroutine looks after connections of strangers while there are any, one after relays if they
// are on, two after mDNS; the rest is libp2p's. Callbacks run one at a time on libp2p's goroutines
// and must not call the host back. [Host.Recheck] is to be called when the roster has changed:
// removed peers are cut off, newly admitted ones get their topics.
//
// # What it does not
//
// It does not find out who belongs to the cluster (membership), does not decide who is admitted
// (admission), and promises no delivery: a topic is a hint, a stream may break at any byte.
package p2p
