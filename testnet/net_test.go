//go:build unix

package testnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api"

	"pgregory.net/rapid"
)

// blocks is whom each peer was told last not to reach, "" if it was told nothing.
func blocks(all []*twin) (out []string) {
	for _, w := range all {
		text := ""
		if n := len(w.blocked); n > 0 {
			text = strings.ReplaceAll(fmt.Sprint(w.blocked[n-1]), "id-", "")
			w.blocked = nil
		}
		out = append(out, text)
	}
	return out
}

func TestAPartitionIsToldToBothSidesAndWhoIsInNoGroupIsWithTheOthersOfNone(t *testing.T) {
	net, all := twins(t, 5)
	for _, x := range []struct {
		groups [][]int
		want   []string
	}{
		{[][]int{{1, 2}, {3}}, []string{"[p3 p4 p5]", "[p3 p4 p5]", "[p1 p2 p4 p5]", "[p1 p2 p3]", "[p1 p2 p3]"}},
		{[][]int{{5}}, []string{"[p5]", "[p5]", "[p5]", "[p5]", "[p1 p2 p3 p4]"}},
		{nil, []string{"[]", "[]", "[]", "[]", "[]"}},
	} {
		if err := net.Partition(t.Context(), x.groups); err != nil {
			t.Fatal(err)
		}
		if got := blocks(all); !slices.Equal(got, x.want) {
			t.Errorf("%v: told %q\nnot %q", x.groups, got, x.want)
		}
	}
}

func TestOfAPartitionThatCannotBeNothingIsDone(t *testing.T) {
	net, all := twins(t, 2)
	if err := net.Partition(t.Context(), [][]int{{1}, {3}}); api.AsError(err).Code != api.NotFound || !strings.Contains(err.Error(), "peers 1 to 2") {
		t.Errorf("%v", err)
	}
	if got := blocks(all); !slices.Equal(got, []string{"", ""}) || net.cut != nil {
		t.Errorf("told %q, in force %v", got, net.cut)
	}
}

func TestAPartitionReachesWhoCanHearItAndOneThatCannotIsNoReasonToStop(t *testing.T) {
	net, all := twins(t, 5)
	all[0].end()
	all[1].proc.paused = true
	all[2].dumb = true
	err := net.Partition(t.Context(), [][]int{{1, 4}})
	if err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("who did not obey is not told of: %v", err)
	}
	if got := blocks(all); !slices.Equal(got, []string{"", "", "", "[p2 p3 p5]", "[p1 p4]"}) {
		t.Errorf("told %q", got)
	}
	rows := net.rows()
	if rows[0].Group != 1 || rows[3].Group != 1 || rows[4].Group != 0 {
		t.Errorf("status: %+v", rows)
	}
}

func TestAClusterIsReadyWhenEveryoneThatRunsSeesEveryoneThatRuns(t *testing.T) {
	peers := func(ids ...string) (p api.Peers) {
		p.Coordinator = "x"
		for _, id := range ids {
			id, standing, _ := strings.Cut(id, " ")
			if standing == "" {
				standing = "ready"
			}
			p.Peers = append(p.Peers, api.Peer{ID: id, Standing: standing})
		}
		return p
	}
	nobody := peers("id-p1", "id-p2", "id-p3")
	nobody.Coordinator = ""
	for what, x := range map[string]struct {
		sees  api.Peers
		ready bool
	}{
		"all":                           {peers("id-p1", "id-p2", "id-p3"), true},
		"those who run, and strangers":  {peers("id-p1", "id-p2", "someone suspect"), true},
		"one only in part":              {peers("id-p1", "id-p2 suspect", "id-p3"), false},
		"one not at all":                {peers("id-p1"), false},
		"all, and nobody to coordinate": {nobody, false},
	} {
		net, all := twins(t, 3)
		all[2].end() // it does not run: nobody has to see it
		all[0].peers, all[1].peers = peers("id-p1", "id-p2"), x.sees
		if net.seesAll(t.Context(), 2) != x.ready {
			t.Errorf("%s: ready is %v", what, !x.ready)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if !x.ready {
			cancel()
		}
		if err := net.AwaitReady(ctx); (err == nil) != x.ready || err != nil && !strings.Contains(err.Error(), "peer ") {
			t.Errorf("%s: waited: %v", what, err)
		}
		cancel()
	}
}

func TestWhatCannotBeDoneToAPeerSaysWhy(t *testing.T) {
	net, all := twins(t, 2)
	all[1].end()
	for _, x := range []struct {
		order Order
		code  api.Code
		why   string
	}{
		{Order{Op: "kill", Peer: 2}, api.Conflict, "peer testnet restart 2"},
		{Order{Op: "kill", Peer: 0}, api.NotFound, "peers 1 to 2"},
		{Order{Op: "restart", Peer: 3}, api.NotFound, "no peer 3"},
		{Order{Op: "partition", Groups: [][]int{{9}}}, api.NotFound, "no peer 9"},
		{Order{Op: "slow", Peer: 3, Rate: 1}, api.NotFound, "no peer 3"},
		{Order{Op: "dance"}, api.Usage, `cannot "dance"`},
	} {
		if err := net.obey(t.Context(), x.order); api.AsError(err).Code != x.code || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%+v: %v", x.order, err)
		}
	}
	if err := net.Revive(t.Context(), 1); api.AsError(err).Code != api.Conflict {
		t.Errorf("what runs was started: %v", err)
	}
	if k := net.Number(""); k != 0 {
		t.Errorf("nobody is peer %d", k)
	}
	all[0].status.Coordinator = "a stranger"
	if _, err := net.Coordinator(t.Context(), 1); api.AsError(err).Code != api.NoCoordinator {
		t.Errorf("%v", err)
	}
}

func TestARateIsReadAsNetworksAndDisksWriteIt(t *testing.T) {
	for text, want := range map[string]int64{
		"10Mbit/s": 1_250_000, "1MiB/s": 1 << 20, "128kbit/s": 16_000, "1Gbit/s": 125_000_000, "2.5 MB/s": 2_500_000, "8KiB/s": 8192, "off": 0,
	} {
		if got, err := ParseRate(text); got != want || err != nil {
			t.Errorf("%s is %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "10Mbit", "10/s", "10mbit/s", "0MiB/s", "-1MiB/s", "1KiB/s", "off/s", "1 Mbit/s/s", "xMbit/s"} {
		if got, err := ParseRate(text); err == nil || api.AsError(err).Code != api.Usage {
			t.Errorf("%q is %d, %v", text, got, err)
		}
	}
	for rate, want := range map[int64]string{1_250_000: "10Mbit/s", 125_000_000: "1Gbit/s", 16_000: "128kbit/s", 1 << 20: "8.39Mbit/s"} {
		if got := FormatRate(rate); got != want {
			t.Errorf("%d is %s", rate, got)
		}
	}
}

func TestAPeersRateIsToldWithEveryOrderUntilItIsEnded(t *testing.T) {
	net, all := twins(t, 3)
	rates := func() (out []int64) {
		for _, w := range all {
			out = append(out, w.rate)
		}
		return out
	}
	if err := net.Slow(t.Context(), 2, 1000); err != nil {
		t.Fatal(err)
	}
	if got := rates(); !slices.Equal(got, []int64{0, 1000, 0}) || !net.Slowed(2) || net.Slowed(1) || net.rows()[1].Rate != 1000 {
		t.Errorf("%v", got)
	}
	if err := net.Partition(t.Context(), [][]int{{1}}); err != nil {
		t.Fatal(err)
	}
	if got := rates(); !slices.Equal(got, []int64{0, 1000, 0}) {
		t.Errorf("a partition changed it: %v", got)
	}
	if err := net.Slow(t.Context(), 2, 0); err != nil || !slices.Equal(rates(), []int64{0, 0, 0}) || net.Slowed(2) {
		t.Errorf("%v: %v", rates(), err)
	}
}

func TestGroupsComeBackAsTheyWereWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.Permutation([]int{1, 2, 3, 4, 5, 6}).Draw(t, "peers")
		var groups [][]int
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "group")
			groups, all = append(groups, all[:n]), all[n:]
		}
		space := rapid.SampledFrom([]string{"", " "}).Draw(t, "space")
		var parts []string
		for _, g := range groups {
			parts = append(parts, strings.ReplaceAll(strings.Trim(fmt.Sprint(g), "[]"), " ", ","+space))
		}
		text := strings.Join(parts, space+"/")
		got, err := ParseGroups(text)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(groups) {
			t.Fatalf("%q is %v, %v", text, got, err)
		}
		for _, wrong := range []string{text + "/", text + ",0", text + "/-1", text + ",x", "," + text, fmt.Sprint(text, "/", groups[0][0])} {
			if got, err := ParseGroups(wrong); err == nil {
				t.Fatalf("%q is %v", wrong, got)
			}
		}
	})
}

// demonstrated is a demonstration whose tasks have run, and left these files.
func demonstrated(t *testing.T, left ...string) *demo {
	t.Helper()
	d := &demo{dirs: []string{"x", "x/y", "z"}, want: []string{"a", "b", "c"}, talk: os.Stderr, home: t.TempDir()}
	for i, text := range left {
		if text != "" {
			file := filepath.Join(d.home, d.dirs[i]+ending)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.tasks = []api.Task{{Slot: 1, Attempt: 1, PeerName: "p1"}, {Slot: 2, Attempt: 2, PeerName: "p2"}, {Slot: 3, Attempt: 1, PeerName: "p2"}}
	return d
}

func TestTheDemonstrationsVerdictCountsWhatIsMissingOrWrong(t *testing.T) {
	for what, x := range map[string]struct {
		d    *demo
		line string
		err  string
	}{
		"all right": {demonstrated(t, "a", "b", "c"), "files 3 of 3, wrong 0", ""},
		"one lost":  {demonstrated(t, "a", "", "c"), "files 2 of 3, wrong 0", "1 files are missing and 0 are wrong"},
		"one wrong": {demonstrated(t, "a", "x", "c"), "files 3 of 3, wrong 1", "0 files are missing and 1 are wrong"},
	} {
		var out bytes.Buffer
		var said []string
		x.d.out = &out
		err := x.d.verdict(func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) }, 0, 0)
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%s: %v", what, err)
		}
		if (len(said) > 0) != (x.err == "") {
			t.Errorf("%s: said %q", what, said)
		}
		if text := out.String(); !strings.Contains(text, x.line) || !strings.Contains(text, "\np1          1 0\np2          2 1\np3          0 0\n") {
			t.Errorf("%s: shown\n%s", what, text)
		}
	}
}

func TestATaskOfTheDemonstrationWritesTheHashesOfAFolderIntoAFile(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(from, "a"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := HashFolderInto(from, filepath.Join(to, "x", "y")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(to, "x", "y"))
	if want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	if err := HashFolderInto(filepath.Join(from, "none"), filepath.Join(to, "z")); err == nil {
		t.Error("what is not there has hashes")
	}
}
