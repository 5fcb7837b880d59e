package p2p

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	mss "github.com/multiformats/go-multistream"

	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
)

// ErrOld is what a peer comes to that runs version 0.1: it does not understand this one.
var ErrOld = errors.New("that peer runs version 0.1, which does not understand this version: install this version there and restart it")

// helloFrame is both frames of the hello protocol. A stranger is told that it is one, and nothing
// else.
type helloFrame struct {
	Version  string       `cbor:"1,keyasint,omitempty"`
	Admitted bool         `cbor:"2,keyasint,omitempty"` // the answer: whether the asking peer is
	Start    starts.Start `cbor:"3,keyasint,omitzero"`
}

// helloCap bounds a helloFrame in bytes, and maxVersion the version in it.
const (
	helloCap   = 512
	maxVersion = 64
)

func (h *Host) own(member bool) helloFrame {
	if !member {
		return helloFrame{}
	}
	return helloFrame{Version: h.cfg.Version[:min(len(h.cfg.Version), maxVersion)], Admitted: true, Start: h.cfg.Start}
}

// hello asks whether we are admitted.
func (h *Host) hello(ctx context.Context, p peer.ID) error {
	s, err := h.open(ctx, p, HelloProtocol)
	if err != nil {
		return h.older(p, err)
	}
	c := newConn(s, false)
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })()
	member := h.cfg.Admitted(p.String())
	if err := wire.NewWriter(c, helloCap).Send(h.own(member)); err != nil {
		return err
	}
	var g helloFrame
	if err := wire.NewReader(c, helloCap).Read(&g); err != nil {
		return h.older(p, err)
	}
	h.greeted(p, member, g)
	if !g.Admitted {
		return ErrNotAdmitted
	}
	return nil
}

// turnedAway tells whether an error is the other side's word that it does not speak a protocol, or
// was too busy to say so in time. libp2p opens streams before it knows, so that the word may come
// late, as a reset.
func turnedAway(err error) bool {
	var none mss.ErrNotSupported[protocol.ID]
	var reset *network.StreamError
	return errors.As(err, &none) ||
		errors.As(err, &reset) && reset.Remote && reset.ErrorCode == network.StreamProtocolNegotiationFailed
}

// older makes an error of one that has nothing but the hello of version 0.1.
func (h *Host) older(p peer.ID, err error) error {
	if !turnedAway(err) {
		return err
	}
	old, e := h.sw.Peerstore().SupportsProtocols(p, oldHello)
	if e != nil || len(old) == 0 {
		return err
	}
	if h.cfg.OnOld != nil {
		h.cfg.OnOld(p.String())
	}
	return fmt.Errorf("peer %s: %w", p, ErrOld)
}

func (h *Host) greeted(p peer.ID, member bool, g helloFrame) {
	if member && !g.Start.IsZero() && h.cfg.OnHello != nil {
		h.cfg.OnHello(p.String(), g.Start)
	}
}

func (h *Host) serveHello(s network.Stream, stranger bool) {
	defer s.Close()
	s.SetDeadline(time.Now().Add(strangerTime))
	var g helloFrame
	if err := wire.NewReader(s, helloCap).Read(&g); err != nil {
		return
	}
	if err := wire.NewWriter(s, helloCap).Send(h.own(!stranger)); err != nil {
		return
	}
	if !stranger {
		h.greeted(s.Conn().RemotePeer(), true, g)
		h.topics.lookAgain(s.Conn().RemotePeer())
	}
}

// second tells of another connection to a peer that has one.
func (h *Host) second(p peer.ID) {
	if h.cfg.OnSecond != nil && len(h.sw.ConnsToPeer(p)) > 1 {
		h.cfg.OnSecond(p.String())
	}
}

// OnEach opens a stream on every connection to a peer that stands, direct or relayed: to ask on
// each who is at its other end. It dials nobody. The caller closes them.
func (h *Host) OnEach(ctx context.Context, peerID, name string) (streams []net.Conn) {
	p, err := peer.Decode(peerID)
	if err != nil {
		return nil
	}
	ctx = network.WithAllowLimitedConn(ctx, name)
	for _, c := range h.sw.ConnsToPeer(p) {
		if s, err := onConn(ctx, c, protocol.ID(name)); err == nil {
			streams = append(streams, newConn(s, false))
		}
	}
	return streams
}

// onConn opens a stream on one connection.
func onConn(ctx context.Context, c network.Conn, name protocol.ID) (network.Stream, error) {
	s, err := c.NewStream(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.SetProtocol(name); err != nil {
		_ = s.Reset()
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = s.SetDeadline(deadline)
	}
	if err := mss.SelectProtoOrFail(name, s); err != nil {
		_ = s.Reset()
		return nil, err
	}
	return s, nil
}
