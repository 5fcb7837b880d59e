//go:build unix

package testnet_test

import (
	"bytes"
	"compress/lzw"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

const (
	mostGrowth    = 200 << 20 // bytes by which a peer may grow while a member does its worst
	lastingGrowth = 64 << 20  // bytes of which it may keep what the runtime does not give back at once
)

// hostile is a member in bad hands against peers that run as processes: a host with an admitted key
// that says what a test has it say.
type hostile struct {
	*p2p.Host
	t     *testing.T
	net   *testnet.Net
	peers []string // ids of the others

	before []int64 // what the peers took before the newest attack
}

// among has somebody join with a ticket as a guest would get it.
func among(t *testing.T, net *testnet.Net) *hostile {
	t.Helper()
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	k, err := net.Client(1).Invite(timed(t), api.TicketRequest{Roles: []string{"worker", "submit"}, Expires: 600})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := admission.ParseTicket(k.Ticket)
	if err != nil {
		t.Fatal(err)
	}
	out := &hostile{Host: h, t: t, net: net}
	for i := range net.N() {
		out.peers = append(out.peers, net.ID(i+1))
	}
	all, err := net.Client(1).Peers(timed(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all.Peers {
		h.SetAddrs(p.ID, p.Addrs)
	}
	req := admission.JoinRequest{Name: "hostile", Secret: ticket.Secret, Cluster: ticket.Cluster, Addrs: h.Addrs(), Incarnation: "hostile-1", Dialect: wire.Dialect}
	if _, err := admission.Join(timed(t), h, ticket.Addrs[0].ID, req); err != nil {
		t.Fatal(err)
	}
	for _, id := range out.peers {
		eventually(t, "it is let in", func() (bool, string) {
			err := h.Connect(timed(t), id, nil)
			return err == nil, fmt.Sprint(err)
		})
	}
	return out
}

// stream opens a stream to a peer, which ends with ctx.
func (h *hostile) stream(ctx context.Context, to, protocol string) net.Conn {
	c, err := h.Dial(ctx, to, protocol)
	if err != nil {
		return nil
	}
	context.AfterFunc(ctx, func() { c.Close() })
	return c
}

// says sends memberlist packets.
func (h *hostile) says(to string, packets ...[]byte) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
	defer cancel()
	c := h.stream(ctx, to, membership.PacketProtocol)
	if c == nil {
		return
	}
	defer c.Close()
	for _, p := range packets {
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...)); err != nil {
			return
		}
	}
}

// word is a message of memberlist's.
func word(kind byte, body any) []byte {
	var b []byte
	if err := codec.NewEncoderBytes(&b, &codec.MsgpackHandle{}).Encode(body); err != nil {
		panic(err)
	}
	return append([]byte{kind}, b...)
}

// steady does attack again and again while jobs run, and holds what the peers grow by against
// mostGrowth. It is the median of what `peer run -- true` took.
func (h *hostile) steady(jobs int, attack func(ctx context.Context)) time.Duration {
	h.t.Helper()
	var took []time.Duration
	h.before = h.memory()
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			attack(ctx)
		}
	}()
	most := make([]int64, len(h.before))
	for i := range jobs {
		took = append(took, runTrue(h.t, h.net, exe(h.t), 1+i%h.net.N()))
		for k, now := range h.memory() {
			most[k] = max(most[k], now-h.before[k])
		}
	}
	cancel()
	<-done
	for k, grown := range most {
		h.t.Logf("peer %d grew by up to %d MiB", k+1, grown>>20)
		if grown > mostGrowth {
			h.t.Errorf("peer %d grew by %d bytes", k+1, grown)
		}
	}
	slices.Sort(took)
	return took[jobs/2]
}

// bears holds what `peer run -- true` took under attack against what it took before.
func (h *hostile) bears(quiet, loud time.Duration) {
	h.t.Helper()
	h.t.Logf("run -- true took %s in quiet, %s under attack", quiet, loud)
	if loud > 5*max(quiet, leastQuiet) {
		h.t.Errorf("run -- true took %s, and %s before", loud, quiet)
	}
}

// givesBack waits until the peers keep little of what an attack cost. An idle program of Go's looks
// for garbage every two minutes, and gives back what it found over the next ones.
func (h *hostile) givesBack() {
	h.t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Minute)
	defer cancel()
	for {
		keeps := int64(0)
		for k, now := range h.memory() {
			keeps = max(keeps, now-h.before[k])
		}
		if keeps <= lastingGrowth {
			h.t.Logf("after %s no peer keeps more than %d MiB of it", time.Since(begin).Round(time.Second), keeps>>20)
			return
		}
		if pause.For(ctx, time.Second) != nil {
			h.t.Fatalf("a peer keeps %d MiB of what the attack cost", keeps>>20)
		}
	}
}

func (h *hostile) memory() (all []int64) {
	for k := range h.net.N() {
		st, err := h.net.Client(k + 1).Stats(timed(h.t))
		if err != nil {
			h.t.Fatal(err)
		}
		all = append(all, st.RSS)
	}
	return all
}

// counted sums a counter over all peers.
func (h *hostile) counted(name string) (sum int64) {
	for k := range h.net.N() {
		st, err := h.net.Client(k + 1).Stats(timed(h.t))
		if err != nil {
			h.t.Fatal(err)
		}
		sum += st.Counters[name]
	}
	return sum
}

func TestAMemberThatDefamesAllOthersKeepsNobodyFromItsTasks(t *testing.T) {
	long.Test(t)
	net := start(t, 4)
	h := among(t, net)
	quiet := h.steady(20, func(ctx context.Context) { <-ctx.Done() })
	doubted := 0
	attack := func(context.Context) {
		for _, to := range h.peers {
			for _, of := range h.peers {
				for _, inc := range []uint32{1, 2, 1000, math.MaxInt32, math.MaxUint32} {
					body := map[string]any{"Incarnation": inc, "Node": of, "From": h.peers[0]}
					h.says(to, word(3, body), word(5, body))
				}
			}
		}
	}
	attack(t.Context())
	loud := h.steady(40, func(ctx context.Context) {
		attack(ctx)
		all, err := net.Client(1).Peers(ctx)
		if err != nil {
			return
		}
		for _, p := range all.Peers {
			if p.Name != "hostile" && p.Standing != "ready" {
				doubted++
				t.Logf("%s is %s", p.Name, p.Standing)
			}
		}
	})
	if doubted > 0 {
		t.Errorf("peers were doubted %d times", doubted)
	}
	h.bears(quiet, loud)
	h.givesBack()
	id := submit(t, net, 2, naps("spread", 12)).ID
	ends(t, net, 2, id)
	tasks, err := net.Client(2).Tasks(timed(t), id)
	if err != nil {
		t.Fatal(err)
	}
	on := map[string]int{}
	for _, k := range tasks.Tasks {
		on[k.Peer]++
	}
	if len(on) < net.N() {
		t.Errorf("12 tasks went to %v", on)
	}
	if n := h.counted("gossip_refused"); n == 0 {
		t.Error("nothing was counted")
	}
}

func naps(name string, count int) api.Submit {
	s := noops(name, count)
	s.Job.Run.Noop.Duration = 300
	s.Job.Resources.MilliCPU = 1000
	return s
}

func TestAMemberThatSendsCompressedGossipCostsNoMemory(t *testing.T) {
	long.Test(t)
	net := start(t, 3)
	h := among(t, net)
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	zeros := make([]byte, 1<<20)
	for range 1 << 10 { // a gibibyte
		_, _ = w.Write(zeros)
	}
	_ = w.Close()
	bomb := word(9, map[string]any{"Algo": 0, "Buf": b.Bytes()})
	t.Logf("%d bytes, of a gibibyte", len(bomb))
	quiet := h.steady(20, func(ctx context.Context) { <-ctx.Done() })
	loud := h.steady(40, func(ctx context.Context) {
		for _, to := range h.peers {
			if c := h.stream(ctx, to, membership.SyncProtocol); c != nil {
				_ = c.SetDeadline(time.Now().Add(5 * time.Second))
				_, _ = c.Write(bomb)
				c.Close()
			}
			h.says(to, word(9, map[string]any{"Algo": 0, "Buf": b.Bytes()[:5000]}))
		}
	})
	h.bears(quiet, loud)
	h.givesBack()
	if n := h.counted("gossip_refused"); n == 0 {
		t.Error("nothing was counted")
	}
}

func TestAMemberThatFloodsAllWithSignedStatusesCostsLittleMemory(t *testing.T) {
	long.Test(t)
	net := start(t, 3)
	h := among(t, net)
	topic, err := h.Topic("/covey/status/1", func(string, []byte) p2p.Acceptance { return p2p.Ignore })
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	text := strings.Repeat("x", taskstate.MaxMessage)
	number := uint64(0)
	flood := func(ctx context.Context) {
		number++
		b := taskstate.Batch{Author: h.Self(), Incarnation: "hostile-1", Number: number}
		for i := range 200 { // of tasks that may be assigned some day
			b.Statuses = append(b.Statuses, taskstate.Status{
				Task: taskstate.Task(taskstate.JobID(fmt.Sprintf("a%09d", number)), 1+i, 1), Seq: 1, State: taskstate.Running, Index: 1 << 30, Message: text,
			})
		}
		body, err := taskstate.EncodeBatch(b)
		if err != nil {
			t.Error(err)
			return
		}
		env, err := digest.Seal(h.Self(), "hostile-1", number, body, h.Sign)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := env.Encode()
		if err != nil {
			t.Error(err)
			return
		}
		_ = topic.Publish(ctx, raw)
	}
	quiet := h.steady(20, func(ctx context.Context) { <-ctx.Done() })
	loud := h.steady(200, flood)
	t.Logf("%d batches", number)
	h.bears(quiet, loud)
	if n := h.counted("status_flood") + h.counted("topic_dropped"); n == 0 {
		t.Error("nothing was counted")
	}
}
