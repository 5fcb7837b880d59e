package p2p

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// timedOut is a stream that ends with a timeout whenever it is read or written.
type timedOut struct{ network.Stream }

type timeout struct{}

func (timeout) Error() string   { return "keepalive timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return false }

func (timedOut) Read([]byte) (int, error)         { return 0, timeout{} }
func (timedOut) Write([]byte) (int, error)        { return 0, timeout{} }
func (timedOut) SetReadDeadline(time.Time) error  { return nil }
func (timedOut) SetWriteDeadline(time.Time) error { return nil }

var _ net.Error = timeout{}

// Who looks at a silent stream now and then would look for ever, without a pause.
func TestAConnectionThatTimedOutIsNoDeadlineThatHasPassed(t *testing.T) {
	c := newConn(timedOut{}, false)
	read := func() error { _, err := c.Read(make([]byte, 1)); return err }
	write := func() error { _, err := c.Write([]byte{1}); return err }
	for name, x := range map[string]struct {
		do  func() error
		set func(time.Time) error
	}{"read": {read, c.SetReadDeadline}, "write": {write, c.SetWriteDeadline}} {
		if err := x.do(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s without a deadline: %v", name, err)
		}
		_ = x.set(time.Now().Add(time.Hour))
		if err := x.do(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s before its deadline: %v", name, err)
		}
		_ = x.set(time.Now().Add(-time.Millisecond))
		if err := x.do(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s after its deadline: %v", name, err)
		}
	}
}
