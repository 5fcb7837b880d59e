//go:build unix

package clinic

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// ward is a peer, me, that a clinic looks at, with all that it could find. Both others are a and b.
type ward struct {
	thin  time.Duration // a large message takes so much longer
	mute  bool          // a peer is away, and its machine takes up connections
	cfg   Config
	peers api.Peers
	skew  time.Duration // of the others' clocks
	udp   bool          // they reach me by it
	silent,
	dialled bool
	outside        []netip.AddrPort
	places         int
	lan            p2p.LAN
	addrs, bridges []string
	elected        int
	known          []api.Trouble
}

func (w *ward) Port() int                                  { return 26839 }
func (w *ward) Addrs() []string                            { return w.addrs }
func (w *ward) PortsUDP() []uint16                         { return []uint16{26839} }
func (w *ward) Outside(context.Context) []netip.AddrPort   { return w.outside }
func (w *ward) Places() int                                { return w.places }
func (w *ward) Punched() (well, not int)                   { return 0, 0 }
func (w *ward) LAN() p2p.LAN                               { return w.lan }
func (w *ward) Bridges() []string                          { return w.bridges }
func (w *ward) Connected(id string) (direct, relayed bool) { return id != "gone", false }
func (w *ward) Listens(context.Context, string) bool       { return w.mute }

func (w *ward) Reach(context.Context, string) (known, reached bool) { return true, w.dialled }

func (w *ward) DialUDP(context.Context, string, []uint16) (known, reached bool) { return true, true }

// dial connects to another peer, which answers unless it is silent.
func (w *ward) dial(context.Context, string, string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	go func() {
		defer theirs.Close()
		var q question
		if w.silent || wire.NewReader(theirs, maxQuestion).Read(&q) != nil {
			return
		}
		a := answer{Now: time.Now().Add(w.skew).UnixMicro(), Known: q.What == askUDP, Reached: w.udp}
		if q.What == askLarge {
			a.Findings = large()
			time.Sleep(w.thin)
		}
		_ = wire.NewWriter(theirs, maxAnswer).Send(a)
	}()
	return mine, nil
}

// admit makes a peer with which all is well.
func admit(t *testing.T) *ward {
	dir := filepath.Join(t.TempDir(), "me")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	seen := netip.MustParseAddrPort("203.0.113.5:26839")
	w := &ward{udp: true, dialled: true, outside: []netip.AddrPort{seen, seen}, addrs: []string{"192.168.1.2"}, lan: p2p.LAN{Heard: 2}}
	row := func(id, path string) api.Peer {
		return api.Peer{ID: id, Name: id, Standing: "ready", Path: path, Version: "1", Roles: []string{"voter"}, Holds: []string{"cgroup"}}
	}
	w.peers = api.Peers{Coordinator: "a", Peers: []api.Peer{row("me", "self"), row("a", "direct"), row("b", "direct")}}
	w.peers.Peers[0].Self, w.peers.Peers[1].Coordinator = true, true
	w.cfg = Config{
		Self: "me", Version: "1", Dir: dir, Dial: w.dial, Net: w,
		Room: func() (supervise.Room, error) { return supervise.Room{Free: 50 << 30, Total: 100 << 30}, nil },
		Members: func() *membership.View {
			v := &membership.View{Self: "me"}
			for _, id := range []string{"a", "b", "me"} {
				v.Members = append(v.Members, membership.Member{ID: id, Verdict: membership.Alive})
			}
			if w.mute {
				v.Members = append(v.Members, membership.Member{ID: "gone", Verdict: membership.Dead, Addrs: []string{"/ip4/192.0.2.1/tcp/1"}})
			}
			return v
		},
		Name: func(id taskstate.PeerID) string { return id },
		Peer: func(context.Context, string) (api.PeerAnswer, error) {
			return api.PeerAnswer{Peer: w.peers.Peers[0]}, nil
		},
		Peers:   func(context.Context) (api.Peers, error) { return w.peers, nil },
		Seats:   func() []taskstate.PeerID { return []taskstate.PeerID{"a", "b", "me"} },
		Elected: func(time.Time) int { return w.elected },
		Wrong:   func(context.Context) ([]api.Trouble, []string) { return w.known, nil },
		Lacks:   func() map[string]string { return map[string]string{"cgroup": "it may not"} },
	}
	return w
}

// results are those of each check.
func (w *ward) results(t *testing.T) map[string]string {
	t.Helper()
	k, err := New(w.cfg).Examine(t.Context(), "self")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, f := range k.Findings {
		of[f.Check] = f.Result
	}
	return of
}

func TestWhatIsWrongIsFoundByItsOwnCheckAndLeavesTheOthersAlone(t *testing.T) {
	well := admit(t).results(t)
	for _, check := range []string{"peer", "trouble", "voters", "elections", "tcp", "udp", "nat", "relays", "links", "lan", "clock", "room", "versions", "names"} {
		if well[check] != api.FindingOK {
			t.Errorf("of a peer with which all is well, %s is %q", check, well[check])
		}
	}
	for _, c := range []struct {
		what, check, result string
		wrong               func(t *testing.T, w *ward)
	}{
		{"nobody decides", "voters", api.FindingFail, func(_ *testing.T, w *ward) {
			w.peers.Coordinator, w.peers.Peers[1].Coordinator, w.peers.Missing = "", false, []string{"a", "b"}
		}},
		{"two decide", "voters", api.FindingWarn, func(_ *testing.T, w *ward) {
			w.cfg.Seats = func() []taskstate.PeerID { return []taskstate.PeerID{"a", "me"} }
		}},
		{"a copied identity", "trouble", api.FindingFail, trouble(api.TroubleCopied)},
		{"a voter without its log", "trouble", api.FindingFail, trouble(api.TroubleLogLost)},
		{"a full disk, as its peer knows it", "trouble", api.FindingFail, trouble(api.TroubleDiskFull)},
		{"elections all the time", "elections", api.FindingFail, func(_ *testing.T, w *ward) { w.elected = 40 }},
		{"a closed port and no relay", "tcp", api.FindingFail, func(_ *testing.T, w *ward) { w.dialled = false }},
		{"a closed port and a relay", "tcp", api.FindingWarn, func(_ *testing.T, w *ward) { w.dialled, w.places = false, 1 }},
		{"no UDP", "udp", api.FindingWarn, func(_ *testing.T, w *ward) { w.udp = false }},
		{"a NAT that varies", "nat", api.FindingWarn, func(_ *testing.T, w *ward) { w.outside[1] = netip.MustParseAddrPort("203.0.113.5:4000") }},
		{"only one tells of the NAT", "nat", api.FindingUntried, func(_ *testing.T, w *ward) { w.outside = w.outside[:1] }},
		{"no link", "relays", api.FindingFail, func(_ *testing.T, w *ward) { w.peers.Peers[1].Path, w.peers.Peers[2].Path = "none", "none" }},
		{"a link through a relay", "relays", api.FindingWarn, func(_ *testing.T, w *ward) { w.peers.Peers[1].Path = "relayed" }},
		{"a link of 64 kbit/s", "links", api.FindingWarn, func(_ *testing.T, w *ward) { w.thin = time.Second }},
		{"a peer that is away and takes up connections", "links", api.FindingFail, func(_ *testing.T, w *ward) { w.mute = true }},
		{"mDNS is not heard", "lan", api.FindingWarn, func(_ *testing.T, w *ward) { w.lan.Wrong = "no multicast" }},
		{"the address of a bridge", "lan", api.FindingWarn, func(_ *testing.T, w *ward) { w.bridges = w.addrs }},
		{"a clock an hour behind", "clock", api.FindingFail, func(_ *testing.T, w *ward) { w.skew = time.Hour }},
		{"a full disk", "room", api.FindingFail, func(_ *testing.T, w *ward) {
			w.cfg.Room = func() (supervise.Room, error) { return supervise.Room{Free: 1 << 20, Total: 100 << 30}, nil }
		}},
		{"a folder that others write to", "folder", api.FindingFail, func(t *testing.T, w *ward) {
			if err := os.Chmod(w.cfg.Dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}},
		{"a folder of another user", "folder", api.FindingFail, func(t *testing.T, w *ward) {
			if err := os.Chown(w.cfg.Dir, 12345, -1); err != nil {
				t.Skip("only root gives folders away: ", err)
			}
		}},
		{"no cgroups", "cgroup", api.FindingWarn, func(t *testing.T, w *ward) {
			if runtime.GOOS != "linux" {
				t.Skip("there are none on ", runtime.GOOS)
			}
			w.peers.Peers[0].Holds = nil
		}},
		{"few files", "limits", api.FindingFail, fewFiles},
		{"an older version", "versions", api.FindingWarn, func(_ *testing.T, w *ward) { w.peers.Peers[2].Version = "0" }},
		{"the same name twice", "names", api.FindingWarn, func(_ *testing.T, w *ward) { w.peers.Peers[2].Name = "me" }},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := admit(t)
			c.wrong(t, w)
			for check, result := range w.results(t) {
				switch {
				case check == c.check && result != c.result:
					t.Errorf("%s is %q, want %q", check, result, c.result)
				case check != c.check && check != "sync" && result != well[check]: // how fast a disk is, a test cannot choose
					t.Errorf("%s is %q, too", check, result)
				}
			}
		})
	}
}

func TestADiskThatCannotBeWrittenToFailsItsCheck(t *testing.T) {
	w := admit(t)
	if err := os.Remove(w.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if got := w.results(t); got["sync"] != api.FindingFail || got["folder"] != api.FindingUntried {
		t.Error(got)
	}
}

func TestWhatNobodyAnswersIsNotTried(t *testing.T) {
	w := admit(t)
	w.silent = true
	if got := w.results(t); got["clock"] != api.FindingUntried || got["udp"] != api.FindingUntried || got["tcp"] != api.FindingOK {
		t.Error(got)
	}
}

func trouble(code string) func(*testing.T, *ward) {
	return func(_ *testing.T, w *ward) {
		w.known = []api.Trouble{{Code: code, Message: "something; type `peer up`"}}
	}
}

// fewFiles has this process bear few files for the rest of a test.
func fewFiles(t *testing.T, _ *ward) {
	if runtime.GOOS != "linux" {
		t.Skip("not looked at on ", runtime.GOOS)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := was
	few.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}
