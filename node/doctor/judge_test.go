package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/api"
)

var (
	one   = netip.MustParseAddrPort("203.0.113.5:26839")
	other = netip.MustParseAddrPort("203.0.113.5:40001")
)

// cases are, of each check, facts with each of its results, and a part of what is said.
var cases = []struct {
	check, result string
	of            Facts
	says          string
}{
	{"peer", api.FindingOK, Facts{Dir: "/d", Running: Is(true)}, "it runs, with the data folder /d"},
	{"peer", api.FindingFail, Facts{Dir: "/d", Running: Is(false)}, "no peer runs with the data folder /d: `peer up`"},

	{"trouble", api.FindingOK, Facts{Troubles: Is(Troubles{})}, "nothing that is wrong"},
	{"trouble", api.FindingFail, Facts{Troubles: Is(Troubles{Known: []api.Trouble{{Code: api.TroubleCopied, Message: "another one has its key; type `peer up --new-identity`"}}})}, "another one has its key: type `peer up --new-identity`"},
	{"trouble", api.FindingFail, Facts{Troubles: Is(Troubles{Known: []api.Trouble{{Code: api.TroubleLogLost, Message: "its log is gone"}}})}, "its log is gone"},
	{"trouble", api.FindingWarn, Facts{Troubles: Is(Troubles{Known: []api.Trouble{{Code: "of-later", Message: "something"}}})}, "something"},
	{"trouble", api.FindingWarn, Facts{Troubles: Is(Troubles{Warnings: []string{"it lets nobody in; `peer trust add KEY` does (`peer trust list` has the keys)"}})}, "it lets nobody in: `peer trust add KEY` does (`peer trust list` has the keys)"},

	{"voters", api.FindingOK, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 3})}, "3 peers decide, and nas coordinates"},
	{"voters", api.FindingOK, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 1, May: 1})}, "nas alone decides"},
	{"voters", api.FindingFail, Facts{Voters: Is(Voters{Seats: 3, Waiting: "pi or mini"})}, "no coordinator: waiting for pi or mini"},
	{"voters", api.FindingWarn, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 4})}, "4 peers decide, of which 3 have to be up"},
	{"voters", api.FindingWarn, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 1, May: 2})}, "only nas decides: all decisions are on its disk alone: let a third machine decide"},
	{"voters", api.FindingWarn, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 1, May: 3})}, "wait until others have caught up"},
	{"voters", api.FindingWarn, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 3, Missing: []string{"pi"}})}, "of 3 peers that vote these do not answer: pi"},
	{"voters", api.FindingWarn, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 3, Frozen: "3 of 5 vanished"})}, "3 of 5 vanished: `peer thaw`"},
	{"voters", api.FindingWarn, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 3, Away: map[string]Absent{"pi": {Since: 80 * time.Hour}}})}, "pi has not been here for 3 days"},
	{"voters", api.FindingOK, Facts{Voters: Is(Voters{Coordinator: "nas", Seats: 3, Away: map[string]Absent{"pi": {Since: time.Hour}}})}, "3 peers decide"},

	{"elections", api.FindingOK, Facts{Elections: Is(0)}, "0 elections"},
	{"elections", api.FindingWarn, Facts{Elections: Is(4)}, "4 coordinators were elected"},
	{"elections", api.FindingFail, Facts{Elections: Is(31)}, "31 coordinators were elected"},

	{"tcp", api.FindingOK, Facts{TCP: Is(Reach{Reached: []string{"nas", "mini"}})}, "mini, nas"},
	{"tcp", api.FindingWarn, Facts{TCP: Is(Reach{Port: 7, Reached: []string{"nas"}, Not: []string{"pi"}})}, "pi cannot reach it by TCP; nas can: open 7/tcp"},
	{"tcp", api.FindingWarn, Facts{TCP: Is(Reach{Port: 7, Not: []string{"pi"}, Relayed: true})}, "or live with the relay"},
	{"tcp", api.FindingFail, Facts{TCP: Is(Reach{Port: 7, Not: []string{"pi"}})}, "no peer reaches it by TCP (tried: pi), and there is no relay for it"},

	{"udp", api.FindingOK, Facts{UDP: Is(Reach{Reached: []string{"nas"}})}, "nas"},
	{"udp", api.FindingWarn, Facts{UDP: Is(Reach{Port: 7, Not: []string{"pi"}})}, "no peer reaches it by UDP (tried: pi): open 7/udp"},
	{"udp", api.FindingWarn, Facts{UDP: Is(Reach{Port: 7, Reached: []string{"nas"}, Not: []string{"pi"}})}, "pi cannot reach it by UDP; nas can"},

	{"nat", api.FindingOK, Facts{NAT: Is(NAT{Own: []netip.Addr{one.Addr()}, Seen: []netip.AddrPort{one, one}})}, "no NAT"},
	{"nat", api.FindingOK, Facts{NAT: Is(NAT{Seen: []netip.AddrPort{one, one}})}, "keeps one address (203.0.113.5:26839)"},
	{"nat", api.FindingWarn, Facts{NAT: Is(NAT{Seen: []netip.AddrPort{one, other}})}, "varies by destination: direct links"},

	{"relays", api.FindingOK, Facts{Links: Is(Links{})}, "no other peer is here"},
	{"links", api.FindingOK, Facts{Carried: Is(Carried{Size: 16 << 10, Lines: []Line{{Peer: "a", Trip: 20 * time.Millisecond, Large: 30 * time.Millisecond}}})}, "1 link carried a message of 16 KiB"},
	{"links", api.FindingWarn, Facts{Carried: Is(Carried{Size: 16 << 10, Lines: []Line{{Peer: "a", Large: 2 * time.Second}, {Peer: "b"}}})}, "slow links from a (66 kbit/s)"},
	{"links", api.FindingWarn, Facts{Carried: Is(Carried{Size: 16 << 10, Lines: []Line{{Peer: "a", Trip: 4 * time.Second}}})}, "round trips take long to a (4s)"},
	{"links", api.FindingFail, Facts{Carried: Is(Carried{Size: 16 << 10, Limit: 5 * time.Second, Lines: []Line{{Peer: "a", Lost: true}}})}, "one of 16 KiB does not within 5s: large packets get lost on the way, or the link carries less than 26 kbit/s"},
	{"links", api.FindingFail, Facts{Carried: Is(Carried{Size: 16 << 10, Limit: 5 * time.Second, Lines: []Line{{Peer: "a", Lost: true, Silent: true}}})}, "connections to a stand, and a small message is not answered within 5s"},
	{"links", api.FindingFail, Facts{Carried: Is(Carried{Size: 16 << 10, Mute: []string{"a"}})}, "connections to a are accepted, and no handshake ends"},
	{"relays", api.FindingOK, Facts{Links: Is(Links{Direct: []string{"a", "b"}, Punched: 1, Missed: 2})}, "2 direct links, none through a relay, and 1 of 3 tries"},
	{"relays", api.FindingOK, Facts{Links: Is(Links{Direct: []string{"a", "b"}, Places: 1})}, "others find it through 1 relay"},
	{"relays", api.FindingWarn, Facts{Links: Is(Links{Direct: []string{"a"}, Relayed: []string{"b"}})}, "1 of 2 links go through a relay: to b"},
	{"relays", api.FindingFail, Facts{Links: Is(Links{None: []string{"a", "b"}})}, "connected to none of the other 2 peers"},

	{"lan", api.FindingOK, Facts{LAN: Is(LAN{Heard: 1, Addrs: []string{"a"}})}, "has heard 1 peer there"},
	{"lan", api.FindingOK, Facts{LAN: Is(LAN{Addrs: []string{"a"}})}, "has heard no peer"},
	{"lan", api.FindingOK, Facts{LAN: Is(LAN{Off: "it was told not to", Addrs: []string{"a"}})}, "not told on its network (mDNS): it was told not to"},
	{"lan", api.FindingWarn, Facts{LAN: Is(LAN{})}, "it announces no address: only peers on this machine find it: say where"},
	{"lan", api.FindingWarn, Facts{LAN: Is(LAN{Addrs: []string{"172.17.0.1"}, Virtual: []string{"172.17.0.1"}})}, "bridges that only this machine sees (172.17.0.1)"},
	{"lan", api.FindingWarn, Facts{LAN: Is(LAN{Wrong: "no multicast", Addrs: []string{"a"}})}, "not found by itself on its network (mDNS): no multicast"},

	{"clock", api.FindingOK, Facts{Clock: Is([]Skew{{"a", time.Millisecond, 3 * time.Millisecond}, {"b", 0, 0}})}, "2 other peers, within 3ms"},
	{"clock", api.FindingOK, Facts{Clock: Is([]Skew{{"a", 3 * time.Second, 2 * time.Second}})}, "within 3s"},
	{"clock", api.FindingWarn, Facts{Clock: Is([]Skew{{"a", 3 * time.Second, 0}})}, "3s behind that of a: turn on ntp"},
	{"clock", api.FindingWarn, Facts{Clock: Is([]Skew{{"a", -time.Hour, 0}, {"b", 0, 0}})}, "1 hour ahead of that of a"},
	{"clock", api.FindingFail, Facts{Clock: Is([]Skew{{"a", -time.Hour, 0}, {"b", -time.Hour, 0}, {"c", 0, 0}})}, "1 hour ahead of that of a, b"},

	{"sync", api.FindingOK, Facts{Sync: Is(Sync{P50: time.Millisecond, P99: 9 * time.Millisecond, Tries: 50, Votes: true})}, "within 1ms, and 99 % within 9ms"},
	{"sync", api.FindingOK, Facts{Sync: Is(Sync{P50: time.Microsecond, P99: 0, Tries: 50})}, "within 100µs, and 99 % within 100µs"},
	{"sync", api.FindingOK, Facts{Sync: Is(Sync{P50: 60 * time.Millisecond, P99: time.Second})}, "60ms"},
	{"sync", api.FindingWarn, Facts{Sync: Is(Sync{P50: 60 * time.Millisecond, P99: 90 * time.Millisecond, Votes: true})}, "this peer should not vote: have another machine vote"},
	{"sync", api.FindingWarn, Facts{Sync: Is(Sync{P50: time.Millisecond, P99: time.Second, Votes: true})}, "this peer should not vote"},
	{"sync", api.FindingFail, Facts{Sync: Is(Sync{P50: 3 * time.Second, P99: 3 * time.Second})}, "3s: look at that disk"},
	{"sync", api.FindingFail, Facts{Sync: Is(Sync{Failed: "input/output error"})}, "nothing can be written to its disk: input/output error"},

	{"room", api.FindingOK, Facts{Room: Is(Room{Free: 50 << 30, Total: 100 << 30, LowLimit: 1 << 30})}, "50 GiB of 100 GiB are free"},
	{"room", api.FindingOK, Facts{Room: Is(Room{Free: 9 << 30, Total: 100 << 30, LowLimit: 1 << 30})}, "9216 MiB of 100 GiB are free"},
	{"room", api.FindingWarn, Facts{Room: Is(Room{Free: 2 << 30, Total: 100 << 30, LowLimit: 1 << 30})}, "nearly full"},
	{"room", api.FindingFail, Facts{Dir: "/d", Room: Is(Room{Free: 1 << 20, Total: 100 << 30, LowLimit: 1 << 30})}, "its disk is full: 1 MiB are free of 100 GiB, and below 1024 MiB it takes no tasks: make room on the disk with /d"},
	{"room", api.FindingFail, Facts{Dir: "/d", Room: Is(Room{Free: 50 << 30, Total: 100 << 30, LowLimit: 1 << 30, Inodes: 7, AllInodes: 100_000, LowFiles: 2000})}, "no inodes left: 7 are free of 100000, and below 2000 it takes no tasks: remove files from the disk with /d"},
	{"room", api.FindingFail, Facts{Room: Is(Room{ReadOnly: true, Free: 9 << 40, Total: 9 << 40})}, "read-only"},

	{"folder", api.FindingOK, Facts{Folder: Is(Folder{Owner: "c", User: "c", Mode: "drwx------", FS: "ext4"})}, "its own (drwx------) and on a disk of this machine, ext4"},
	{"folder", api.FindingWarn, Facts{Folder: Is(Folder{FS: "tmpfs", Memory: true})}, "in memory (tmpfs)"},
	{"folder", api.FindingFail, Facts{Folder: Is(Folder{FS: "nfs", Network: true})}, "another machine's disk (nfs)"},
	{"folder", api.FindingFail, Facts{Dir: "/d", Folder: Is(Folder{Mode: "drwxrwx---", Open: true})}, "others can write to the data folder (drwxrwx---): chmod go-w /d"},
	{"folder", api.FindingFail, Facts{Dir: "/d", Folder: Is(Folder{Owner: "root", User: "c"})}, "belongs to root, and the peer runs as c: chown -R c /d"},

	{"limits", api.FindingOK, Facts{Limits: Is(Limits{Files: 65536})}, "65536 files, and its user may have any number of processes"},
	{"limits", api.FindingWarn, Facts{Limits: Is(Limits{Files: 1024})}, "1024 files: hundreds of tasks at once use them up: raise it: LimitNOFILE=65536"},
	{"limits", api.FindingWarn, Facts{Limits: Is(Limits{Processes: 500})}, "500 processes"},
	{"limits", api.FindingFail, Facts{Limits: Is(Limits{Files: 64})}, "64 files only"},

	{"cgroup", api.FindingOK, Facts{Cgroup: Is(Cgroup{Made: true})}, "cgroups of their own"},
	{"cgroup", api.FindingWarn, Facts{Cgroup: Is(Cgroup{Why: "it is not its own"})}, "no cgroups (it is not its own): what they are limited to is a promise: Delegate=yes"},

	{"versions", api.FindingOK, Facts{Versions: Is(Versions{Own: "1", Others: map[string]string{"a": "1"}})}, "all run version 1"},
	{"versions", api.FindingOK, Facts{Versions: Is(Versions{Own: "1", Others: map[string]string{"a": "1", "b": ""}})}, "as far as is known: b did not tell yet"},
	{"versions", api.FindingOK, Facts{Versions: Is(Versions{Own: "1"})}, "no other peer is here"},
	{"versions", api.FindingWarn, Facts{Versions: Is(Versions{Own: "2", Others: map[string]string{"a": "1", "b": "1", "c": "2"}})}, "version 1 runs on a, b, and 2 here"},

	{"names", api.FindingOK, Facts{Names: Is([]string(nil))}, "no other peer has its name"},
	{"names", api.FindingWarn, Facts{Names: Is([]string{"12D3Koo"})}, "12D3Koo: commands and constraints cannot tell them apart: give one of them another: `peer up --name NAME`"},
}

func TestEachCheckIsJudgedByItsFacts(t *testing.T) {
	for i, c := range cases {
		var of []api.Finding
		for _, f := range Judge(c.of) {
			if f.Check == c.check {
				of = append(of, f)
			} else if f.Result != api.FindingUntried {
				t.Errorf("%d: %+v is said of facts about %s", i, f, c.check)
			}
		}
		if len(of) != 1 || of[0].Result != c.result || !strings.Contains(of[0].Text+": "+of[0].Do, c.says) {
			t.Errorf("%d: want %s that says %q, got %+v", i, c.result, c.says, of)
		}
	}
}

// neverFails are checks of what a peer works without.
var neverFails = []string{"udp", "nat", "lan", "cgroup", "versions", "names"}

func TestEachCheckCanBeWellAndWrongAndUntriedAndSaysWhatToType(t *testing.T) {
	results := map[string]map[string]bool{}
	for _, c := range cases {
		if results[c.check] == nil {
			results[c.check] = map[string]bool{}
		}
		results[c.check][c.result] = true
		for _, f := range Judge(c.of) {
			asks := f.Result == api.FindingWarn || f.Result == api.FindingFail
			if f.Check != "trouble" && asks != (f.Do != "") { // troubles of others' making say it in their text
				t.Errorf("%+v", f)
			}
		}
	}
	unknown := Judge(Facts{TCP: NotTried[Reach]("no other peer is here")})
	for _, f := range unknown {
		got := results[f.Check]
		if !got[api.FindingOK] || got[api.FindingFail] == slices.Contains(neverFails, f.Check) || !got[api.FindingWarn] && f.Check != "peer" {
			t.Errorf("the cases of %s are %v", f.Check, got)
		}
		if f.Result != api.FindingUntried || !strings.HasPrefix(f.Text, "not tried: ") || strings.Contains(f.Text, "0") {
			t.Errorf("nothing is known, and it says %+v", f)
		}
	}
	if len(unknown) != len(results) || !strings.Contains(fmt.Sprint(unknown), "by TCP (no other peer is here)") {
		t.Errorf("%d checks, %d with cases: %v", len(unknown), len(results), unknown)
	}
}

func TestManyNamesAreCutAndTheRestIsCounted(t *testing.T) {
	if got := few([]string{"g", "f", "e", "d", "c", "b", "a"}); got != "a, b, c, d, e and 2 others" {
		t.Error(got)
	}
	if got := few([]string{"f", "e", "d", "c", "b", "a"}); got != "a, b, c, d, e, f" {
		t.Error(got)
	}
}
