//go:build unix

package testnet_test

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	libp2pquic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	mss "github.com/multiformats/go-multistream"
	"github.com/quic-go/quic-go"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/testnet"
)

// target is a peer as a stranger sees it.
type target struct {
	id    peer.ID
	addrs []ma.Multiaddr
}

// port is where it listens, for TCP and UDP.
func (a target) port(t testing.TB) netip.AddrPort {
	t.Helper()
	for _, m := range a.addrs {
		if v, err := m.ValueForProtocol(ma.P_TCP); err == nil {
			return netip.MustParseAddrPort("127.0.0.1:" + v)
		}
	}
	t.Fatal("it does not listen")
	return netip.AddrPort{}
}

// over keeps the addresses of one transport.
func (a target) over(quic bool) (out []ma.Multiaddr) {
	return slices.DeleteFunc(slices.Clone(a.addrs), func(m ma.Multiaddr) bool { return strings.Contains(m.String(), "quic") != quic })
}

func targets(t testing.TB, n *testnet.Net) (all []target) {
	t.Helper()
	for k := 1; k <= n.N(); k++ {
		st, err := n.Client(k).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		one := target{}
		if one.id, err = peer.Decode(st.ID); err != nil {
			t.Fatal(err)
		}
		for _, s := range st.Addrs {
			one.addrs = append(one.addrs, ma.StringCast(s))
		}
		all = append(all, one)
	}
	return all
}

// stranger is a libp2p host of nobody's, with a key of its own and nothing that behaves.
func stranger(t testing.TB) *swarm.Swarm {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return host(t, key)
}

func host(t testing.TB, key crypto.PrivKey) *swarm.Swarm {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pub := key.GetPublic()
	id, err := peer.IDFromPublicKey(pub)
	ok(err)
	store, err := pstoremem.NewPeerstore()
	ok(err)
	ok(store.AddPrivKey(id, key))
	ok(store.AddPubKey(id, pub))
	s, err := swarm.NewSwarm(id, store, eventbus.NewBus(), swarm.WithDialTimeout(5*time.Second), swarm.WithDialTimeoutLocal(5*time.Second))
	ok(err)
	muxers := []upgrader.StreamMuxer{{ID: yamux.ID, Muxer: yamux.DefaultTransport}}
	security, err := noise.New(noise.ID, key, muxers)
	ok(err)
	up, err := upgrader.New([]sec.SecureTransport{security}, muxers, nil, nil, nil)
	ok(err)
	plain, err := tcp.NewTCPTransport(up, nil, nil, tcp.DisableReuseport())
	ok(err)
	ok(s.AddTransport(plain))
	conns, err := quicreuse.NewConnManager(quic.StatelessResetKey{}, quic.TokenGeneratorKey{})
	ok(err)
	q, err := libp2pquic.NewTransport(key, conns, nil, nil, nil)
	ok(err)
	ok(s.AddTransport(q))
	t.Cleanup(func() { s.Close(); conns.Close() })
	return s
}

// assault runs attackers until stop is called, which waits for them.
type assault struct {
	ctx    context.Context
	stop   func()
	wg     *sync.WaitGroup
	ticket string // for who is no stranger
}

func newAssault(t testing.TB, ticket string) assault {
	ctx, cancel := context.WithCancel(context.Background())
	a := assault{ctx: ctx, wg: &sync.WaitGroup{}, ticket: ticket}
	a.stop = func() { cancel(); a.wg.Wait() }
	t.Cleanup(a.stop)
	return a
}

// persist does something again and again, with a pause.
func (a assault) persist(pause time.Duration, f func()) {
	a.wg.Go(func() {
		for a.ctx.Err() == nil {
			f()
			select {
			case <-a.ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

// unnamed keeps streams open that name no protocol: some strangers with many each, 1300 at every
// peer.
func (a assault) unnamed(t testing.TB, all []target) {
	for i := range 20 {
		a.nameless(stranger(t), all, i%2 == 1, 65)
	}
}

// member is the same by somebody who was let in, over TCP: QUIC allows 256 streams at once.
func (a assault) member(t testing.TB, all []target) {
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := admission.ParseTicket(a.ticket)
	if err != nil {
		t.Fatal(err)
	}
	h.SetAddrs(ticket.Addrs[0].ID, ticket.Addrs[0].Addrs)
	_, err = admission.Join(t.Context(), h, ticket.Addrs[0].ID, admission.JoinRequest{Secret: ticket.Secret, Cluster: ticket.Cluster, Name: "liar", Dialect: wire.Dialect})
	if h.Close(); err != nil {
		t.Fatal(err)
	}
	a.nameless(host(t, key), all, false, 1300)
}

// nameless has one host open so many streams at every peer, and as many again whenever they have
// ended.
func (a assault) nameless(s *swarm.Swarm, all []target, quic bool, streams int) {
	for _, to := range all {
		s.Peerstore().AddAddrs(to.id, to.over(quic), peerstore.PermanentAddrTTL)
		a.persist(100*time.Millisecond, func() {
			ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
			defer cancel()
			for range streams {
				st, err := s.NewStream(ctx, to.id)
				if err != nil {
					return
				}
				_, _ = st.Write([]byte{1}) // over QUIC nobody hears of a stream before
			}
		})
	}
}

// silent keeps 700 connections open at every peer on which nothing is said.
func (a assault) silent(t testing.TB, all []target) {
	for _, to := range all {
		at := to.port(t).String()
		for range 700 {
			a.persist(time.Second, func() {
				var d net.Dialer
				c, err := d.DialContext(a.ctx, "tcp", at)
				if err != nil {
					return
				}
				defer context.AfterFunc(a.ctx, func() { c.Close() })()
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			})
		}
	}
}

// deaf is a socket that hears nothing: handshakes on it never end.
type deaf struct{ net.PacketConn }

func (d deaf) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if _, _, err := d.PacketConn.ReadFrom(b); err != nil {
			return 0, nil, err
		}
	}
}

// silentQUIC keeps 700 handshakes over QUIC open at every peer.
func (a assault) silentQUIC(t testing.TB, all []target) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := libp2ptls.NewIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range all {
		c, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tr := &quic.Transport{Conn: deaf{c}}
		t.Cleanup(func() { tr.Close(); c.Close() })
		at := net.UDPAddrFromAddrPort(to.port(t))
		for range 700 {
			a.persist(50*time.Millisecond, func() {
				ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
				defer cancel()
				conf, _ := id.ConfigForPeer("")
				conf.NextProtos = []string{"libp2p"}
				if c, err := tr.Dial(ctx, at, conf, &quic.Config{}); err == nil {
					c.CloseWithError(0, "")
				}
			})
		}
	}
}

// crowd is 120 identities that sit on their connections, half of them with a stream on which they
// ask to join and say no more.
func (a assault) crowd(t testing.TB, all []target) {
	for i := range 120 {
		s := stranger(t)
		for _, to := range all {
			s.Peerstore().AddAddrs(to.id, to.over(i%4 == 3), peerstore.PermanentAddrTTL)
			a.persist(100*time.Millisecond, func() {
				ctx, cancel := context.WithTimeout(a.ctx, 5*time.Second)
				defer cancel()
				c, err := s.DialPeer(ctx, to.id)
				if err != nil {
					return
				}
				if i%2 == 0 {
					if st, err := c.NewStream(ctx); err == nil {
						_ = mss.SelectProtoOrFail(admission.JoinProtocol, st)
					}
				}
				for !c.IsClosed() && a.ctx.Err() == nil {
					select {
					case <-a.ctx.Done():
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
		}
	}
}

// assaults is all of them.
var assaults = []struct {
	name  string
	begin func(assault, testing.TB, []target)
}{
	{"streams without a protocol", assault.unnamed},
	{"silent sockets", assault.silent},
	{"silent QUIC", assault.silentQUIC},
	{"a crowd", assault.crowd},
	{"a member's streams without a protocol", assault.member},
}

// runTrue is `peer run -- true` at a peer, and how long it took.
func runTrue(t testing.TB, n *testnet.Net, program string, k int) time.Duration {
	t.Helper()
	begin := time.Now()
	if out, err := exec.CommandContext(t.Context(), program, "--data", n.Data(k), "run", "--", "true").CombinedOutput(); err != nil {
		t.Fatalf("run -- true: %v: %s", err, out)
	}
	return time.Since(begin)
}

// runsTrue is how long several runs took, at one peer after the other.
func runsTrue(t testing.TB, n *testnet.Net, program string, runs int) (all []time.Duration) {
	t.Helper()
	for i := range runs {
		all = append(all, runTrue(t, n, program, 1+i%n.N()))
	}
	return all
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// weight is the memory of the largest peer, in bytes.
func weight(t testing.TB, n *testnet.Net) (most int64) {
	t.Helper()
	for k := 1; k <= n.N(); k++ {
		st, err := n.Client(k).Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, st.RSS)
	}
	return most
}

func epoch(t testing.TB, n *testnet.Net) string {
	t.Helper()
	st, err := n.Client(1).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return st.Epoch
}

// What strangers do not reach is measured here because it is what the limits are for. It takes a
// tenth of this on a machine with nothing else to do, and many times this without them.
const (
	assaultRounds = 3
	assaultMemory = 200 << 20              // bytes by which no peer may grow
	leastQuiet    = 100 * time.Millisecond // what counts as quiet on a machine with other work
	lateNewcomer  = 5 * time.Second
)

// What strangers do, without a ticket: the cluster goes on as before, and lets in who has one.
func TestStrangersNeitherStopTheClusterNorKeepOthersOut(t *testing.T) {
	long.Test(t)
	for _, attack := range assaults {
		t.Run(attack.name, func(t *testing.T) {
			n := start(t, 3)
			program := exe(t)
			before, was := weight(t, n), epoch(t, n)
			ticket, err := n.Client(1).Invite(timed(t), api.TicketRequest{Expires: 3600})
			if err != nil {
				t.Fatal(err)
			}
			// On and off in turn: a machine with other work is slow for a while, and both must have
			// their share of that.
			var off, on []time.Duration
			var took time.Duration
			var grown int64
			for round := range assaultRounds {
				off = append(off, runsTrue(t, n, program, 5)...)
				a := newAssault(t, ticket.Ticket)
				attack.begin(a, t, targets(t, n))
				<-time.After(2 * time.Second) // until it is under way
				on = append(on, runsTrue(t, n, program, 5)...)
				if round == assaultRounds-1 {
					took = comesIn(t, program, ticket.Ticket)
					grown = weight(t, n) - before
				}
				a.stop()
			}
			quiet, loud := median(off), median(on)
			t.Logf("run -- true: quiet %v, under attack %v (%.1f times); a newcomer was in after %v; %d MB more", quiet.Round(time.Millisecond),
				loud.Round(time.Millisecond), float64(loud)/float64(quiet), took.Round(time.Millisecond), grown>>20)
			if now := epoch(t, n); now != was {
				t.Errorf("they forced an election: epoch %s became %s", was, now)
			}
			if loud > 5*max(quiet, leastQuiet) {
				t.Errorf("run -- true took %v, and %v before", loud, quiet)
			}
			if took > lateNewcomer {
				t.Errorf("a newcomer with a ticket was kept out for %v", took)
			}
			if grown > assaultMemory {
				t.Errorf("a peer grew by %d MB", grown>>20)
			}
		})
	}
}

// comesIn starts a peer with a ticket and returns when it is one.
func comesIn(t testing.TB, program, ticket string) time.Duration {
	t.Helper()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	data := t.TempDir()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, program, "--data", data, "up", "--no-mdns", "--listen", "127.0.0.1:0", "--name", "late", "--join", ticket)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	at := client.Of(data)
	defer func() { _ = at.Down(context.Background()); <-ended }()
	for {
		if st, err := at.Status(ctx); err == nil && st.Ready && st.How == "joined" {
			return time.Since(begin)
		}
		select {
		case <-ended:
			t.Fatalf("it did not come in: %s", said.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
