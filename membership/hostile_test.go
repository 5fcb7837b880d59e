package membership_test

import (
	"bytes"
	"compress/lzw"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// liar is a member that says to others what a test has it say.
type liar struct {
	*cluster
	id string
}

// message is one of memberlist's.
func message(kind byte, body any) []byte {
	var b []byte
	if err := codec.NewEncoderBytes(&b, &codec.MsgpackHandle{}).Encode(body); err != nil {
		panic(err)
	}
	return append([]byte{kind}, b...)
}

func claimGone(kind byte, of, from string, incarnation uint32) []byte {
	return message(kind, map[string]any{"Incarnation": incarnation, "Node": of, "From": from})
}

// The types of memberlist's messages.
const (
	pingMsg = iota
	indirectMsg
	_
	suspectMsg
	aliveMsg
	deadMsg
	pushPullMsg
	_
	_
	compressMsg
)

// says sends packets to a peer and waits until they are taken.
func (l liar) says(to string, packets ...[]byte) {
	l.t.Helper()
	c, err := l.net.Host(l.id).Dial(context.Background(), to, membership.PacketProtocol)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	for _, p := range packets {
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...)); err != nil {
			l.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// exchanges opens an exchange of everything with a peer, sends b and is what comes back.
func (l liar) exchanges(to string, b []byte) []byte {
	l.t.Helper()
	c, err := l.net.Host(l.id).Dial(context.Background(), to, membership.SyncProtocol)
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(b); err != nil {
		return nil
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	answer, _ := io.ReadAll(c)
	return answer
}

type state struct {
	Name        string
	Addr        []byte
	Port        uint16
	Meta        []byte
	Incarnation uint32
	State       memberlist.NodeStateType
	Vsn         []uint8
}

// list is an exchange that tells of these members.
func list(all ...state) []byte {
	b := message(pushPullMsg, map[string]any{"Nodes": len(all), "UserStateLen": 0, "Join": false})
	for _, s := range all {
		b = append(b, message(0, s)[1:]...)
	}
	return b
}

// knows is what a peer tells of everybody in an exchange.
func (l liar) knows(peer string) map[string]state {
	l.t.Helper()
	r := bytes.NewReader(l.exchanges(peer, list()))
	dec := codec.NewDecoder(r, &codec.MsgpackHandle{})
	var h struct{ Nodes int }
	if kind, err := r.ReadByte(); err != nil || kind != pushPullMsg || dec.Decode(&h) != nil {
		l.t.Fatal("no answer to an exchange")
	}
	all := map[string]state{}
	for range h.Nodes {
		var s state
		if err := dec.Decode(&s); err != nil {
			l.t.Fatal(err)
		}
		all[s.Name] = s
	}
	return all
}

// amongLiars is a cluster of n peers, and a member that is none of them and in bad hands.
func amongLiars(t *testing.T, n int, body func(t *testing.T, f *cluster, l liar)) {
	bubble(t, n, func(t *testing.T, f *cluster) {
		time.Sleep(5 * time.Second) // what there was to tell has been told
		body(t, f, liar{f, "liar"})
	})
}

// unsuspected fails if any peer's view ever shows one of the cluster as anything but alive.
func (f *cluster) unsuspected(t *testing.T) {
	ours := map[string]bool{}
	for id := range f.peers {
		ours[id] = true
	}
	for id, p := range f.peers {
		t.Cleanup(p.Observe(func(v *membership.View) {
			for _, m := range v.Members {
				if _, doomed := f.doomed.Load(m.ID); ours[m.ID] && !doomed && m.Verdict != membership.Alive {
					t.Errorf("%s holds %s %s", id, m.ID, m.Verdict)
				}
			}
		}))
	}
}

func TestForgedAccusationsOfPeersThatLiveAreBelievedByNobody(t *testing.T) {
	forgedAccusations(t, 5, 20)
}

// In a large cluster most have no connection to most others.
func TestForgedAccusationsInALargeClusterAreBelievedByNobody(t *testing.T) {
	forgedAccusations(t, 24, 3)
}

func forgedAccusations(t *testing.T, n, rounds int) {
	amongLiars(t, n, func(t *testing.T, f *cluster, l liar) {
		f.unsuspected(t)
		for range rounds {
			for to := range f.peers {
				var lies [][]byte
				var entries []state
				for of := range f.peers {
					for _, inc := range []uint32{1, 2, 3, 1000, math.MaxInt32, math.MaxUint32 - 1, math.MaxUint32} {
						lies = append(lies, claimGone(suspectMsg, of, "p1", inc), claimGone(deadMsg, of, "p2", inc), claimGone(deadMsg, of, of, inc))
					}
					entries = append(entries, state{Name: of, Incarnation: math.MaxUint32, State: memberlist.StateSuspect}, state{Name: of + "x", Incarnation: 1, State: memberlist.StateDead})
				}
				l.says(to, lies...)
				l.exchanges(to, list(entries...))
			}
			time.Sleep(time.Second)
		}
		for id, p := range f.peers {
			if n := p.Refused()["accusations of peers that answered"]; n == 0 {
				t.Errorf("%s counted no claim: %v", id, p.Refused())
			}
		}
		time.Sleep(time.Minute)
		if !f.complete() {
			t.Error("not everybody sees everybody")
		}
		for who, s := range l.knows("p0") {
			if s.Incarnation > 1000 {
				t.Errorf("%s has incarnation %d", who, s.Incarnation)
			}
		}
	})
}

func TestAnAccusationOfAPeerThatIsGoneIsBelievedFromAnybody(t *testing.T) {
	amongLiars(t, 4, func(t *testing.T, f *cluster, l liar) {
		inc := l.knows("p0")["p3"].Incarnation
		for _, id := range []string{"p0", "p1", "p2"} {
			f.net.Cut(id, "p3")
		}
		time.Sleep(500 * time.Millisecond) // it spoke a moment ago
		l.says("p0", claimGone(suspectMsg, "p3", "liar", inc))
		f.within(time.Second, "p0 suspects p3", func() bool { return f.peers["p0"].View().Verdict("p3") == membership.Suspect })
	})
}

func TestAGoodbyeThatSomebodyElseForgedEndsNobody(t *testing.T) {
	amongLiars(t, 3, func(t *testing.T, f *cluster, l liar) {
		f.unsuspected(t)
		inc := l.knows("p0")["p1"].Incarnation
		l.says("p0", claimGone(deadMsg, "p1", "p1", inc))
		l.exchanges("p2", list(state{Name: "p1", Incarnation: inc, State: memberlist.StateLeft}))
		time.Sleep(30 * time.Second)
	})
}

func TestAGoodbyeIsBelievedAtOnceByAll(t *testing.T) {
	for _, n := range []int{3, 20} {
		bubble(t, n, func(t *testing.T, f *cluster) {
			time.Sleep(5 * time.Second)
			leaver, begin := f.peers["p1"], time.Now()
			if err := leaver.Leave(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 100*time.Millisecond {
				t.Errorf("in virtual time it took %s to say goodbye to %d", took, n-1)
			}
			f.within(300*time.Millisecond, "p1 is gone for all", func() bool { return f.all("p1", membership.Dead) })
			leaver.stop()
			delete(f.peers, "p1")
		})
	}
}

func TestNobodySpeaksForAnotherMember(t *testing.T) {
	amongLiars(t, 3, func(t *testing.T, f *cluster, l liar) {
		f.unsuspected(t)
		truth := l.knows("p0")["p1"]
		words := truth.Meta
		renamed := bytes.Replace(words, []byte("name-p1"), []byte("evil-p1"), 1)
		if bytes.Equal(renamed, words) {
			t.Fatal("p1's words are not found")
		}
		var lies [][]byte
		var entries []state
		for _, change := range []func(*state){
			func(s *state) { s.Meta = renamed },
			func(s *state) { s.Meta, s.Incarnation = renamed, s.Incarnation+1 },
			func(s *state) { s.Incarnation++ },
			func(s *state) { s.Incarnation += 1 << 20 },
			func(s *state) { s.Incarnation = math.MaxUint32 },
			func(s *state) { s.Meta, s.Incarnation = nil, math.MaxUint32 },
			func(s *state) { s.Incarnation++; s.Addr = l.knows("p0")["p2"].Addr },
			func(s *state) { s.Incarnation++; s.Vsn = []uint8{5, 5, 5, 0, 0, 0} },
		} {
			s := truth
			change(&s)
			entries = append(entries, s)
			lies = append(lies, message(aliveMsg, map[string]any{
				"Incarnation": s.Incarnation, "Node": s.Name, "Addr": s.Addr, "Port": s.Port, "Meta": s.Meta, "Vsn": s.Vsn,
			}))
		}
		for to := range f.peers {
			l.says(to, lies...)
			for _, s := range entries {
				l.exchanges(to, list(s))
			}
		}
		time.Sleep(10 * time.Second)
		for id, p := range f.peers {
			if m, _ := p.View().Get("p1"); m.Name != "name-p1" || m.Addrs[0] != "/mem/p1/a" {
				t.Errorf("%s takes p1 for %+v", id, m)
			}
			if got := l.knows(id)["p1"]; got.Incarnation != truth.Incarnation {
				t.Errorf("%s has p1 at incarnation %d, it was at %d", id, got.Incarnation, truth.Incarnation)
			}
			if p.Liars()["liar"] == 0 {
				t.Errorf("%s does not say who lied: %v", id, p.Liars())
			}
		}
		f.doomed.Store("p2", true)
		f.net.Kill("p2") // and what p1 says itself still counts
		f.peers["p2"].stop()
		delete(f.peers, "p2")
		f.doomed.Store("p1", true) // while it is down
		moved := f.restart("p1", "b")
		f.within(5*time.Second, "p1's new address is known", func() bool {
			m, _ := f.peers["p0"].View().Get("p1")
			return m.Verdict == membership.Alive && m.Addrs[0] == "/mem/p1/b"
		})
		_ = moved
	})
}

// restart is kill -9 and another start, at another address.
func (f *cluster) restart(id, moved string) *peer {
	f.kill(id)
	time.Sleep(100 * time.Millisecond)
	f.net.Revive(id)
	return f.start(id, moved)
}

func TestWhoComesBackAfterItWasForgottenIsKnownAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, f *cluster) {
		l := liar{f, "liar"}
		for i := range 5 { // p1 refutes, so that its incarnation is above that of a first life
			l.says("p1", claimGone(suspectMsg, "p1", "p0", l.knows("p1")["p1"].Incarnation))
			time.Sleep(5 * time.Second)
			if inc := l.knows("p0")["p1"].Incarnation; inc < uint32(i)+2 {
				t.Fatalf("p0 has p1 at incarnation %d", inc)
			}
		}
		f.kill("p1")
		f.within(20*time.Second, "p1 is dead for all", func() bool { return f.all("p1", membership.Dead) })
		time.Sleep(5 * time.Minute) // memberlist knows it no more
		f.net.Revive("p1")
		f.start("p1", "b")
		f.within(5*time.Second, "everybody sees everybody", f.complete)
	})
}

func TestAnEpochThatCannotBeIsNoHint(t *testing.T) {
	amongLiars(t, 3, func(t *testing.T, f *cluster, l liar) {
		truth := membership.Hint{Epoch: taskstate.At(1, 3), Coordinator: "p1"}
		f.peers["p1"].SetHint(truth)
		time.Sleep(time.Second)
		for _, e := range []taskstate.Epoch{taskstate.At(1, math.MaxUint64), taskstate.At(math.MaxUint64, 1), taskstate.At(1, 1<<30), taskstate.At(1<<30, 4)} {
			b, err := wire.Marshal(membership.Hint{Epoch: e, Coordinator: "p2"})
			if err != nil {
				t.Fatal(err)
			}
			l.says("p0", append([]byte{8}, b...))
			l.exchanges("p2", append(message(pushPullMsg, map[string]any{"Nodes": 0, "UserStateLen": len(b), "Join": false}), b...))
		}
		time.Sleep(20 * time.Second)
		for id, p := range f.peers {
			if p.Hint() != truth {
				t.Errorf("%s takes the hint %v", id, p.Hint())
			}
		}
		truth.Epoch.Term++
		f.peers["p1"].SetHint(truth)
		f.within(time.Second, "the next one counts", func() bool { return f.peers["p0"].Hint() == truth && f.peers["p2"].Hint() == truth })
	})
}

func TestWhatIsCompressedIsRefusedUnread(t *testing.T) {
	amongLiars(t, 2, func(t *testing.T, f *cluster, l liar) {
		var b bytes.Buffer
		w := lzw.NewWriter(&b, lzw.LSB, 8)
		zeros := make([]byte, 1<<20)
		for range 32 {
			_, _ = w.Write(zeros)
		}
		_ = w.Close()
		bomb := message(compressMsg, map[string]any{"Algo": 0, "Buf": b.Bytes()})
		if answer := l.exchanges("p0", bomb); len(answer) > 1000 {
			t.Errorf("%d bytes came back", len(answer))
		}
		small := message(compressMsg, map[string]any{"Algo": 0, "Buf": b.Bytes()[:100]})
		nested := append([]byte{7, 1, byte(len(small) >> 8), byte(len(small))}, small...)
		twice := append([]byte{7, 1, byte(len(nested) >> 8), byte(len(nested))}, nested...)
		l.says("p0", small, nested, twice, append([]byte{12, 0, 0, 0, 0}, small...), []byte{10, 1, 2}, []byte{244, 1, 'x'}, []byte{99}, []byte{7}, nil)
		p := f.peers["p0"]
		if n := p.Liars()["liar"]; n < 9 {
			t.Errorf("%d of them were refused: %v", n, p.Refused())
		}
		f.unsuspected(t)
		time.Sleep(5 * time.Second)
	})
}

func TestAListThatNoPeerSendsIsRefused(t *testing.T) {
	amongLiars(t, 2, func(t *testing.T, f *cluster, l liar) {
		header := func(nodes, user int) []byte {
			return message(pushPullMsg, map[string]any{"Nodes": nodes, "UserStateLen": user, "Join": true})
		}
		one := l.knows("p0")["p1"]
		for what, b := range map[string][]byte{
			"a million members": append(header(1<<20, 0), list(one)[1:]...), "fewer than none": header(-1, 0), "much beside": header(0, 20<<20),
			"one twice": list(one, one), "a long name": list(state{Name: strings.Repeat("x", 1<<20)}),
			"a user's message": message(8, map[string]any{"UserMsgLen": 20 << 20}),
		} {
			if answer := l.exchanges("p0", b); len(answer) > 0 && answer[0] == pushPullMsg {
				t.Errorf("%s was answered", what)
			}
		}
	})
}

func TestOnePeerBeginsFewExchangesAtOnce(t *testing.T) {
	amongLiars(t, 2, func(t *testing.T, f *cluster, l liar) {
		var open []net.Conn
		refused := 0
		for range 100 {
			c, err := f.net.Host("liar").Dial(context.Background(), "p0", membership.SyncProtocol)
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
		synctest.Wait()
		for _, c := range open {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); err == io.EOF || strings.Contains(fmt.Sprint(err), "closed") || strings.Contains(fmt.Sprint(err), "reset") {
				refused++
			}
		}
		if refused < 90 {
			t.Errorf("%d of %d were closed", refused, len(open))
		}
		if err := f.peers["p1"].Join(t.Context(), []membership.PeerAddr{{ID: "p0"}}); err != nil {
			t.Errorf("another one is kept out: %v", err)
		}
		for _, c := range open {
			c.Close()
		}
	})
}

func TestAProbeForAnotherOpensNoStreamsToAnybodyElse(t *testing.T) {
	amongLiars(t, 2, func(t *testing.T, f *cluster, l liar) {
		p := f.peers["p0"]
		for i := range 50 {
			l.says("p0", message(pingMsg, map[string]any{"SeqNo": i, "Node": "p0", "SourceNode": fmt.Sprint("victim", i)}),
				message(indirectMsg, map[string]any{"SeqNo": i, "Node": "p1", "SourceNode": "victim"}))
		}
		if n := p.Liars()["liar"]; n != 100 {
			t.Errorf("%d were refused", n)
		}
	})
}

func TestWhoAsksAfterAPeerThatHasJustLeftIsNoLiar(t *testing.T) {
	amongLiars(t, 2, func(t *testing.T, f *cluster, l liar) {
		f.admit("left", false)
		l.says("p0", message(indirectMsg, map[string]any{"SeqNo": 1, "Node": "left", "SourceNode": "liar"}))
		if n := f.peers["p0"].Liars()["liar"]; n != 0 {
			t.Errorf("%d were held against it", n)
		}
		l.says("p0", message(pingMsg, map[string]any{"SeqNo": 2, "Node": "left", "SourceNode": "liar"}))
		if n := f.peers["p0"].Liars()["liar"]; n != 1 {
			t.Errorf("%d were held against it, of one that no peer sends", n)
		}
	})
}

func TestAFloodFromOneNeighbourKeepsNobodyElseWaiting(t *testing.T) {
	amongLiars(t, 3, func(t *testing.T, f *cluster, l liar) {
		f.unsuspected(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			c, err := f.net.Host("liar").Dial(ctx, "p0", membership.PacketProtocol)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			p := claimGone(suspectMsg, "p1", "p2", 1)
			packet := append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...)
			for n := 0; ctx.Err() == nil; n++ {
				if _, err := c.Write(packet); err != nil {
					return
				}
			}
		}()
		time.Sleep(20 * time.Second)
		cancel()
		<-done
		if n := f.peers["p0"].Refused()["more than one peer may say"]; n == 0 {
			t.Error("nothing was too much")
		}
	})
}
