package p2p_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/p2p"
)

// childEnv makes this test binary a peer that does what it reads from stdin: for tests that need
// several network namespaces.
const childEnv = "COVEY_P2P_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	long.AtOnce(8) // most wait for what does not answer
	os.Exit(m.Run())
}

// order is one line to a child, answer the line that comes back.
type order struct {
	Do, Peer string
	Addrs    []string
	Bytes    int
}

type report struct {
	ID              string
	Addrs           []string
	Found           []string // by mDNS
	Direct, Relayed bool
	Err             string
	Millis          int64
}

func child(in io.Reader, out io.Writer) error {
	key, err := p2p.NewIdentity()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	found := map[string][]string{}
	h, err := p2p.New(p2p.Config{
		Key: key, Relay: true, Admitted: func(string) bool { return true }, RelayCheck: time.Second,
		MDNS: true, OnFound: func(_ *p2p.Host, peer string, addrs []string) {
			mu.Lock()
			defer mu.Unlock()
			found[peer] = addrs
		},
	})
	if err != nil {
		return err
	}
	defer h.Close()
	serveEcho(h)
	enc := json.NewEncoder(out)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		begun := time.Now()
		err := obey(h, o)
		r := report{ID: h.Self(), Addrs: h.Addrs(), Millis: time.Since(begun).Milliseconds()}
		r.Direct, r.Relayed = h.Connected(o.Peer)
		mu.Lock()
		r.Found = found[o.Peer]
		mu.Unlock()
		if err != nil {
			r.Err = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

func obey(h *p2p.Host, o order) error {
	switch o.Do {
	case "tell":
		return nil
	case "connect":
		h.SetAddrs(o.Peer, o.Addrs)
		c, cancel := timeout(patience)
		defer cancel()
		return h.Connect(c, o.Peer, o.Addrs)
	case "ask":
		return ask(h, o.Peer, strings.Repeat("covey", max(1, o.Bytes/5)))
	}
	return errors.New("unknown order")
}

// puppet is a child in a namespace.
type puppet struct {
	t   *testing.T
	in  *json.Encoder
	out *bufio.Scanner
}

func (p puppet) do(o order) (r report) {
	p.t.Helper()
	if err := p.in.Encode(o); err != nil {
		p.t.Fatal(err)
	}
	if !p.out.Scan() {
		p.t.Fatalf("the peer is gone: %v", p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

func (p puppet) must(o order) report {
	p.t.Helper()
	r := p.do(o)
	if r.Err != "" {
		p.t.Fatalf("%s %s: %s", o.Do, o.Peer, r.Err)
	}
	return r
}
