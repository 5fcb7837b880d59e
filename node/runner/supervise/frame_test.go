package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/runner/sandbox"
)

func anyOrder(t *rapid.T) order {
	words := rapid.SliceOfN(rapid.String(), 1, 4)
	o := order{kind: orderKind(rapid.IntRange(int(orderHello), int(orderStartWith)).Draw(t, "kind"))}
	switch o.kind {
	case orderHello:
		o.version, o.guard = rapid.IntRange(0, 9).Draw(t, "version"), rapid.Int().Draw(t, "guard")
		o.logCap, o.grace = rapid.Int64().Draw(t, "cap"), time.Duration(rapid.Int64().Draw(t, "grace"))
	case orderStart, orderStartWith:
		o.spec = Spec{
			Task: rapid.StringN(1, 9, -1).Draw(t, "task"), Home: rapid.String().Draw(t, "home"), Path: rapid.String().Draw(t, "path"),
			Dir: rapid.String().Draw(t, "dir"), Argv: words.Draw(t, "argv"), Env: words.Draw(t, "env"), Timeout: time.Duration(rapid.Int64().Draw(t, "d")),
		}
		if o.kind == orderStartWith {
			o.spec.Secrets = rapid.String().Draw(t, "secrets")
			o.spec.Cap, o.spec.Newest, o.spec.Stdin = rapid.Int64().Draw(t, "cap"), rapid.Bool().Draw(t, "newest"), rapid.Bool().Draw(t, "stdin")
		}
	case orderStop:
		o.task, o.reason = rapid.String().Draw(t, "task"), rapid.StringN(1, 9, -1).Draw(t, "reason")
	case orderAck:
		o.tasks = words.Draw(t, "tasks")
	}
	return o
}

func anyEvent(t *rapid.T) Event {
	n, yes := rapid.Int64(), rapid.Bool()
	return Event{
		Kind: Kind(rapid.IntRange(int(Started), int(synced)).Draw(t, "kind")), Task: rapid.String().Draw(t, "task"), At: n.Draw(t, "at"),
		Exit: rapid.Int().Draw(t, "exit"), Signal: rapid.Int().Draw(t, "signal"), Reason: rapid.String().Draw(t, "reason"),
		Timeout: yes.Draw(t, "timeout"), Unseen: yes.Draw(t, "unseen"), Alone: yes.Draw(t, "alone"), Unbegun: yes.Draw(t, "unbegun"),
		Rebooted: yes.Draw(t, "rebooted"), Sizes: [2]int64{n.Draw(t, "out"), n.Draw(t, "err")},
		Cut: [2]bool{yes.Draw(t, "out cut"), yes.Draw(t, "err cut")}, Errno: rapid.Int().Draw(t, "errno"),
		Err: rapid.String().Draw(t, "text"), Took: rapid.Int64Min(0).Draw(t, "took"), Held: sandbox.Confined(rapid.Uint16().Draw(t, "held")), version: rapid.IntRange(0, 9).Draw(t, "version"),
	}
}

func TestAMessageArrivesAsItWasSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, e := anyOrder(t), anyEvent(t)
		stream := appendFrame(appendFrame(nil, appendOrder(nil, o)), appendEvent(nil, e))
		r := bufio.NewReader(bytes.NewReader(stream))
		body, err := readFrame(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeOrder(body); err != nil || !reflect.DeepEqual(got, o) {
			t.Fatalf("%+v became %+v, %v", o, got, err)
		}
		if body, err = readFrame(r, body); err != nil {
			t.Fatal(err)
		}
		if got, err := decodeEvent(body); err != nil || got != e {
			t.Fatalf("%+v became %+v, %v", e, got, err)
		}
	})
}

// An end in the words of version 1 is what a supervisor, or a file of ends, of that version has to
// say.
func TestAnEndOfVersion1IsRead(t *testing.T) {
	const v1 = "\x03\x05j.1.1\x14\x06\x00\x02\x04\x00\x00\x04\x04stop\x00"
	want := Event{Kind: Ended, Task: "j.1.1", At: 10, Exit: 3, Sizes: [2]int64{1, 2}, Alone: true, Reason: "stop"}
	if e, err := decodeEvent([]byte(v1)); err != nil || e != want {
		t.Errorf("%+v: %v", e, err)
	}
	took := want
	took.Took, took.Held = 5, sandbox.ConfinedKnown
	if b := appendEvent(nil, took.in(1)); string(b) != v1 {
		t.Errorf("a peer of version 1 is told %q", b)
	}
	if b := appendEvent(nil, took.in(2)); string(b) != v1+"\x0a\x02" {
		t.Errorf("a peer of version 2 is told %q", b)
	}
}

func TestAMessageWithMoreOrLessThanBelongsToItIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := appendOrder(nil, anyOrder(t))
		if _, err := decodeOrder(append(b, 0)); err == nil {
			t.Fatal("something follows")
		}
		if _, err := decodeOrder(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]); err == nil {
			t.Fatal("something is missing")
		}
	})
}

func TestAFrameThatIsTooLargeIsNotReadAtAll(t *testing.T) {
	if _, err := readFrame(bufio.NewReader(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff, 0x7f})), nil); err == nil {
		t.Fatal("34 GB were taken")
	}
}

func FuzzAnOrderNeverPanics(f *testing.F) {
	f.Add(appendOrder(nil, order{kind: orderStart, spec: Spec{Task: "t", Argv: []string{"a"}}}))
	f.Add(appendOrder(nil, order{kind: orderAck, tasks: []string{"t"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := decodeOrder(b); err == nil {
			if again, err := decodeOrder(appendOrder(nil, o)); err != nil || !reflect.DeepEqual(o, again) {
				t.Fatalf("%+v, %+v, %v", o, again, err)
			}
		}
	})
}

func FuzzAnEventNeverPanics(f *testing.F) {
	f.Add(appendEvent(nil, Event{Kind: Ended, Task: "t", Exit: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEvent(b); err == nil {
			if again, err := decodeEvent(appendEvent(nil, e)); err != nil || e != again {
				t.Fatalf("%+v, %+v, %v", e, again, err)
			}
		}
	})
}

func FuzzARecordFromDiskNeverPanics(f *testing.F) {
	f.Add("123 4 5 0 boot k3v5q7x2ab.1.1   \n")
	f.Add("")
	f.Fuzz(func(t *testing.T, line string) {
		if r, ok := parseRecord(line); ok && (r.pid < 0 || r.pid == 1) {
			t.Fatalf("%+v", r)
		}
	})
}

func FuzzEndsFromDiskNeverPanic(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, good := parseEnds(b); good > len(b) {
			t.Fatal(good)
		}
	})
}

func TestATornLastEndIsCutOffAndTheOthersStay(t *testing.T) {
	for cut := 1; cut < 30; cut++ {
		dir := t.TempDir()
		f, _, err := openEnds(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a.1.1", "a.2.1"} {
			if err := errors.Join(f.add(Event{Kind: Ended, Task: id, Exit: 3}), f.add(Event{Kind: Ended, Task: id, Exit: 4})); err != nil { // the second is known
				t.Fatal(err)
			}
		}
		if err := f.sync(); err != nil {
			t.Fatal(err)
		}
		f.close()
		path := filepath.Join(dir, endsName)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b[:len(b)-min(cut, len(b)/2-1)], 0o600); err != nil {
			t.Fatal(err)
		}
		f, left, err := openEnds(dir)
		if err != nil || len(left) != 1 || left[0].Exit != 3 {
			t.Fatalf("cut by %d: %+v, %v", cut, left, err)
		}
		if err := errors.Join(f.add(Event{Kind: Ended, Task: "a.3.1"}), f.sync()); err != nil {
			t.Fatal(err)
		}
		f.close()
		f, left, err = openEnds(dir)
		if err != nil || len(left) != 2 {
			t.Fatalf("after it: %+v, %v", left, err)
		}
		for _, ev := range left {
			f.gone(ev.Task)
		}
		f.close()
		if _, left, err = openEnds(dir); err != nil || len(left) != 0 {
			t.Fatalf("cleared: %+v, %v", left, err)
		}
	}
}
