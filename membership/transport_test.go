package membership

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p/memnet"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"
)

func TestPacketsAreReadAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		packets := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 300)).Draw(t, "packets")
		var wire []byte
		for _, p := range packets {
			wire = appendPacket(wire, p)
		}
		r := bytes.NewReader(wire)
		for i, want := range packets {
			if got, err := readPacket(r); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("packet %d is %x, want %x: %v", i, got, want, err)
			}
		}
		if _, err := readPacket(r); err != io.EOF {
			t.Fatalf("after the last: %v", err)
		}
		if cut := rapid.IntRange(0, len(wire)).Draw(t, "cut"); cut < len(wire) {
			r := bytes.NewReader(wire[:cut])
			n, err := 0, error(nil)
			for ; err == nil; n++ {
				_, err = readPacket(r)
			}
			if n > len(packets) {
				t.Fatalf("%d packets of %d in a part of them", n, len(packets))
			}
		}
	})
}

func TestAPacketTooLongForItsLengthIsLeftOut(t *testing.T) {
	if got := appendPacket([]byte("x"), make([]byte, 1<<16)); string(got) != "x" {
		t.Errorf("%d bytes", len(got))
	}
	if got := appendPacket(nil, make([]byte, 1<<16-1)); len(got) != 1<<16+1 || binary.BigEndian.Uint16(got) != 1<<16-1 {
		t.Errorf("the longest has %d bytes", len(got))
	}
}

// line is two transports on a network in memory, in a bubble.
type line struct {
	net  *memnet.Network
	a, b *transport
	got  []string // what b's memberlist was given
	open gate     // whom b admits
}

func onALine(t *testing.T, f func(t *testing.T, l *line)) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{net: memnet.New(), open: gate{"a": true}}
		build := func(id string, open gate) *transport {
			h := l.net.Host(id)
			m, err := New(Config{Net: h, Host: h, Admitted: func(p string) bool { return open[p] }})
			if err != nil {
				t.Fatal(err)
			}
			x := newTransport(m)
			x.open()
			return x
		}
		l.a, l.b = build("a", gate{"b": true}), build("b", l.open)
		done := collect(l)
		f(t, l)
		_ = l.a.Shutdown()
		_ = l.b.Shutdown()
		close(done)
		_ = l.net.Close()
	})
}

// collect collects b's packets until done is closed.
func collect(l *line) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		for {
			select {
			case p := <-l.b.packets:
				l.got = append(l.got, string(p.Buf))
			case <-done:
				return
			}
		}
	}()
	return done
}

func (l *line) send(t *testing.T, to string, packets ...string) {
	t.Helper()
	for _, p := range packets {
		if _, err := l.a.WriteToAddress([]byte(p), memberlist.Address{Name: to}); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
}

func TestPacketsArriveInOrderOnOneStream(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		var want []string
		for i := range 50 {
			want = append(want, fmt.Sprint("packet ", i))
		}
		l.send(t, "b", want...)
		if !slices.Equal(l.got, want) || len(l.a.senders) != 1 {
			t.Errorf("%d packets came by %d streams: %v", len(l.got), len(l.a.senders), l.got)
		}
	})
}

func TestThoseNearAreLookedAfterInTurnWhoeverMemberlistProbes(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		tended := 0
		l.a.allNear, l.a.instead, l.a.tend = func() bool { return false }, func() string { return "b" }, func() { tended++ }
		ping, news := encodeMessage(pingMsg, pingBody{Node: "b"}), encodeMessage(deadMsg, accuseBody{Node: "d"})
		if _, err := l.a.WriteToAddress(pack([][]byte{ping, news}), memberlist.Address{Name: "b"}); err != errTended || tended != 1 {
			t.Errorf("a probe: %v, and %d were looked after instead", err, tended)
		}
		l.send(t, "b", string(encodeMessage(aliveMsg, aliveBody{})))
		if want := []string{string(news), string(encodeMessage(aliveMsg, aliveBody{}))}; !slices.Equal(l.got, want) {
			t.Errorf("%q came", l.got)
		}
	})
}

func TestWhatMemberlistHasForAMemberThatIsNotNearGoesToSomebodyWhoIs(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		tended := 0
		l.a.near, l.a.allNear, l.a.instead, l.a.tend = func(string) bool { return false }, func() bool { return false }, func() string { return "b" }, func() { tended++ }
		ping, news := encodeMessage(pingMsg, pingBody{Node: "c"}), encodeMessage(deadMsg, accuseBody{Node: "d"})
		if _, err := l.a.WriteToAddress(pack([][]byte{ping, news}), memberlist.Address{Name: "c"}); err != errTended || tended != 1 {
			t.Errorf("a probe: %v, and %d were looked after instead", err, tended)
		}
		l.send(t, "c", string(news))
		l.send(t, "b", string(encodeMessage(ackMsg, struct{}{})))
		want := []string{string(news), string(news), string(encodeMessage(ackMsg, struct{}{}))}
		if !slices.Equal(l.got, want) || len(l.a.senders) != 1 {
			t.Errorf("%q came, by %d streams", l.got, len(l.a.senders))
		}
	})
}

func TestWritingNeverFailsAndNeverWaits(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		l.net.Cut("a", "b")
		begin := time.Now()
		for i := range 200 { // far more than wait for one peer
			l.send(t, "b", fmt.Sprint("packet ", i))
			l.send(t, "nobody", "packet")
		}
		if _, err := l.a.WriteTo([]byte("x"), "10.0.0.1:1"); err != nil {
			t.Error(err)
		}
		l.send(t, "", "to nobody")
		l.send(t, "a", "to itself")
		if time.Since(begin) != 0 {
			t.Errorf("it took %v", time.Since(begin))
		}
		l.net.Heal()
		time.Sleep(time.Minute)
		l.send(t, "b", "after the cut")
		if n := len(l.got); n == 0 || n > 100 || l.got[n-1] != "after the cut" {
			t.Errorf("%d packets came: %v", n, l.got)
		}
	})
}

func TestASilentNeighbourLosesItsStreamAndGetsAnother(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		l.send(t, "b", "one")
		time.Sleep(senderIdle + time.Second)
		synctest.Wait()
		if len(l.a.senders) != 0 || len(l.b.inbound) != 0 {
			t.Errorf("%d senders and %d streams are left after a minute of silence", len(l.a.senders), len(l.b.inbound))
		}
		l.send(t, "b", "two")
		if !slices.Equal(l.got, []string{"one", "two"}) {
			t.Errorf("%v came", l.got)
		}
	})
}

func TestWhoIsNoLongerAdmittedIsNotHeard(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		l.send(t, "b", "admitted")
		l.open["a"] = false
		l.send(t, "b", "removed", "removed again")
		if !slices.Equal(l.got, []string{"admitted"}) || len(l.b.inbound) != 0 {
			t.Errorf("%v came, %d streams are open", l.got, len(l.b.inbound))
		}
		l.open["a"] = true
		l.send(t, "b", "back") // the stream was broken, so that the sender takes another
		if !slices.Equal(l.got, []string{"admitted", "back"}) {
			t.Errorf("%v came", l.got)
		}
	})
}

func TestOnePeerHasFewStreams(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		var open []net.Conn
		for range 2 * packetStreams {
			c, err := l.net.Host("a").Dial(t.Context(), "b", PacketProtocol)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write(appendPacket(nil, []byte("x")))
			open = append(open, c)
		}
		synctest.Wait()
		if len(l.got) != packetStreams || l.b.inbound["a"] != packetStreams {
			t.Errorf("%d of %d streams were heard, %d are open", len(l.got), len(open), l.b.inbound["a"])
		}
		for _, c := range open {
			c.Close()
		}
		synctest.Wait()
		l.send(t, "b", "room again")
		if l.got[len(l.got)-1] != "room again" {
			t.Errorf("%v came", l.got)
		}
	})
}

func TestAStreamEndsWithMemberlistsOrTheTransport(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		dial := func() net.Conn {
			c, err := l.a.DialAddressTimeout(memberlist.Address{Name: "b"}, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		c := dial()
		s := <-l.b.StreamCh()
		for range 2 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("memberlist closed it on one side, and it goes on")
		}
		defer dial().Close()
		waiting := <-l.b.StreamCh()
		down := make(chan struct{})
		go func() { defer close(down); _ = l.b.Shutdown() }()
		if _, err := waiting.Read(make([]byte, 1)); err == nil {
			t.Error("a stream outlived its transport")
		}
		waiting.Close() // as memberlist does with what cannot be read any more
		<-down
		if _, err := l.a.DialTimeout("10.0.0.1:1", time.Second); err == nil {
			t.Error("dialled an address that is no peer")
		}
		if _, err := l.a.DialAddressTimeout(memberlist.Address{Name: "b"}, time.Second); err == nil {
			t.Error("dialled a transport that was shut down")
		}
	})
}

func TestAPeersAddressIsConstantAndItsOwn(t *testing.T) {
	seen := map[string]string{}
	for i := range 1000 {
		id := fmt.Sprint("peer", i)
		ip := syntheticIP(id)
		if !ip.Equal(syntheticIP(id)) || ip[0] != 0xfd || ip.To4() != nil {
			t.Fatalf("%s is at %s", id, ip)
		}
		if other := seen[ip.String()]; other != "" {
			t.Fatalf("%s and %s are both at %s", id, other, ip)
		}
		seen[ip.String()] = id
		host, port, err := net.SplitHostPort(joinString(id)[len(id)+1:])
		if err != nil || host != ip.String() || port != fmt.Sprint(wantedPort) {
			t.Fatalf("%s: %v", joinString(id), err)
		}
	}
}

// A peer that says goodbye waits until it is on the wire, and no longer: what is dropped, or cannot
// be sent, is not waited for.
func TestAFlushWaitsForWhatIsNeitherWrittenNorGivenUp(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		flush := func() time.Duration {
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			l.a.flush(ctx)
			return time.Since(begin)
		}
		for i := range 100 {
			if _, err := l.a.WriteToAddress(fmt.Append(nil, i), memberlist.Address{Name: "b"}); err != nil {
				t.Fatal(err)
			}
			flush()
			if s := l.a.senders["b"]; s.left.Load() != 0 || len(s.queue) > 0 || s.conn == nil {
				t.Fatalf("packet %d is not on the wire", i)
			}
		}
		l.net.Cut("a", "b")
		for i := range 200 { // far more than wait for one peer
			_, _ = l.a.WriteToAddress(fmt.Append(nil, i), memberlist.Address{Name: "b"})
		}
		if took := flush(); took > 3*writeDeadline {
			t.Errorf("it waited %v for what nobody can send", took)
		}
		if n := l.a.senders["b"].left.Load(); n != 0 {
			t.Errorf("%d packets are counted that are gone", n)
		}
	})
}

// memberlist's own, whole: what is lost of it would make answers go astray.
func TestAnotherMembersQuestionForAPingIsPassedOnAsItIsToWhomeverItIsAbout(t *testing.T) {
	m := quiet(t, gate{"asker": true, "friend": true})
	want := map[string]any{
		"SeqNo": uint64(7), "Target": []byte(syntheticIP("friend")), "Port": uint64(memberPort), "Node": "friend", "Nack": true,
		"SourceAddr": []byte(syntheticIP("asker")), "SourcePort": uint64(memberPort), "SourceNode": "asker",
	}
	got := m.intake.message(t.Context(), "asker", encodeMessage(indirectMsg, want))
	var have indirectBody
	if len(got) == 0 || got[0] != indirectMsg || decodeBody(got[1:], &have) != nil || have.Port != wantedPort {
		t.Fatalf("%q", got)
	}
	have.Port = memberPort
	if again := encodeMessage(indirectMsg, have); !bytes.Equal(again, encodeMessage(indirectMsg, indirectBody{
		7, syntheticIP("friend"), memberPort, "friend", true, syntheticIP("asker"), memberPort, "asker",
	})) {
		t.Errorf("%+v", have)
	}
}

// Where many start at once, a first dial takes longer than a probe waits.
func TestAMemberThatIsBeingDialledForTheFirstTimeIsNotMetYet(t *testing.T) {
	onALine(t, func(t *testing.T, l *line) {
		l.net.Cut("a", "b")
		l.send(t, "b", "one")
		if l.a.met("b") {
			t.Error("it is met while it is being dialled")
		}
		time.Sleep(writeDeadline + time.Second) // the dial has failed
		if !l.a.met("b") {
			t.Error("it is not met, though it was dialled")
		}
	})
}
