package membership_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// deafTo is a network on which no packet arrives that has word in it, nor, while it is shut,
// anything that the peer named closed begins. While it is mute no exchange with that peer begins
// either.
type deafTo struct {
	p2p.Net
	word, closed string
	missed       *atomic.Int64
	shut, mute   *atomic.Bool
}

func (d deafTo) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	if peer == d.closed && protocol == membership.SyncProtocol && d.mute.Load() {
		return nil, errors.New("mute")
	}
	return d.Net.Dial(ctx, peer, protocol)
}

func (d deafTo) Handle(protocol string, f func(string, net.Conn)) {
	switch {
	case protocol == membership.SyncProtocol && f != nil:
		d.Net.Handle(protocol, func(peer string, c net.Conn) {
			if peer == d.closed && d.shut.Load() {
				c.Close()
				return
			}
			f(peer, c)
		})
		return
	case protocol != membership.PacketProtocol || f == nil:
		d.Net.Handle(protocol, f)
		return
	}
	d.Net.Handle(protocol, func(peer string, c net.Conn) { f(peer, &deafConn{Conn: c, to: d, from: peer}) })
}

// deafConn reads whole packets, each behind two bytes of length, and hands on those without the
// word.
type deafConn struct {
	net.Conn
	to   deafTo
	from string
	rest []byte
}

func (c *deafConn) Read(b []byte) (int, error) {
	for len(c.rest) == 0 {
		head := make([]byte, 2)
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
		packet := make([]byte, binary.BigEndian.Uint16(head))
		if _, err := io.ReadFull(c.Conn, packet); err != nil {
			return 0, err
		}
		if bytes.Contains(packet, []byte(c.to.word)) {
			c.to.missed.Add(1)
			continue
		}
		if c.from == c.to.closed && c.to.shut.Load() {
			continue
		}
		c.rest = append(head, packet...)
	}
	n := copy(b, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// whisper tells one peer, as gossip from another, that a third is suspected in its first life.
func (f *cluster) whisper(from, to, suspect string) {
	f.t.Helper()
	const suspectMsg = 3 // memberlist's
	packet := []byte{0, 0, suspectMsg}
	var body []byte
	words := map[string]any{"Incarnation": uint32(1), "Node": suspect, "From": from}
	if err := codec.NewEncoderBytes(&body, &codec.MsgpackHandle{}).Encode(words); err != nil {
		f.t.Fatal(err)
	}
	packet = append(packet, body...)
	binary.BigEndian.PutUint16(packet, uint16(len(packet)-2))
	c, err := f.net.Host(from).Dial(context.Background(), to, membership.PacketProtocol)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(packet); err != nil {
		f.t.Fatal(err)
	}
}

// deafCluster is five peers of which p2 gets no packet with p4's words about itself, which a
// refutation takes along. Nor does an exchange with somebody at random help it by chance.
func deafCluster(t *testing.T) (*cluster, deafTo) {
	f := newCluster(t, 0)
	deaf := deafTo{word: "name-p4", closed: "p4", missed: new(atomic.Int64), shut: new(atomic.Bool), mute: new(atomic.Bool)}
	for _, id := range []string{"p0", "p1", "p2", "p3", "p4"} {
		f.start(id, "a", func(c *membership.Config) {
			c.Timings.PushPull = time.Hour
			if id == "p2" {
				deaf.Net = c.Net
				c.Net = deaf
			}
		})
	}
	f.net.Delay(10 * time.Millisecond)
	for _, id := range []string{"p1", "p2", "p3", "p4", "p2"} { // p2 once more, when p4 is there
		if err := f.peers[id].Join(context.Background(), []membership.PeerAddr{{ID: "p0", Addrs: []string{"/mem/p0/a"}}}); err != nil {
			t.Fatal(err)
		}
	}
	f.within(5*time.Second, "everybody sees everybody", f.complete)
	time.Sleep(30 * time.Second) // what there was to tell has been told
	return f, deaf
}

func TestAPeerThatMissesTheRefutationDoesNotCallTheSuspectDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, deaf := deafCluster(t)
		defer f.close()
		for id, p := range f.peers {
			defer p.Observe(func(v *membership.View) {
				if v.Verdict("p4") == membership.Dead {
					t.Errorf("%s calls p4 dead", id)
				}
			})()
		}
		before := deaf.missed.Load()
		deaf.shut.Store(true) // p2 believes the whisper only if p4 does not answer
		time.Sleep(400 * time.Millisecond)
		f.whisper("p1", "p2", "p4")
		time.Sleep(700 * time.Millisecond)
		deaf.shut.Store(false)
		time.Sleep(4 * time.Second)
		if deaf.missed.Load() == before {
			t.Error("p2 was told of no refutation, and missed none")
		}
		if !f.complete() {
			t.Errorf("p2 sees %s", f.peers["p2"].View())
		}
	})
}

// A suspicion of a peer that was silent goes on in memberlist when it speaks again, until it hears
// a refutation: a peer that is just back would be called dead.
func TestAPeerThatSpeaksAgainIsAskedBeforeASuspicionOfItIsBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, deaf := deafCluster(t)
		defer f.close()
		defer f.peers["p2"].Observe(func(v *membership.View) {
			if v.Verdict("p4") == membership.Dead {
				t.Error("p2 calls p4 dead")
			}
		})()
		before := deaf.missed.Load()
		deaf.shut.Store(true)
		deaf.mute.Store(true)
		time.Sleep(400 * time.Millisecond)
		f.whisper("p1", "p2", "p4")
		f.within(2*time.Second, "p2 suspects p4", func() bool { return f.peers["p2"].View().Verdict("p4") == membership.Suspect })
		time.Sleep(900 * time.Millisecond) // it has asked as often as it does
		deaf.shut.Store(false)
		deaf.mute.Store(false)
		f.whisper("p4", "p2", "p3") // any packet
		f.within(100*time.Millisecond, "p2 hears p4", func() bool { return f.peers["p2"].View().Verdict("p4") == membership.Alive })
		time.Sleep(4 * time.Second)
		if deaf.missed.Load() == before {
			t.Error("p2 was told of no refutation, and missed none")
		}
		if !f.complete() {
			t.Errorf("p2 sees %s", f.peers["p2"].View())
		}
	})
}

// countingSyncs is a network that counts the exchanges, and stream pings, that are begun.
type countingSyncs struct {
	p2p.Net
	begun *atomic.Int64
}

func (c countingSyncs) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	if protocol == membership.SyncProtocol {
		c.begun.Add(1)
	}
	return c.Net.Dial(ctx, peer, protocol)
}

func TestNobodyIsAskedWhileNobodyIsDoubtedNorWhoIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCluster(t, 0)
		defer f.close()
		var begun atomic.Int64
		ids := []string{"p0", "p1", "p2", "p3"}
		for _, id := range ids {
			f.start(id, "a", func(c *membership.Config) {
				c.Timings.PushPull, c.Timings.Retry = time.Hour, time.Hour
				c.Net = countingSyncs{c.Net, &begun}
			})
		}
		f.start("p4", "a")
		f.joinAll()
		f.within(5*time.Second, "everybody sees everybody", f.complete)
		quiet := func(when string) {
			before := begun.Load()
			time.Sleep(time.Minute)
			if got := begun.Load() - before; got != 0 {
				t.Errorf("%d exchanges in a minute %s", got, when)
			}
		}
		time.Sleep(time.Minute) // nobody is young any more
		quiet("without a suspicion")
		before := begun.Load()
		for _, id := range ids {
			f.net.Cut(id, "p4")
		}
		f.within(6*time.Second, "p4 is dead for all", func() bool { return f.all("p4", membership.Dead) })
		// Each asks once, a dial into silence takes longer than suspicion, and its own probes of p4
		// try a stream too.
		if got := begun.Load() - before; got < 4 || got > 16 {
			t.Errorf("%d streams were opened to p4 before all held it dead", got)
		}
		time.Sleep(10 * time.Second)
		quiet("with a dead peer")
	})
}
