package membership

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"pgregory.net/rapid"
)

func TestMetaFitsWhateverIsInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := meta{
			Name:        rapid.String().Draw(t, "name"),
			Incarnation: taskstate.Incarnation(rapid.String().Draw(t, "incarnation")),
			Version:     rapid.String().Draw(t, "version"),
			Roles:       packRoles(rapid.SliceOf(rapid.SampledFrom(admission.AllRoles())).Draw(t, "roles")),
			Addrs:       rapid.SliceOf(rapid.StringN(0, 120, 120)).Draw(t, "addrs"),
		}
		b := m.encode()
		if len(b) == 0 || len(b) > maxMeta {
			t.Fatalf("%d bytes", len(b))
		}
		got, err := decodeMeta(b)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(m.Name, got.Name) || len(m.Name) <= 64 && got.Name != m.Name || got.Roles != m.Roles {
			t.Fatalf("sent %+v, got %+v", m, got)
		}
		for i, a := range got.Addrs {
			if a != m.Addrs[i] {
				t.Fatalf("address %d was %q, is %q", i, m.Addrs[i], a)
			}
		}
	})
}

func TestAnotherProtocolIsRefusedWithBothNumbers(t *testing.T) {
	b := meta{Name: "x"}.encode()
	b = bytes.Replace(b, []byte{0x01, 0x01}, []byte{0x01, 0x02}, 1) // key 1: 1 → 2
	if _, err := decodeMeta(b); err == nil || !strings.Contains(err.Error(), "protocol 2, this peer 1") {
		t.Errorf("got %v", err)
	}
}

func TestRolesSurviveTheirBits(t *testing.T) {
	for _, roles := range [][]admission.Role{nil, {admission.Worker}, {admission.Worker, admission.Admin}, admission.AllRoles()} {
		if got := unpackRoles(packRoles(roles)); !slices.Equal(got, roles) {
			t.Errorf("%v became %v", roles, got)
		}
	}
	if packRoles([]admission.Role{"emperor"}) != 0 {
		t.Error("an unknown role has a bit")
	}
}

func FuzzDecodeMeta(f *testing.F) {
	f.Add(meta{Name: "n", Incarnation: "i", Addrs: []string{"/ip4/127.0.0.1/tcp/1"}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMeta(b); err == nil && len(m.encode()) > maxMeta {
			t.Fatal("decodes to more than fits")
		}
	})
}

func FuzzDecodeHint(f *testing.F) {
	f.Add(Hint{Epoch: taskstate.At(1, 2), Coordinator: "p"}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, ok := decodeHint(b); ok && (h.Epoch.IsZero() || h.Coordinator == "") {
			t.Fatalf("an empty hint: %v", h)
		}
	})
}

// message encodes what memberlist would send.
func message(kind byte, node string, incarnation uint32) []byte {
	buf := bytes.NewBuffer([]byte{kind})
	err := codec.NewEncoder(buf, &codec.MsgpackHandle{}).Encode(map[string]any{"Incarnation": incarnation, "Node": node, "From": "x"})
	if err != nil {
		panic(err)
	}
	return buf.Bytes()
}

func compound(msgs ...[]byte) []byte {
	b := []byte{compoundMsg, byte(len(msgs))}
	for _, m := range msgs {
		b = append(b, byte(len(m)>>8), byte(len(m)))
	}
	return append(b, bytes.Join(msgs, nil)...)
}

func TestRumoursAreFoundInEveryPacking(t *testing.T) {
	s, a, ping := message(suspectMsg, "p1", 3), message(aliveMsg, "p2", 4), []byte{0, 1, 2}
	for name, c := range map[string]struct {
		packet []byte
		want   string
	}{
		"single":        {s, "[{true p1 3}]"},
		"with checksum": {append([]byte{hasCrcMsg, 0, 0, 0, 0}, s...), "[{true p1 3}]"},
		"compound":      {compound(ping, s, a), "[{true p1 3} {false p2 4}]"},
		"both":          {append([]byte{hasCrcMsg, 0, 0, 0, 0}, compound(a)...), "[{false p2 4}]"},
		"none":          {ping, "[]"},
		"empty":         {nil, "[]"},
		"cut off":       {compound(s)[:8], "[]"},
	} {
		var got []rumour
		rumours(c.packet, func(r rumour) { got = append(got, r) })
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

func FuzzRumours(f *testing.F) {
	f.Add(compound(message(suspectMsg, "p", 1), message(aliveMsg, "q", 2)))
	f.Fuzz(func(_ *testing.T, b []byte) { rumours(b, func(rumour) {}) })
}

func TestTheBookSurvivesOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book")
	b, torn, err := openBook(path)
	if err != nil || torn != 0 {
		t.Fatal(err, torn)
	}
	b.met("a", meta{Name: "one", Addrs: []string{"/x", "/y"}, Roles: packRoles(admission.AllRoles())}, 5)
	b.told(PeerAddr{ID: "b", Addrs: []string{"/z"}})
	b.told(PeerAddr{ID: "a", Addrs: []string{"/w", "/x"}})
	if err := writeBook(path, b.encode()); err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", st.Mode())
	}
	again, torn, err := openBook(path)
	if err != nil || torn != 0 || len(again.peers) != 2 {
		t.Fatal(err, torn, again)
	}
	if a := again.peers["a"]; a.Name != "one" || a.Seen != 5 || fmt.Sprint(a.Addrs) != "[/w /x /y]" || len(a.Roles) != 4 {
		t.Errorf("a is %+v", a)
	}
}

func TestATornBookLosesOnlyItsTornLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book")
	b, _, _ := openBook("")
	for i := range 10 {
		b.met(fmt.Sprint(i), meta{Addrs: []string{"/x"}}, int64(i))
	}
	data := b.encode()
	for cut := range len(data) {
		if err := os.WriteFile(path, append(data[:cut:cut], "\x00garbage"...), 0o600); err != nil {
			t.Fatal(err)
		}
		got, torn, err := openBook(path)
		if err != nil || torn != 1 || len(got.peers) < bytes.Count(data[:cut], []byte("\n")) {
			t.Fatalf("cut at %d: %d peers, %d torn, %v", cut, len(got.peers), torn, err)
		}
	}
}

func TestAnUnreadableBookIsAClearError(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := openBook(dir); err == nil || !strings.Contains(err.Error(), "peer book") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

func TestTheBookIsBounded(t *testing.T) {
	b, _, _ := openBook("")
	for i := range maxBook + 10 {
		b.met(fmt.Sprint(i), meta{Addrs: make([]string, 100)}, int64(i+1))
	}
	if _, old := b.peers["0"]; old || len(b.peers) != maxBook {
		t.Errorf("%d peers, the oldest still there: %v", len(b.peers), old)
	}
	if n := len(b.peers["100"].Addrs); n != maxBookAddrs {
		t.Errorf("%d addresses", n)
	}
}

func TestOnlyWhatMattersMakesTheBookDirty(t *testing.T) {
	b, _, _ := openBook("")
	b.met("a", meta{Name: "n"}, 1)
	b.dirty = false
	b.met("a", meta{Name: "n"}, 2)
	b.seen("a", 3)
	if b.dirty || b.peers["a"].Seen != 3 {
		t.Errorf("dirty %v, seen %d", b.dirty, b.peers["a"].Seen)
	}
	b.met("a", meta{Name: "m"}, 4)
	if !b.dirty {
		t.Error("a new name is not worth a write")
	}
}

func TestALargeClusterIsGivenMoreTime(t *testing.T) {
	small, large := DefaultTimings(3), DefaultTimings(100)
	if small.Probe >= large.Probe || large.Probe != time.Second || large.Suspicion != 4 {
		t.Errorf("%+v %+v", small, large)
	}
	if got := (Timings{Probe: 100 * time.Millisecond}).or(small); got.ProbeTimeout != 50*time.Millisecond || got.Gossip != small.Gossip {
		t.Errorf("filled up to %+v", got)
	}
}
