// Package p2p carries authenticated bytes between named peers: identity, host, admission gate, streams, topics. It knows nothing
// of tasks.
//
// A peer is named by its peer id, which is its ed25519 public key. Everything above asks for a stream to a name and a protocol
// ([Net]); where that name lives, by which transport it is reached, and whether a relay stands between, is settled here.
//
// # Who may come in
//
// Config.Admitted is asked on every inbound stream, not only once per connection, so that a removed peer loses the right at the
// next stream. Peers it does not know are strangers: they may open only the protocols of Config.Strangers, few at a time, briefly,
// and may send little. The gate stands in front of every handler on every transport, relay included.
//
// # Errors that tell what to do
//
// Dial fails within three seconds. [Refused] tells a process that is gone (its machine answered "nobody listens") from silence:
// only the first is evidence of death. [ErrNotAdmitted] ends a Connect to a cluster that does not know us.
//
// # What it does not
//
// It does not find out who belongs to the cluster (membership), does not decide who is admitted (admission), and promises no
// delivery: a topic is a hint, a stream may break at any byte.
package p2p
