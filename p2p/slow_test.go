package p2p_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p"
)

// On either transport, dialled or listened for, a slowed host's bytes cannot be faster than its
// line, and are the same bytes.
func TestASlowedHostIsNoFasterThanItsLine(t *testing.T) {
	t.Parallel() // it mostly waits
	const rate, size = 1_000_000, 300_000
	data := bytes.Repeat([]byte("0123456789"), size/10)
	for _, quic := range []bool{false, true} {
		for _, dials := range []bool{false, true} {
			slow := start(t, everybody(), func(c *p2p.Config) { c.Slowable = true })
			other := start(t, everybody())
			slow.Slow(rate)
			from, to := other, slow
			if dials {
				from, to = slow, other
			}
			to.Handle("/bulk/1", func(_ string, c net.Conn) {
				defer c.Close()
				b := make([]byte, size)
				if _, err := io.ReadFull(c, b); err == nil {
					_, _ = c.Write(b)
				}
			})
			from.SetAddrs(to.Self(), transportOf(to.Addrs(), quic))
			c, err := dial(t, from, to.Self(), "/bulk/1")
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			go func() { _, _ = c.Write(data) }()
			got := make([]byte, size)
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("quic %v, dials %v: other bytes, %v", quic, dials, err)
			}
			if d, least := time.Since(begun), 2*size*time.Second/rate; d < least {
				t.Errorf("quic %v, dials %v: there and back in %v, faster than the line: %v", quic, dials, d, least)
			}
			slow.Slow(0)
			c.Close()
		}
	}
}
