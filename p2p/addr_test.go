package p2p_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p"
)

const someID = "12D3KooWRey2WtMEeZYbjHH8f2JVkTH24x6LUyWtaZHUM8AmpZy3"

func TestAddressesAreReadAsPeopleGiveThem(t *testing.T) {
	for s, want := range map[string][2]string{
		"192.0.2.1:26839":                                     {"", "/ip4/192.0.2.1/tcp/26839"},
		" 192.0.2.1:1 ":                                       {"", "/ip4/192.0.2.1/tcp/1"},
		"[2001:db8::1]:26839":                                 {"", "/ip6/2001:db8::1/tcp/26839"},
		"[::ffff:192.0.2.1]:5":                                {"", "/ip4/192.0.2.1/tcp/5"},
		"[fe80::1%eth0]:5":                                    {"", "/ip6zone/eth0/ip6/fe80::1/tcp/5"},
		"box.example.org:26839":                               {"", "/dns/box.example.org/tcp/26839"},
		"localhost:26839":                                     {"", "/dns/localhost/tcp/26839"},
		"/ip4/192.0.2.1/tcp/26839":                            {"", "/ip4/192.0.2.1/tcp/26839"},
		"/ip4/192.0.2.1/tcp/26839/p2p/" + someID:              {someID, "/ip4/192.0.2.1/tcp/26839"},
		"/ip6/::1/udp/26839/quic-v1/p2p/" + someID:            {someID, "/ip6/::1/udp/26839/quic-v1"},
		"/dns4/a.b/tcp/1":                                     {"", "/dns4/a.b/tcp/1"},
		"/ip4/192.0.2.1/tcp/1/p2p/" + someID + "/p2p-circuit": {"", "/ip4/192.0.2.1/tcp/1/p2p/" + someID + "/p2p-circuit"},
	} {
		id, addr, err := p2p.ParseAddr(s)
		if err != nil || id != want[0] || addr != want[1] {
			t.Errorf("%q: %q %q %v", s, id, addr, err)
		}
	}
}

func TestAMistypedAddressSaysWhatToWrite(t *testing.T) {
	for s, says := range map[string]string{
		"":                             "host:port",
		"box":                          "host:port",
		"2001:db8::1":                  "brackets",
		"2001:db8::1:26839":            "brackets",
		"192.0.2.1:":                   "number",
		"192.0.2.1:0":                  "number",
		"192.0.2.1:70000":              "number",
		"192.0.2.1:http":               "number",
		"bo x:1":                       "neither",
		"-box:1":                       "neither",
		":26839":                       "neither",
		"/ip4/192.0.2.256/tcp/1":       "write /ip4",
		"/ip4/192.0.2.1":               "neither /tcp",
		"/ip4/192.0.2.1/udp/1":         "neither /tcp",
		"/unix/tmp/x":                  "does not start",
		"/p2p/" + someID:               "where it is",
		"/ip4/192.0.2.1/tcp/1/p2p/xyz": "write /ip4",
	} {
		if id, addr, err := p2p.ParseAddr(s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %q %q %v", s, id, addr, err)
		}
	}
}

func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"a:1", "[::1]:2", "/ip4/1.2.3.4/tcp/1/p2p/" + someID, "/p2p-circuit", "/dnsaddr/x", "/ip6zone/x/ip6/fe80::1/tcp/2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, addr, err := p2p.ParseAddr(s)
		if err != nil {
			return
		}
		full := addr
		if id != "" {
			full += "/p2p/" + id
		}
		id2, addr2, err := p2p.ParseAddr(full)
		if err != nil || addr2 != addr || id2 != id {
			t.Fatalf("%q became %q and then %q %q %v", s, full, id2, addr2, err)
		}
	})
}

func FuzzAddressesFromOutside(f *testing.F) {
	f.Add("id="+someID, "\xc0\x00\x02\x01", 26839)
	f.Add("id=", "/p2p-circuit", -1)
	f.Fuzz(func(t *testing.T, a, b string, port int) {
		id, addrs, err := p2p.ParseMDNS([]string{a, b}, port, []net.IP{net.IP(b), net.ParseIP(a), nil})
		if err == nil && (id == "" || len(addrs) == 0) {
			t.Fatal("half a record was taken")
		}
		if err == nil && len(p2p.ParseAddrs(addrs)) != len(addrs) {
			t.Fatalf("%q: not all can be dialled", addrs)
		}
		p2p.ParseAddrs([]string{a, b})
		p2p.ParsePlace(a)
	})
}

func TestWhatOthersShouldTryFirstComesFirst(t *testing.T) {
	got := p2p.OrderAddrs([]string{
		"/ip4/127.0.0.1/tcp/1", "/ip4/172.17.0.1/tcp/1", "/ip4/10.0.0.5/udp/1/quic-v1", "/ip4/10.0.0.5/tcp/1", "/ip6/fe80::1/tcp/1",
		"/ip4/11.0.0.1/tcp/1/p2p/" + someID + "/p2p-circuit", "/ip4/11.0.0.9/tcp/1", "/dns/box.example.org/tcp/2", "/ip4/10.0.0.5/tcp/1",
	}, []string{"/dns/box.example.org/tcp/2"}, "172.17.0.1")
	want := []string{
		"/dns/box.example.org/tcp/2", "/ip4/11.0.0.9/tcp/1", "/ip4/10.0.0.5/tcp/1", "/ip4/10.0.0.5/udp/1/quic-v1", "/ip4/172.17.0.1/tcp/1",
		"/ip4/11.0.0.1/tcp/1/p2p/" + someID + "/p2p-circuit",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if got := p2p.OrderAddrs([]string{"/ip4/127.0.0.1/tcp/1"}, nil, ""); len(got) != 1 {
		t.Fatal("a peer on loopback only has no address")
	}
}

func TestAnnouncedAddressesAreToldToo(t *testing.T) {
	h := start(t, everybody(), func(c *p2p.Config) { c.Announce = []string{"box.example.org:4000"} })
	if got := h.Addrs(); got[0] != "/dns/box.example.org/tcp/4000" {
		t.Fatal(got)
	}
}

func TestABadConfigSaysWhatIsWrong(t *testing.T) {
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for says, cfg := range map[string]p2p.Config{
		"key":        {},
		"announce":   {Key: key, Announce: []string{"nonsense"}},
		"listen":     {Key: key, Listen: []string{"nonsense"}},
		"IP:port":    {Key: key, Listen: []string{"/dns/x/tcp/1"}},
		"192.0.2.77": {Key: key, Listen: []string{"192.0.2.77"}},
	} {
		h, err := p2p.New(cfg)
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
