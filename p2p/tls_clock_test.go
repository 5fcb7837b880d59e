package p2p

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
)

// A machine without a battery begins years ago, until somebody tells it the time.
func TestClocksThatDifferByYearsKeepNobodyApart(t *testing.T) {
	late, _ := identity(t) // made today
	synctest.Test(t, func(t *testing.T) {
		early, _ := identity(t) // made in the year 2000, and the other is looked at then
		if y := time.Now().Year(); y > 2001 {
			t.Fatalf("it is %d", y)
		}
		here, there := shake(t, early, late)
		if here.RemotePeer() != late.self || there.RemotePeer() != early.self {
			t.Error("somebody else was proven")
		}
	})
}

func TestWhoIsNotTheOneThatWasDialledIsRefused(t *testing.T) {
	a, _ := identity(t)
	b, _ := identity(t)
	c, _ := identity(t)
	x, y := net.Pipe()
	defer x.Close()
	defer y.Close()
	go func() { _, _ = b.SecureInbound(t.Context(), y, "") }()
	_, err := a.SecureOutbound(t.Context(), x, c.self)
	if err == nil || wordCause(err) != "another peer lives there, "+b.self.String() {
		t.Fatal(err)
	}
}

func identity(t testing.TB) (*tlsSecurity, crypto.PrivKey) {
	t.Helper()
	key, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	s, err := newTLS(key)
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

// shake secures both ends of a pipe.
func shake(t testing.TB, a, b sec.SecureTransport) (here, there sec.SecureConn) {
	t.Helper()
	x, y := net.Pipe()
	return secure(t, a, b, x, y, "")
}

func secure(t testing.TB, a, b sec.SecureTransport, x, y net.Conn, to peer.ID) (here, there sec.SecureConn) {
	t.Helper()
	t.Cleanup(func() { x.Close(); y.Close() })
	ended := make(chan error, 1)
	go func() {
		var err error
		there, err = b.SecureInbound(context.Background(), y, "")
		ended <- err
	}()
	here, err := a.SecureOutbound(context.Background(), x, to)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return here, there
}
