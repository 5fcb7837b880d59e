package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
)

// wordedAddrs is how many addresses an error names; a person looks at the first few.
const wordedAddrs = 4

// Why says in one line why a Dial or Connect failed, without the peer's id and the protocol, for
// people who know whom they asked. Of other errors it is their text.
func Why(err error) string {
	if d, ok := errors.AsType[*dialError](err); ok {
		return d.Error()
	}
	return oneLine(err.Error())
}

// wordDial says in one line what was tried and what came of it: libp2p lists every transport of
// every address on lines of their own.
func wordDial(err error) string {
	var de *swarm.DialError
	if !errors.As(err, &de) {
		return oneLine(err.Error())
	}
	switch {
	case errors.Is(de.Cause, swarm.ErrNoAddresses):
		return "none of its addresses is known here"
	case errors.Is(de.Cause, swarm.ErrNoGoodAddresses) && len(de.DialErrors) == 0:
		return "none of its addresses can be dialled from here"
	case errors.Is(de.Cause, swarm.ErrGaterDisallowedConnection):
		return "it is cut off from this peer"
	}
	var order []string
	why := map[string]string{}
	for i := range de.DialErrors {
		t := &de.DialErrors[i]
		place := wordAddr(t.Address)
		was, known := why[place]
		if !known {
			order = append(order, place)
		}
		if now := wordCause(t.Cause); !known || weight(now) > weight(was) {
			why[place] = now // TCP and QUIC of one address: the more telling of the two
		}
	}
	if len(order) == 0 {
		return wordCause(de.Cause)
	}
	return wordPlaces(order, why, de.Skipped)
}

func wordPlaces(order []string, why map[string]string, more int) string {
	var b strings.Builder
	for i, place := range order[:min(wordedAddrs, len(order))] {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", place, why[place])
	}
	if more += max(0, len(order)-wordedAddrs); more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	return b.String()
}

// wordAddr is host:port, or the relay it leads through.
func wordAddr(a ma.Multiaddr) string {
	if isRelay(a) {
		relay, _ := a.ValueForProtocol(ma.P_P2P) // the first one is the relay's
		if len(relay) > 8 {
			relay = "…" + relay[len(relay)-8:]
		}
		return "through relay " + relay
	}
	if ap, ok := hostAndPort(a); ok {
		return ap.String()
	}
	return a.String()
}

const (
	causeSilent = "no answer"
	causeEnded  = "given up before an answer came"
)

func wordCause(err error) string {
	var other sec.ErrPeerIDMismatch
	var timeout net.Error
	switch {
	case err == nil:
		return causeSilent
	case errors.As(err, &other):
		return "another peer lives there, " + other.Actual.String()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused, no peer listens there"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way from here to that network"
	case errors.Is(err, swarm.ErrGaterDisallowedConnection):
		return "it is cut off from this peer"
	case errors.Is(err, swarm.ErrDialTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return causeSilent
	case errors.Is(err, context.Canceled):
		return causeEnded
	}
	return oneLine(err.Error())
}

// weight orders causes by how much they tell.
func weight(cause string) int {
	switch cause {
	case causeEnded:
		return 0
	case causeSilent:
		return 1
	}
	return 2
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
