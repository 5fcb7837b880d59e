package p2p_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p"
)

// A handshake that the other side has taken up is work for both: who asked for it may leave, and
// the next who asks finds the connection.
func TestAHandshakeUnderWayIsFinishedWhenNobodyWaitsForItAnyMore(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	to, err := net.Dial("tcp", "127.0.0.1:"+path.Base(transportOf(b.Addrs(), false)[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	slow, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	var taken atomic.Int32
	first, on := make(chan struct{}), make(chan struct{})
	go func() { // ends with the listener
		for {
			c, err := slow.Accept()
			if err != nil {
				return
			}
			if taken.Add(1) > 1 {
				c.Close()
				continue
			}
			close(first)
			<-on
			go func() { _, _ = io.Copy(to, c) }() // both end with their connections
			go func() { _, _ = io.Copy(c, to) }()
		}
	}()
	up := make(chan struct{})
	a.OnConnect(func(string) { close(up) })
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan error, 1)
	go func() {
		asked <- a.Connect(ctx, b.Self(), []string{fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", slow.Addr().(*net.TCPAddr).Port)})
	}()
	<-first
	for !p2p.Greeted(a) { // the dial hears of it, too
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-asked; err == nil {
		t.Fatal("who left got a connection")
	}
	close(on)
	<-up
	if n := taken.Load(); n != 1 || p2p.TransportsOf(a, b.Self()) != "tcp" {
		t.Errorf("%d connections were made, and %q stand", n, p2p.TransportsOf(a, b.Self()))
	}
}

func TestASearchThatNobodyTookUpEndsWithTheLastWhoAsks(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 2)
	for range 2 {
		go func() {
			asked <- a.Connect(ctx, b.Self(), []string{fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1", silent.LocalAddr().(*net.UDPAddr).Port)})
		}()
	}
	if _, _, err := silent.ReadFrom(make([]byte, 2000)); err != nil {
		t.Fatal(err)
	}
	if n := p2p.Searches(a); n != 1 {
		t.Errorf("two who want one peer make %d searches", n)
	}
	cancel()
	for range 2 {
		if err := <-asked; err == nil {
			t.Error("somebody is connected to a silent place")
		}
	}
	if n := p2p.Searches(a); n != 0 {
		t.Errorf("%d searches go on for nobody", n)
	}
}
