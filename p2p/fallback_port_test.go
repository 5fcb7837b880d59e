package p2p_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

func TestAPeerThatMovedIsFoundAtItsFallbackPort(t *testing.T) {
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.LocalAddr().(*net.UDPAddr).Port
	a := start(t, everybody())
	moved := start(t, everybody(), func(c *p2p.Config) { c.Key, c.Sought, c.Prefer = key, true, port })
	was := []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", port)}
	if err := connect(t, a, moved.Self(), was); err == nil {
		t.Fatal("it is where it was")
	}
	if err := again(ctx(t), func() error { return a.Seek(ctx(t), moved.Self(), was) }); err != nil {
		t.Fatal(err)
	}
	if got := moved.Addrs(); len(got) != 2 || !strings.Contains(got[0], fmt.Sprint("/", moved.Port())) {
		t.Errorf("it tells others of %q, its port is %d", got, moved.Port())
	}
}

func TestAPeerThatStayedHasNoFallbackPort(t *testing.T) {
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]func(*p2p.Config){
		"whom nobody looks for": func(c *p2p.Config) { c.Key, c.Prefer = key, 1 },
		"where it was":          func(c *p2p.Config) { c.Key, c.Sought, c.Listen = key, true, []string{"127.0.0.1:0"} },
	} {
		h := start(t, everybody(), c)
		if what == "where it was" { // again, at the same port
			for range 5 {
				port := h.Port()
				h.Close()
				h = start(t, everybody(), c, func(c *p2p.Config) { c.Prefer = port })
				if h.Port() == port { // nobody else took it meanwhile
					break
				}
			}
		}
		if got := p2p.Listening(h); len(got) != 2 {
			t.Errorf("%s: it listens at %q", what, slices.Sorted(slices.Values(got)))
		}
		h.Close()
	}
}
