package constraint_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate/constraint"
)

// server is a peer with something to ask about under every key.
func server() *constraint.Facts {
	return &constraint.Facts{
		ID: "12D3KooWA", Name: "gpu-17", OS: "linux", Arch: "arm64", MilliCPU: 3500, Memory: 8 << 30,
		Offers: map[string]int64{"gpus": 2},
		Labels: map[string]string{"zone": "west", "Rack": "7", "gen": "03.50", "empty": "", "far": "far, west", "disk": "ssd"},
		Addrs:  []netip.Addr{netip.MustParseAddr("::ffff:10.1.2.3"), netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("203.0.113.9")},
	}
}

func parse(t testing.TB, text string) constraint.Constraint {
	t.Helper()
	c, err := constraint.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func holds(t *testing.T, f *constraint.Facts, want bool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if got := parse(t, text).Holds(f); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestTextIsComparedLiterally(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.os == linux", "peer.os==linux", ` peer.os =="linux" `, "peer.os == 'linux'", "peer.arch != amd64", "peer.name == gpu-17", "peer.id == 12D3KooWA",
		"peer.label.zone == west", "peer.label.empty == ''", `peer.label.far == "far, west"`, "peer.os != Linux", "peer.label.Rack != 7.0", "peer.name != gpu-.*")
	holds(t, f, false, "peer.os == Linux", "peer.os != linux", "peer.label.zone == West", "peer.label.Rack == 07", "peer.name == gpu-*", "peer.label.empty != ''", "peer.os == ''")
}

func TestKeysAreReadInAnyCaseAndLabelNamesExactly(t *testing.T) {
	f := server()
	holds(t, f, true, "PEER.OS == linux", "Peer.Label.Rack == 7", "pEER.lABEL.zone == west", "peer.OFFER.gpus == 2")
	holds(t, f, false, "peer.label.rack == 7", "peer.label.Zone == west", "peer.offer.GPUS == 2")
}

func TestAMissingLabelEqualsNothingAndDiffersFromEverything(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.label.none != x", "peer.label.none != ''")
	holds(t, f, false, "peer.label.none == x", "peer.label.none == ''", "peer.label.none in ('', x)", `peer.label.none =~ ".*"`, "peer.label.none > 0", "peer.label.none < 1", "peer.label.none <= 0", "peer.label.none >= 0")
	holds(t, &constraint.Facts{}, true, "peer.os != linux", "peer.name != ''", "peer.addr != 10.0.0.0/8", "peer.offer.gpus == 0", "peer.offer.gpus < 1")
	holds(t, &constraint.Facts{}, false, "peer.os == ''", "peer.id =~ ''", "peer.addr == 10.0.0.0/8", "peer.addr in (0.0.0.0/0, ::/0)", "peer.cpus > 0")
}

func TestNumbersAreComparedInTheirUnits(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.cpus >= 3.5", "peer.cpus == 3500m", "peer.cpus < 4", "peer.cpus in (1, 3.5)", "peer.memory >= 8GiB", "peer.memory > 8GB", "peer.memory == 8192MiB", "peer.memory <= '8 GiB'",
		"peer.memory != 8589934591", "peer.memory in (4GiB, 8GiB)", "peer.offer.gpus >= 2", "peer.offer.gpus != 0", "peer.offer.licenses == 0", "peer.offer.gpus in (1, 2)")
	holds(t, f, false, "peer.cpus > 3.5", "peer.cpus != 3.5", "peer.cpus in (3, 4)", "peer.memory > 8GiB", "peer.memory < 8GiB", "peer.offer.gpus > 2", "peer.offer.licenses >= 1")
}

func TestLabelsAreOrderedOnlyAsNumbers(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.label.gen >= 3.5", "peer.label.gen <= +3.500", "peer.label.gen > -4", "peer.label.gen < 10", "peer.label.Rack > 3", "peer.label.Rack < 10000000000000000000000000")
	holds(t, f, false, "peer.label.gen > 3.5", "peer.label.gen < 3.5", "peer.label.zone > 0", "peer.label.zone <= 0", "peer.label.empty >= 0", "peer.label.gen == 3.5")
}

func TestARegularExpressionIsFoundAnywhereUnlessItSaysOtherwise(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.name =~ pu-", "peer.name =~ ^gpu-[0-9]+$", "peer.label.zone =~ (east|west)", `peer.name =~ \d{2}`, `peer.name =~ "\\d{2}"`, `peer.name =~ ^[a-z]{1,63}-[0-9]{1,20}$`, `peer.name =~ ^(\pL|\pN|-){1,100}$`, `peer.label.zone =~ "^(?i)WEST$"`, "peer.label.empty =~ ^$")
	holds(t, f, false, "peer.name =~ ^pu", "peer.name =~ gpu$", "peer.label.zone =~ WEST")
}

func TestAnAddressIsInANetworkIfOneOfThePeersAddressesIs(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.addr == 10.0.0.0/8", "peer.addr == 10.1.2.3", "peer.addr == 10.9.9.9/8", "peer.addr == ::ffff:10.1.2.3", "peer.addr == ::ffff:10.0.0.0/104", "peer.addr == fe80::/10", "peer.addr != 192.168.0.0/16",
		"peer.addr in (192.168.0.0/16, 203.0.113.0/24)", "peer.addr != 10.1.2.4", "peer.addr == 0.0.0.0/0")
	holds(t, f, false, "peer.addr == 192.168.0.0/16", "peer.addr != 10.0.0.0/8", "peer.addr != 203.0.113.9", "peer.addr in (192.168.0.1, 10.1.2.4)", "peer.addr == 2001:db8::/32")
}

func TestAListHoldsForEachOfItsValues(t *testing.T) {
	f := server()
	holds(t, f, true, "peer.os in (linux)", "peer.os IN(darwin,linux)", `peer.label.far in (x, "far, west")`, "peer.label.far in ('far, west')", "peer.label.zone in ( east , west )")
	holds(t, f, false, "peer.os in (darwin, windows)", "peer.label.zone in (wes, WEST)")
}

func TestTheZeroConstraintAndUnknownFactsHoldForNobody(t *testing.T) {
	if (constraint.Constraint{}).Holds(server()) {
		t.Error("a constraint that was never parsed lets a peer pass")
	}
	for _, text := range []string{"peer.os == linux", "peer.os != linux", "peer.cpus >= 0", "peer.addr != 10.0.0.1"} {
		if parse(t, text).Holds(nil) {
			t.Errorf("%s holds for a peer of which nothing is known", text)
		}
	}
}

func TestAllHoldNamesTheFirstThatDoesNot(t *testing.T) {
	cs, err := constraint.ParseAll([]string{"peer.os == linux", "peer.cpus > 100", "peer.arch == none"})
	if err != nil {
		t.Fatal(err)
	}
	f := server()
	if got := constraint.FirstBroken(cs, f); got != 1 || constraint.AllHold(cs, f) {
		t.Errorf("broken is %d", got)
	}
	if got := constraint.FirstBroken(cs[:1], f); got != -1 || !constraint.AllHold(cs[:1], f) || !constraint.AllHold(nil, f) {
		t.Errorf("broken is %d of those that hold", got)
	}
}

func TestAKeyToSpreadOverHasValues(t *testing.T) {
	f := server()
	for text, want := range map[string]string{"peer.label.zone": "west", "Peer.OS": "linux", "peer.arch": "arm64", "peer.name": "gpu-17", "peer.id": "12D3KooWA"} {
		k, err := constraint.ParseOver(text)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := k.Value(f); v != want || !ok {
			t.Errorf("%s: %q, %v", text, v, ok)
		}
		if again, err := constraint.ParseOver(k.String()); err != nil || again != k {
			t.Errorf("%s is written %s", text, k)
		}
	}
	if k, err := constraint.ParseOver(""); err != nil || k != (constraint.Key{}) || k.String() != "" {
		t.Errorf("nothing: %v, %v", k, err)
	}
	if k, _ := constraint.ParseOver("peer.label.none"); true {
		if _, ok := k.Value(f); ok {
			t.Error("a missing label has a value")
		}
	}
	for text, says := range map[string]string{
		"peer.memory": "no values to spread over", "peer.addr": "no values", "peer.offer.gpus": "no values", "zone": "did you mean peer.label.zone?", "peer.label.": "no name", "peer.label.a b": "letters",
	} {
		if _, err := constraint.ParseOver(text); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "as in: peer.label.zone") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestLabelsThatCanBeAskedForPassTheCheck(t *testing.T) {
	for _, ok := range []string{"zone", "a.b/c-d_e", "Ärger", "x"} {
		if err := constraint.CheckLabel(ok); err != nil {
			t.Error(err)
		}
		if c := parse(t, "peer.label."+ok+" == 1"); !slices.Contains([]string{"peer.label." + ok + " == 1"}, c.String()) {
			t.Error(c)
		}
	}
	for _, bad := range []string{"", "a b", "a=b", "a\"", "a(", strings.Repeat("x", constraint.MaxName+1), "\xff"} {
		if err := constraint.CheckLabel(bad); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
