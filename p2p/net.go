package p2p

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// Net opens and serves streams between named peers. Host implements it on libp2p, memnet.Host in
// memory.
type Net interface {
	// Self is the own peer id.
	Self() string
	// Dial opens a stream to peer. It fails within three seconds, or when ctx ends; Refused tells
	// why. The caller closes it.
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
	// Handle serves protocol: h runs in its own goroutine for each inbound stream and closes c. A
	// nil h stops serving.
	Handle(protocol string, h func(peer string, c net.Conn))
}

// Refused tells whether a dial failed because the other machine answered that nobody listens there:
// the process is gone. A timeout, a cut cable and a protocol that is not served are not refusals;
// nor is a refusal by a relay, or by an address that we were not connected to before (in another
// private network, the same numbers may be somebody else's machine).
func Refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
