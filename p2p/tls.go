package p2p

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// tlsSecurity is libp2p's TLS 1.3 with certificates that are valid at any time. Those of
// libp2p's own transport begin an hour before they are made, and a machine whose clock is behind,
// as one without a battery after a start, would refuse everybody's. What proves a peer is its
// key's signature in the certificate, not the date.
type tlsSecurity struct {
	self     peer.ID
	identity *libp2ptls.Identity
}

// plainALPN is what TLS agrees on with peers that choose the muxer later.
const plainALPN = "libp2p"

func newTLS(key crypto.PrivKey) (*tlsSecurity, error) {
	self, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return nil, err
	}
	identity, err := libp2ptls.NewIdentity(key, libp2ptls.WithCertTemplate(&x509.Certificate{
		SerialNumber: serial,
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC),
		Subject:      pkix.Name{SerialNumber: serial.String()}, // no certificate is without an issuer
	}))
	return &tlsSecurity{self, identity}, err
}

// ID implements sec.SecureTransport.
func (*tlsSecurity) ID() protocol.ID { return libp2ptls.ID }

// SecureInbound implements sec.SecureTransport. An empty p is any peer.
func (t *tlsSecurity) SecureInbound(ctx context.Context, c net.Conn, p peer.ID) (sec.SecureConn, error) {
	return t.shake(ctx, c, p, tls.Server)
}

// SecureOutbound implements sec.SecureTransport.
func (t *tlsSecurity) SecureOutbound(ctx context.Context, c net.Conn, p peer.ID) (sec.SecureConn, error) {
	return t.shake(ctx, c, p, tls.Client)
}

// shake chooses the muxer on the way, which saves a round trip.
func (t *tlsSecurity) shake(ctx context.Context, c net.Conn, p peer.ID, as func(net.Conn, *tls.Config) *tls.Conn) (sec.SecureConn, error) {
	config, proven := t.identity.ConfigForPeer(p)
	config.NextProtos = []string{yamux.ID, plainALPN}
	s := &tlsConn{Conn: as(c, config), self: t.self}
	if err := s.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, err
	}
	select {
	case s.key = <-proven:
	default:
	}
	if s.key == nil {
		c.Close()
		return nil, errors.New("the TLS handshake ended without a key of the other side")
	}
	var err error
	if s.peer, err = peer.IDFromPublicKey(s.key); err != nil {
		c.Close()
		return nil, fmt.Errorf("the other side's key: %w", err)
	}
	return s, nil
}

// tlsConn is a connection to a peer that proved who it is.
type tlsConn struct {
	*tls.Conn
	self, peer peer.ID
	key        crypto.PubKey
}

func (c *tlsConn) LocalPeer() peer.ID             { return c.self }
func (c *tlsConn) RemotePeer() peer.ID            { return c.peer }
func (c *tlsConn) RemotePublicKey() crypto.PubKey { return c.key }

func (c *tlsConn) ConnState() network.ConnectionState {
	muxer := c.ConnectionState().NegotiatedProtocol
	if muxer == plainALPN {
		muxer = ""
	}
	return network.ConnectionState{StreamMultiplexer: protocol.ID(muxer), UsedEarlyMuxerNegotiation: muxer != ""}
}
