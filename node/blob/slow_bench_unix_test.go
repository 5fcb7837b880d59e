//go:build unix

package blob

import (
	"context"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p"
)

// BenchmarkSlowLink fetches 12 MB over a link of 10 Mbit/s, and tells how long a short question on
// the same connection waits meanwhile.
//
//	go test ./node/blob -run '^$' -bench SlowLink -benchtime 1x
func BenchmarkSlowLink(b *testing.B) {
	const echo = "/echo/1"
	data := noise(12<<20, 1)
	from, _ := disk(b, data)
	source, fetcher := benchHost(b, slowLink(1.25e6)), benchHost(b, slowLink(1.25e6))
	srv := Serve(source, Shelved(from), ServerConfig{})
	defer srv.Close()
	source.Handle(echo, func(_ string, c net.Conn) { defer c.Close(); _, _ = io.Copy(c, c) })
	fetcher.SetAddrs(source.Self(), source.Addrs())
	ask := pinger(b, fetcher, source.Self(), echo)
	b.SetBytes(int64(len(data)))
	var waits []time.Duration
	for b.Loop() {
		waits = append(waits, fetchAndAsk(b, fetcher, source.Self(), data, ask)...)
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Milliseconds()), "p99-ms")
	b.ReportMetric(float64(waits[len(waits)-1].Milliseconds()), "max-ms")
}

// fetchAndAsk is how long answers took while a blob was fetched.
func fetchAndAsk(b *testing.B, fetcher *p2p.Host, source string, data []byte, ask func() time.Duration) (waits []time.Duration) {
	to, _ := disk(b)
	keep := Keep(to, true)
	defer keep.Close()
	f := Fetcher{Net: fetcher, Self: fetcher.Self(), Keep: keep}
	ended := make(chan error, 1)
	go func() {
		_, err := f.Fetch(b.Context(), Request{Peers: func() []string { return []string{source} }, Wants: slices.Values([]Want{{piece.Sum(data), -1}})})
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				b.Fatal(err)
			}
			return waits
		case <-time.After(20 * time.Millisecond):
			waits = append(waits, ask())
		}
	}
}

func pinger(b *testing.B, h *p2p.Host, to, protocol string) func() time.Duration {
	c, err := h.Dial(b.Context(), to, protocol)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	one := make([]byte, 1)
	return func() time.Duration {
		begun := time.Now()
		if _, err := c.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, one); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
}

// slowLink is TCP of this machine at a rate, in bytes per second and direction.
type slowLink float64

func (l slowLink) Listen(at netip.AddrPort) (net.Listener, error) {
	inner, err := net.Listen("tcp", at.String())
	return slowListener{inner, l}, err
}

func (l slowLink) Dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: c, rate: l}, nil
}

type slowListener struct {
	net.Listener
	rate slowLink
}

func (l slowListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &slowConn{Conn: c, rate: l.rate}, nil
}

// slowConn is read no faster than the link is.
type slowConn struct {
	net.Conn
	rate slowLink
	free time.Time // when what was read so far has passed
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), 3000)])
	if now := time.Now(); now.Sub(c.free) > 20*time.Millisecond { // what was slept too long is made up for
		c.free = now
	}
	c.free = c.free.Add(time.Duration(float64(n) / float64(c.rate) * float64(time.Second)))
	time.Sleep(time.Until(c.free))
	return n, err
}
