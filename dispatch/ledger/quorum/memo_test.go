package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// reopened is a node in a folder, closed again with the test.
func reopened(t *testing.T, dir string) (*Node, error) {
	t.Helper()
	n, err := Open(Config{Net: memnet.New().Host("b"), Self: "b", Incarnation: "1", Draw: firstSeat, Dir: dir})
	if err == nil {
		t.Cleanup(func() { _ = n.Close() })
	}
	return n, err
}

func TestAPeerFindsTheNewestVotersAgainAfterARestart(t *testing.T) {
	dir := t.TempDir()
	n, err := reopened(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	var last []Voter
	for i := range 3 * maxContacts {
		last = []Voter{{Peer: fmt.Sprint("v", i), Incarnation: "1"}, {Peer: fmt.Sprint("v", i+1), Incarnation: "1"}, {Peer: "b", Incarnation: "1"}}
		n.seating.setContacts(last)
	}
	if n, err = reopened(t, dir); err != nil { // as after a crash
		t.Fatal(err)
	}
	if len(n.dir.contacts) != maxContacts || slices.Contains(n.dir.contacts, "b") || !slices.Contains(n.dir.contacts, last[0].Peer) || !slices.Contains(n.dir.contacts, last[1].Peer) || slices.Contains(n.dir.contacts, "v0") {
		t.Errorf("it remembers %v", n.dir.contacts)
	}
}

func TestAPeerRemembersNoMoreThanItNeedsOfWhomItWasTold(t *testing.T) {
	n, err := reopened(t, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxContacts {
		n.dir.addContacts([]taskstate.PeerID{fmt.Sprint("v", i), "", "b", "v0"}, maxContacts)
	}
	if len(n.dir.contacts) != maxContacts || n.dir.contacts[0] != "v0" || slices.Contains(n.dir.contacts, "") || slices.Contains(n.dir.contacts, "b") {
		t.Errorf("it remembers %v", n.dir.contacts)
	}
}

func TestADamagedMemoIsSetAsideAndAFolderInItsPlaceIsNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "memo")
	for _, b := range []string{"hello", "", "\xa1\x01\x01\x00"} {
		if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := reopened(t, dir); err != nil {
			t.Errorf("%q: %v", b, err)
		}
		if kept, err := os.ReadFile(path + ".damaged"); err != nil || string(kept) != b {
			t.Errorf("%q is not kept: %q, %v", b, kept, err)
		}
	}
	if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := reopened(t, dir); err == nil || !strings.Contains(err.Error(), "read the ledger's memo") {
		t.Errorf("a folder: %v", err)
	}
}

// wholeMemo says everything a memo can say.
func wholeMemo() memo {
	var m memo
	golden.Fill(reflect.ValueOf(&m).Elem(), 1, nil)
	return m
}

func TestNoFlippedBitMakesAMemoAnotherOne(t *testing.T) {
	b, err := wholeMemo().encode()
	if err != nil {
		t.Fatal(err)
	}
	if m, err := decodeMemo(b); err != nil || m.Seat != 1 || m.Lost == nil {
		t.Fatalf("%+v, %v", m, err)
	}
	for i := range 8 * len(b) {
		torn := slices.Clone(b)
		torn[i/8] ^= 1 << (i % 8)
		if m, err := decodeMemo(torn); err == nil {
			t.Errorf("with bit %d flipped it is %+v", i, m)
		}
	}
	for n := range b {
		if m, err := decodeMemo(b[:n]); err == nil {
			t.Errorf("cut after %d bytes it is %+v", n, m)
		}
	}
}

// Those of version 0.1 have no checksum.
func TestAMemoWithoutAChecksumIsBelieved(t *testing.T) {
	m, err := decodeMemo(encoded(t, map[int]any{1: 7, 2: []string{"a"}, 3: 42}))
	if err != nil || m.Seat != 7 || m.Log != 42 || !slices.Equal(m.Contacts, []taskstate.PeerID{"a"}) {
		t.Errorf("%+v, %v", m, err)
	}
}

func FuzzAMemoFromDiskNeverPanics(f *testing.F) {
	b, err := wholeMemo().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(encoded(f, map[int]any{1: 7, 3: 42}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMemo(b)
		if err != nil {
			return
		}
		again, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeMemo(again); err != nil || !bytes.Equal(encoded(t, back), encoded(t, m)) {
			t.Fatalf("%+v, %+v, %v", m, back, err)
		}
	})
}

func TestACopyThatCannotBeReadIsFetchedAnew(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "copy"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := reopened(t, dir)
	if err != nil || n.place.rep.Applied() != 0 {
		t.Errorf("it does not start: %v", err)
	}
}

func TestAFileThatCannotBeReplacedStaysAsItWas(t *testing.T) {
	rep := ledger.NewReplica()
	rep.Apply(ledger.Entry{Index: 1, Epoch: taskstate.At(1, 1)})
	for what, write := range map[string]func(path string) error{
		"the memo": func(path string) error { return atomicfile.Write(path, []byte("new")) }, "the copy": func(path string) error { return saveCopy(rep, path) },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "taken", "file")
		if err := write(path); err == nil {
			t.Errorf("%s: written into a folder there is not", what)
		}
		if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := write(path); err == nil {
			t.Errorf("%s: written over a folder", what)
		}
		if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
			t.Errorf("%s: left behind %v", what, left)
		}
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := write(file); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: others may read it: %v", what, info.Mode())
		}
	}
}
