package door

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
)

// Connections that have shown no token are counted apart from those that have: anybody can open
// them, and they must not shut out callers with a token. The newest always gets in, so that it can
// show one; what it takes the place of is the oldest, of the address with the most.
const (
	maxNew   = 64               // connections without a token
	newTime  = 30 * time.Second // how long one stays open; long enough for the page over a slow link
	maxConns = 1024             // connections with a token, in all
	maxEach  = 64               // connections of one token
)

// limitedListener closes what exceeds the bounds.
type limitedListener struct {
	net.Listener
	limit *limit.Limit // of connections with a token, by its id

	mu  sync.Mutex
	new []*counted // without a token, oldest first
}

func newFew(l net.Listener) *limitedListener {
	return &limitedListener{Listener: l, limit: limit.New(maxConns, maxEach)}
}

// Accept implements net.Listener.
func (f *limitedListener) Accept() (net.Conn, error) {
	conn, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: conn, f: f, from: networkOf(conn.RemoteAddr())}
	f.mu.Lock()
	var out *counted
	if len(f.new) >= maxNew {
		out = greediest(f.new)
	}
	f.new = append(f.new, c)
	c.expire = time.AfterFunc(newTime, c.closeNew)
	f.mu.Unlock()
	if out != nil {
		out.closeNew()
	}
	return c, nil
}

// networkOf is what counts as one address: of IPv6 a /56, which one customer gets.
func networkOf(a net.Addr) netip.Prefix {
	at, _ := netip.ParseAddrPort(a.String())
	ip, bits := at.Addr().Unmap(), 32
	if ip.Is6() {
		bits = 56
	}
	p, _ := ip.Prefix(bits)
	return p
}

// greediest returns the oldest connection of the address with the most.
func greediest(list []*counted) (out *counted) {
	count := map[netip.Prefix]int{}
	for _, c := range list {
		count[c.from]++
	}
	for _, c := range list {
		if out == nil || count[c.from] > count[out.from] {
			out = c
		}
	}
	return out
}

// counted is a connection that is counted until it is closed. The listener's lock guards its state.
type counted struct {
	net.Conn
	f      *limitedListener
	from   netip.Prefix
	expire *time.Timer

	token  string // id of the token under which it counts; "" = it has shown none
	closed bool
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.f.mu.Lock()
	c.forget()
	c.f.mu.Unlock()
	return c.Conn.Close()
}

// closeNew closes the connection unless it has shown a token meanwhile.
func (c *counted) closeNew() {
	c.f.mu.Lock()
	proven := c.token != ""
	if !proven {
		c.forget()
	}
	c.f.mu.Unlock()
	if !proven {
		_ = c.Conn.Close()
	}
}

// forget ends the counting. The caller holds the lock.
func (c *counted) forget() {
	if c.closed {
		return
	}
	c.closed = true
	c.expire.Stop()
	if c.token != "" {
		c.f.limit.Leave(c.token)
	}
	c.f.new = slices.DeleteFunc(c.f.new, func(o *counted) bool { return o == c })
}

// prove counts the connection under the first token that it shows. It reports false if that token
// has too many connections.
func (c *counted) prove(token string) bool {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	switch {
	case c.closed || c.token != "":
		return true
	case !c.f.limit.Enter(token):
		return false
	}
	c.token = token
	c.expire.Stop()
	c.f.new = slices.DeleteFunc(c.f.new, func(o *counted) bool { return o == c })
	return true
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// withConn implements http.Server.ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, conn)
}

// proven reports whether a request with this token may go on: its connection counts as the token's.
func proven(ctx context.Context, token string) bool {
	c, ok := ctx.Value(connKey{}).(*counted)
	return !ok || c.prove(token)
}
