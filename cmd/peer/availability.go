package main

import (
	"context"
	"fmt"
	"io"

	"github.com/coveyproject/covey/node/api"
)

// whichPeer says what stands for a peer on a command line.
const whichPeer = "a peer: its id, a unique part of it, its name, or `self` (the one that is asked)"

func avail(ctx context.Context, c *cli, peer string, a api.Availability, said string) error {
	p, err := c.client().SetAvailability(ctx, peer, a)
	return emit(c, err, p, []api.Peer{p.Peer}, func(io.Writer) { fmt.Fprintf(c.Err, "%s %s\n", peerCalled(p.Peer), said) })
}
