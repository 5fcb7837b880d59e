// Package api is the local HTTP API of a peer: its types, defined once here, its client, and its
// server over a Backend.
//
// The API listens on a unix socket in the peer's data folder that only its owner may open; it has
// no other authentication. Every answer is JSON; lists carry when they were true (as_of). Streams
// are JSON lines. Errors are {"error": {"code", "message"}} with a code that the command line turns
// into its exit code.
package api
