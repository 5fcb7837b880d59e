package p2p_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

func TestCloseEndsEveryGoroutine(t *testing.T) {
	base := runtime.NumGoroutine()
	var hosts []*p2p.Host
	for range 3 {
		h := start(t, everybody(), func(c *p2p.Config) { c.Relay, c.MDNS = true, true })
		serveEcho(h)
		join(t, h)
		hosts = append(hosts, h)
	}
	for _, a := range hosts {
		for _, b := range hosts {
			if a != b {
				if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c, err := dial(t, hosts[0], hosts[1].Self(), echo) // a handler that is busy
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(c, "x")
	for _, h := range hosts {
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Read(make([]byte, 9)); err == nil {
		_, err = c.Read(make([]byte, 9))
		if err == nil {
			t.Fatal("a stream outlives its host")
		}
	}
	eventually(t, "all goroutines end", func() bool {
		if runtime.NumGoroutine() <= base {
			return true
		}
		return leaked() == ""
	})
}

// leaked returns the stack of a goroutine that runs our code or libp2p's, beside tests.
func leaked() string {
	buf := make([]byte, 1<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "testing.") {
			continue
		}
		if strings.Contains(g, "coveyproject/covey/") || strings.Contains(g, "libp2p") {
			return g
		}
	}
	return ""
}

// As many as one peer may have open of one protocol: none waits for another to end.
func TestManyStreamsAtOnceWork(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	serveEcho(b)
	a.SetAddrs(b.Self(), b.Addrs())
	const many = 256
	errs, all := make(chan error), make(chan struct{})
	door := make(chan struct{}, 16) // all are open in the end; but each has three seconds to be opened, and a slow machine one at a time
	var asking sync.WaitGroup
	for range many {
		asking.Go(func() {
			door <- struct{}{}
			c, err := opened(t, a, b.Self())
			if err == nil {
				defer c.Close()
			}
			<-door
			errs <- err
			<-all
		})
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	close(all)
	asking.Wait()
}

func TestAHandlerKnowsWhoCalls(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	who := make(chan string, 1)
	b.Handle("/who/1", func(p string, c net.Conn) { who <- p; c.Close() })
	a.SetAddrs(b.Self(), b.Addrs())
	c, err := dial(t, a, b.Self(), "/who/1")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "me")
	if got := <-who; got != a.Self() {
		t.Fatal(got)
	}
}
