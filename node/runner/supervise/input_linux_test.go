package supervise

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

// put puts a piece of stdin where the supervisor finds it, as a peer does.
func put(t *testing.T, s Spec, at int, data string) (next int) {
	t.Helper()
	dir := filepath.Join(s.Home, InputFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(s.Home, "fresh")
	if err := os.WriteFile(fresh, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(dir, InputPiece(int64(at)))); err != nil {
		t.Fatal(err)
	}
	return at + len(data)
}

func fedTask(t *testing.T, line string) (Spec, *Engine, *heard) {
	t.Helper()
	dir := t.TempDir()
	e, h := engineIn(t, dir), newHeard()
	e.Attach(h.sink)
	s := specIn(t, dir, "a.1.1", line)
	s.Stdin = true
	return s, e, h
}

func TestATaskReadsItsStdinAsItComesAndItsEnd(t *testing.T) {
	s, e, h := fedTask(t, `read first; echo "<$first>"; : > begun; cat`)
	e.Start(s)
	at := put(t, s, 0, "one\n")
	for {
		if _, err := os.Stat(filepath.Join(s.Home, "begun")); err == nil {
			break
		}
	}
	big := strings.Repeat("x", 300_000) + "\n"
	at = put(t, s, at, big)
	at = put(t, s, at, "last")
	put(t, s, at, "")
	if end := h.until("a.1.1", Event.Final); end.Exit != 0 || end.Reason != "" {
		t.Fatalf("%+v", end)
	}
	if b, err := os.ReadFile(filepath.Join(s.Home, "stdout")); string(b) != "<one>\n"+big+"last" || err != nil {
		t.Errorf("it read %d bytes, %v", len(b), err)
	}
}

// What is fed is removed, but for the last piece, which tells a peer that comes back how far it had
// come.
func TestOfWhatWasFedOnlyTheLastPieceStays(t *testing.T) {
	s, e, h := fedTask(t, "cat >/dev/null; echo read")
	at := 0
	for range 20 {
		at = put(t, s, at, "piece\n")
	}
	put(t, s, at, "")
	e.Start(s)
	h.until("a.1.1", Event.Final)
	left, err := os.ReadDir(filepath.Join(s.Home, InputFolder))
	if err != nil || len(left) != 2 || left[0].Name() != InputPiece(int64(at-6)) || left[1].Name() != InputPiece(int64(at)) {
		t.Errorf("%v, %v", left, err)
	}
}

func TestATaskThatDoesNotReadItsStdinEndsAsAny(t *testing.T) {
	for _, line := range []string{"exit 3", "exec 0<&-; sleep 0.05; exit 3"} {
		s, e, h := fedTask(t, line)
		at := 0
		for range 4 {
			at = put(t, s, at, strings.Repeat("y", 64<<10))
		}
		e.Start(s)
		if end := h.until("a.1.1", Event.Final); end.Exit != 3 || end.Reason != "" {
			t.Errorf("%s: %+v", line, end)
		}
	}
}

// A disk that cannot be read is not the end of the stdin: the task would take what it has for all
// there is.
func TestATaskWhoseStdinCannotBeReadIsStoppedAndNeverSeesAnEnd(t *testing.T) {
	s, e, h := fedTask(t, "cat; echo whole")
	at := put(t, s, 0, "some\n")
	if err := os.Mkdir(filepath.Join(s.Home, InputFolder, InputPiece(int64(at))), 0o700); err != nil { // reading it fails
		t.Fatal(err)
	}
	e.Start(s)
	end := h.until("a.1.1", Event.Final)
	b, err := os.ReadFile(filepath.Join(s.Home, "stdout"))
	if end.Reason != ReasonInput || strings.Contains(string(b), "whole") || err != nil {
		t.Errorf("%+v; it wrote %q, %v", end, b, err)
	}
}

// A supervisor of version 2 would take its order for one that makes no sense.
func TestATaskThatMustSeeNoOthersIsRefusedWhereTheSupervisorCannotKeepItFromThat(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	c, _, conn, warned := unanswered(t, dir, h)
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(conn)
	if _, err := readFrame(r, nil); err != nil {
		t.Fatal(err)
	}
	<-warned
	apart, other := specIn(t, dir, "b.1.1", "cat"), specIn(t, dir, "c.1.1", "cat")
	apart.Box, other.Box = &sandbox.Spec{Apart: true, Demands: true}, &sandbox.Spec{Demands: true}
	c.Start(apart)
	c.Start(other)
	_, _ = conn.Write(appendFrame(appendFrame(nil, appendEvent(nil, Event{Kind: welcome, version: 2})), appendEvent(nil, Event{Kind: synced})))
	if e := h.until("b.1.1", Event.Final); e.Kind != Refused || !strings.Contains(e.Err, "seeing each other") {
		t.Errorf("%+v", e)
	}
	for _, want := range []string{"a.1.1", "c.1.1"} {
		if body, err := readFrame(r, nil); err != nil || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%q, %v, expected %s", body, err, want)
		}
	}
}

// A supervisor of version 0.1 would give the task an empty stdin.
func TestATaskWithAStdinIsRefusedWhereTheSupervisorCannotFeedIt(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	c, _, conn, warned := unanswered(t, dir, h)
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(conn)
	if _, err := readFrame(r, nil); err != nil {
		t.Fatal(err)
	}
	<-warned
	s := specIn(t, dir, "b.1.1", "cat")
	s.Stdin = true
	c.Start(s)
	_, _ = conn.Write(appendFrame(appendFrame(nil, appendEvent(nil, Event{Kind: welcome, version: 1})), appendEvent(nil, Event{Kind: synced})))
	if e := h.until("b.1.1", Event.Final); e.Kind != Refused || !strings.Contains(e.Err, "passes no stdin on") {
		t.Errorf("%+v", e)
	}
	body, err := readFrame(r, nil)
	if err != nil || !bytes.Contains(body, []byte("a.1.1")) {
		t.Errorf("%q, %v", body, err)
	}
}
