package p2p_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p"
)

// inbox collects what a topic delivers.
type inbox struct {
	mu   sync.Mutex
	got  map[string]string // message: neighbour
	many int
}

func (b *inbox) deliver(from string, data []byte) p2p.Acceptance {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.got == nil {
		b.got = map[string]string{}
	}
	b.many++
	b.got[string(data)] = from
	return p2p.Accept
}

// senders lists messages with the neighbour each came from.
func (b *inbox) senders() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.got)
}

func (b *inbox) has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.got[s] != ""
}

// publishUntil repeats a message, each time another one, until everybody had one: a mesh takes a
// moment to form.
func publishUntil(t *testing.T, from *p2p.Topic, boxes ...*inbox) {
	t.Helper()
	n := 0
	var sent []string
	eventually(t, "a message reaches everybody", func() bool {
		s := fmt.Sprintf("message %d of %p", n, &n) // no call takes those of another for its own
		n++
		sent = append(sent, s)
		if err := from.Publish(ctx(t), []byte(s)); err != nil {
			t.Fatal(err)
		}
		for _, b := range boxes {
			reached := false
			for _, s := range sent {
				reached = reached || b.has(s)
			}
			if !reached {
				return false
			}
		}
		return true
	})
}

func join(t *testing.T, h *p2p.Host) (*p2p.Topic, *inbox) {
	t.Helper()
	b := &inbox{}
	top, err := h.Topic("news", b.deliver)
	if err != nil {
		t.Fatal(err)
	}
	return top, b
}

func TestATopicReachesTwoPeers(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	ta, ba := join(t, a)
	if err := connect(t, a, b.Self(), b.Addrs()); err != nil {
		t.Fatal(err)
	}
	tb, bb := join(t, b) // joined after they met
	publishUntil(t, ta, bb)
	publishUntil(t, tb, ba)
	if ba.senders()["message 0"] == a.Self() {
		t.Fatal("a peer hears itself")
	}
	var sent []string
	var last time.Time
	eventually(t, "a message of the full size arrives", func() bool {
		if time.Since(last) > time.Second { // another one each time, and not more than one may publish
			big := bytes.Repeat([]byte{byte(len(sent))}, p2p.MaxMessage)
			if err := ta.Publish(ctx(t), big); err != nil {
				t.Fatal(err)
			}
			sent, last = append(sent, string(big)), time.Now()
		}
		return slices.ContainsFunc(sent, bb.has)
	})
	if err := ta.Publish(ctx(t), make([]byte, p2p.MaxMessage+1)); err == nil || !strings.Contains(err.Error(), "split") {
		t.Fatalf("above the cap: %v", err)
	}
	ta.Close()
	if _, err := a.Topic("news", bb.deliver); err != nil {
		t.Fatalf("joining again: %v", err)
	}
}

func TestAnAcceptedMessageTravelsOnAndOthersDoNot(t *testing.T) {
	a, b, c := start(t, everybody()), start(t, everybody()), start(t, everybody())
	ta, _ := join(t, a)
	seen := make(chan struct{}, 1)
	if _, err := b.Topic("news", func(_ string, data []byte) p2p.Acceptance {
		if string(data) == "false news" {
			select {
			case seen <- struct{}{}:
			default:
			}
			return p2p.Ignore
		}
		return p2p.Accept
	}); err != nil {
		t.Fatal(err)
	}
	_, bc := join(t, c)
	for _, h := range []*p2p.Host{a, c} {
		if err := connect(t, b, h.Self(), h.Addrs()); err != nil {
			t.Fatal(err)
		}
	}
	publishUntil(t, ta, bc) // a and c know each other only through b
	if err := ta.Publish(ctx(t), []byte("false news")); err != nil {
		t.Fatal(err)
	}
	<-seen
	publishUntil(t, ta, bc) // what comes after arrives; topics promise no single message
	if bc.has("false news") {
		t.Fatal("an ignored message travelled on")
	}
	for m, from := range bc.senders() {
		if from != b.Self() {
			t.Fatalf("%q came from %s", m, from)
		}
	}
}

func TestAStrangerHearsNoTopicUntilItIsAdmitted(t *testing.T) {
	in := only()
	a, b := start(t, in), start(t, everybody())
	ta, _ := join(t, a)
	tb, bb := join(t, b)
	if err := b.Connect(ctx(t), a.Self(), a.Addrs()); err == nil {
		t.Fatal("a stranger was welcome")
	}
	for i := range 20 {
		if err := ta.Publish(ctx(t), fmt.Append(nil, "secret ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tb.Publish(ctx(t), []byte("from outside")); err != nil {
		t.Fatal(err)
	}
	in.set(true, b.Self())
	a.Recheck()
	publishUntil(t, ta, bb)
	for m := range bb.senders() {
		if strings.HasPrefix(m, "secret") {
			t.Fatalf("a stranger heard %q", m)
		}
	}
}
