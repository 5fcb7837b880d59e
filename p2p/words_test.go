package p2p_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

func TestAFailedDialIsOneLineThatNamesTheAddressAndTheReason(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	addrs := b.Addrs()
	b.Close()
	a.SetAddrs(b.Self(), addrs)
	_, err := a.Dial(ctx(t), b.Self(), echo)
	if err == nil {
		t.Fatal("dialled a closed host")
	}
	for _, text := range []string{err.Error(), p2p.Why(err)} {
		if strings.Contains(text, "\n") || strings.Count(text, "connection refused, no peer listens there") != 1 ||
			!strings.Contains(text, "127.0.0.1:") {
			t.Errorf("%q", text)
		}
	}
	if strings.Contains(p2p.Why(err), b.Self()) {
		t.Errorf("the reason repeats whom we asked: %q", p2p.Why(err))
	}
}

func TestADialToAPeerWithoutAddressesSaysThatNoneIsKnown(t *testing.T) {
	a := start(t, everybody())
	_, err := a.Dial(ctx(t), someID, echo)
	if err == nil || p2p.Why(err) != "none of its addresses is known here" {
		t.Fatal(err)
	}
}

func TestADialThatFindsAnotherPeerNamesIt(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	a.SetAddrs(someID, b.Addrs())
	_, err := a.Dial(ctx(t), someID, echo)
	if err == nil || !strings.Contains(p2p.Why(err), "another peer lives there, "+b.Self()) {
		t.Fatal(err)
	}
}

func TestADialToManyAddressesNamesAFew(t *testing.T) {
	a := start(t, everybody())
	var gone []*p2p.Host
	for range 6 { // all before one is closed: the next could draw its port
		gone = append(gone, start(t, everybody()))
	}
	var addrs []string
	for _, h := range gone {
		addrs = append(addrs, h.Addrs()...)
		h.Close()
	}
	a.SetAddrs(someID, addrs)
	_, err := a.Dial(ctx(t), someID, echo)
	if err == nil || strings.Count(p2p.Why(err), "127.0.0.1:") != 4 || !strings.HasSuffix(p2p.Why(err), "; and 2 more") {
		t.Fatal(err)
	}
}

// lines is a log that several goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func TestATopicAtWorkWarnsOfNothing(t *testing.T) {
	var log lines
	logged := func(c *p2p.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	a, b := start(t, everybody(), logged), start(t, everybody(), logged)
	var box inbox
	from, err := a.Topic("news", func(string, []byte) p2p.Acceptance { return p2p.Accept })
	if err != nil {
		t.Fatal(err)
	}
	to, err := b.Topic("news", box.deliver)
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	publishUntil(t, from, &box)
	from.Close()
	to.Close()
	if log.String() != "" {
		t.Fatal(log.String())
	}
}
