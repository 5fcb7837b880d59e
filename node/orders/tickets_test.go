package orders

import (
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
)

func TestATicketOfPrivateAddressesOnlySaysWhichPortToOpen(t *testing.T) {
	doors := func(addrs ...string) []admission.PeerAddr { return []admission.PeerAddr{{ID: "p", Addrs: addrs}} }
	for _, c := range []struct {
		doors []admission.PeerAddr
		want  string
	}{
		{doors("/ip4/192.168.1.7/tcp/26839", "/ip4/192.168.1.7/udp/26839/quic-v1"), "open port 26839"},
		{doors("/ip4/127.0.0.1/tcp/4001"), "open port 4001"},
		{doors("/ip6/fe80::1/tcp/4001", "/ip6/fd00::1/tcp/4001"), "open port 4001"},
		{doors("/ip4/192.168.1.7/tcp/26839", "/ip4/11.0.0.1/tcp/26839"), ""},
		{append(doors("/ip4/10.0.0.1/tcp/1"), doors("/ip6/2001:db8::1/tcp/2")...), ""},
		{doors("/ip4/10.0.0.1/tcp/1", "/dns4/peer.example.com/tcp/26839"), ""},
	} {
		got := reachWarning(c.doors)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q", c.doors, got)
		}
		if got != "" && !strings.Contains(got, "--announce") {
			t.Errorf("%q does not say what to type", got)
		}
	}
}
