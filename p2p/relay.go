package p2p

import (
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
)

type relayState struct{}

func (r *relayState) nudge()                       {}
func (r *relayState) addresses() []ma.Multiaddr    { return nil }
func (h *Host) startRelay() error                  { return nil }
func (h *Host) stopRelay()                         {}
func (h *Host) useRelays(transport.Upgrader) error { return nil }
