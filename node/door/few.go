package door

import (
	"net"
	"sync"

	"github.com/coveyproject/covey/internal/limit"
)

// How many connections are served at once: in all, and of one address. Others are hung up on, so
// that who holds many keeps nobody busy.
const (
	maxConns = 256
	maxEach  = 64
)

// few is a listener that hangs up on what is too much.
type limitedListener struct {
	net.Listener
	limit *limit.Limit
}

func newFew(l net.Listener) *limitedListener {
	return &limitedListener{l, limit.New(maxConns, maxEach)}
}

// Accept implements net.Listener.
func (f *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		who, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		if f.limit.Enter(who) {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { f.limit.Leave(who) })}, nil
		}
		_ = c.Close()
	}
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.leave()
	return c.Conn.Close()
}
