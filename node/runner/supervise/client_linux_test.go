package supervise

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// impostor holds a folder as its supervisor does, lock and socket, and answers each peer by a
// script.
func impostor(t *testing.T, dir string, script func(conn net.Conn, r *bufio.Reader)) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	l := mute(t, dir)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r := bufio.NewReader(conn)
		script(conn, r)
		_, _ = l.Close(), lock.Close() // as at its death
		_ = conn.Close()
	}()
}

func events(all ...Event) (words []byte) {
	for _, e := range all {
		words = appendFrame(words, appendEvent(nil, e))
	}
	return words
}

var (
	welcomed = Event{Kind: welcome, version: protocolVersion}
	allTold  = Event{Kind: synced}
)

// One that ends is followed by another; one that goes on has tasks, and nobody must be told to end
// it.
func TestAPeerWaitsForTheEndOfASupervisorItCannotUnderstandAndThenSaysWhatToDo(t *testing.T) {
	for what, goesOn := range map[string]bool{"it ends": false, "it goes on": true} {
		dir, over := t.TempDir(), make(chan struct{})
		defer close(over)
		impostor(t, dir, func(conn net.Conn, r *bufio.Reader) {
			_, _ = readFrame(r, nil)
			_, _ = conn.Write(events(Event{Kind: welcome, version: protocolVersion + 1}))
			_, _ = io.Copy(io.Discard, r)
			if goesOn {
				<-over
			}
		})
		cfg := ClientConfig{Dir: dir}
		if goesOn {
			cfg.patience = time.Second // it is heard first, on a machine that is busy, too
		}
		c, err := Open(cfg)
		if (err != nil) != goesOn {
			t.Fatalf("%s: %v", what, err)
		}
		if err == nil {
			_ = c.Close()
			continue
		}
		if text := err.Error(); !strings.Contains(text, fmt.Sprint("version ", protocolVersion+1)) || !strings.Contains(text, "go back to the program it was started by") || strings.Contains(text, "by hand") {
			t.Error(err)
		}
	}
}

func TestASupervisorThatHoldsItsFolderAndDoesNotAnswerIsNamed(t *testing.T) {
	dir, over := t.TempDir(), make(chan struct{})
	defer close(over)
	impostor(t, dir, func(net.Conn, *bufio.Reader) { <-over })
	if _, err := Open(ClientConfig{Dir: dir, patience: time.Millisecond}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, lockName)) || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("%v", err)
	}
}

// A supervisor that is killed while it says what it has: only what is on disk counts, and nothing
// twice.
func TestASupervisorKilledAtAnyWordOfItsWelcomeLeavesWhatIsOnDisk(t *testing.T) {
	kept := Event{Kind: Ended, Task: "a.1.1", At: 7, Exit: 3}
	words := events(welcomed, kept, Event{Kind: Started, Task: "b.1.1"}, allTold)
	for _, cut := range []int{0, 1, 5, len(events(welcomed)), len(events(welcomed, kept)), len(words) - 3} {
		for what, onDisk := range map[string]bool{"nothing": false, "an end": true} {
			dir := t.TempDir()
			if onDisk {
				f, _, err := openEnds(dir)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.add(kept); err != nil {
					t.Fatal(err)
				}
				f.close()
			}
			impostor(t, dir, func(conn net.Conn, r *bufio.Reader) {
				_, _ = readFrame(r, nil)
				_, _ = conn.Write(words[:cut])
			})
			c, err := Open(ClientConfig{Dir: dir, Sink: func(Event) {}})
			if err != nil {
				t.Fatal(err)
			}
			if left := c.Left(); onDisk && !reflect.DeepEqual(left, []Event{kept}) || !onDisk && len(left) > 0 {
				t.Errorf("killed after %d bytes with %s on disk: found %+v", cut, what, left)
			}
			if !c.Complete() {
				t.Error("what is on disk is all there is")
			}
			_ = c.Close()
			if err := EndAll(dir); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestWhatAPeerFindsIsLeftAndOnlyWhatComesAfterIsTold(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	found := []Event{{Kind: Started, Task: "a.1.1", At: 1}, {Kind: Lost, Task: "a.2.1", Rebooted: true}, {Kind: Ended, Task: "a.3.1", Timeout: true}}
	after := Event{Kind: Ended, Task: "a.1.1", At: 2}
	heard := make(chan order, 2)
	impostor(t, dir, func(conn net.Conn, r *bufio.Reader) {
		_, _ = conn.Write(events(slices.Concat([]Event{welcomed}, found, []Event{allTold, after})...))
		for range 2 {
			if body, err := readFrame(r, nil); err == nil {
				o, _ := decodeOrder(body)
				heard <- o
			}
		}
		_, _ = io.Copy(io.Discard, r)
	})
	c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, LogCap: 4096, Grace: time.Second, Guard: 4711})
	if err != nil {
		t.Fatal(err)
	}
	h.until("a.1.1", Event.Final)
	c.Ack([]string{"a.2.1"})
	_ = c.Close() // also sends what waits
	if !reflect.DeepEqual(c.Left(), found) || len(h.got) != 1 || h.got[0] != after {
		t.Errorf("left %+v, told %+v", c.Left(), h.got)
	}
	if o, want := <-heard, (order{kind: orderHello, version: protocolVersion, logCap: 4096, grace: time.Second, guard: 4711}); !reflect.DeepEqual(o, want) {
		t.Errorf("said %+v", o)
	}
	if o := <-heard; o.kind != orderAck || !slices.Equal(o.tasks, []string{"a.2.1"}) {
		t.Errorf("acknowledged %+v", o)
	}
}

// What was ordered and not begun when the supervisor died is told as such, so that it may be tried
// again.
func TestWhatASupervisorTookWithItIsToldAsNeverBegun(t *testing.T) {
	for what, lastWords := range map[string][]byte{"silently": nil, "within a word": events(allTold)[:2], "with nonsense": appendFrame(nil, []byte("nonsense"))} {
		t.Run(what, func(t *testing.T) {
			dir, h := t.TempDir(), newHeard()
			var warned []string
			impostor(t, dir, func(conn net.Conn, r *bufio.Reader) {
				_, _ = conn.Write(events(welcomed, allTold))
				for range 3 {
					_, _ = readFrame(r, nil) // hello, and two orders that it takes with it
				}
				_, _ = conn.Write(lastWords)
			})
			c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Warn: func(s string) { warned = append(warned, s) }})
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range []string{"a.1.1", "a.2.1"} {
				c.Start(specIn(t, dir, task, "touch ran"))
			}
			for _, task := range []string{"a.1.1", "a.2.1"} {
				if e := h.until(task, Event.Final); e.Kind != Lost || !e.Unbegun || !e.Unseen {
					t.Errorf("%+v", e)
				}
				if _, err := os.Stat(filepath.Join(dir, strings.Replace(task, ".", "/", 1), "ran")); err == nil {
					t.Error("it was begun")
				}
			}
			c.Start(specIn(t, dir, "a.3.1", "exit 4")) // by another supervisor, a real one
			if e := h.until("a.3.1", Event.Final); e.Exit != 4 {
				t.Errorf("%+v", e)
			}
			_ = c.Close()
			if err := EndAll(dir); err != nil {
				t.Error(err)
			}
			if len(warned) == 0 || !strings.Contains(warned[len(warned)-1], "a new one takes them up") {
				t.Errorf("warned: %q", warned)
			}
		})
	}
}

// What is said is all acknowledgements, then all orders as they came, once; and what is open is
// what was started or found, and not acknowledged.
func TestWordsSayEverythingOnceAcknowledgementsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &Client{open: map[string]bool{"found": true}}
		open := maps.Clone(c.open)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			var want []order
			if acks := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "found"}), 0, 3).Draw(t, "acks"); len(acks) > 0 {
				c.acks = acks
				want = append(want, order{kind: orderAck, tasks: slices.Clone(acks)})
				for _, task := range acks {
					delete(open, task)
				}
			}
			for range rapid.IntRange(0, 4).Draw(t, "orders") {
				o := anyOrder(t)
				c.next = append(c.next, o)
				want = append(want, o)
				if o.kind == orderStart {
					open[o.spec.Task] = true
				}
			}
			r := bufio.NewReader(strings.NewReader(string(c.words())))
			var got []order
			for {
				body, err := readFrame(r, nil)
				if err == io.EOF {
					break
				}
				o, err2 := decodeOrder(body)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				got = append(got, o)
			}
			if !reflect.DeepEqual(got, want) || !maps.Equal(c.open, open) {
				t.Fatalf("said %+v\nnot  %+v\nopen %v, not %v", got, want, c.open, open)
			}
			if len(c.words()) > 0 {
				t.Fatal("said again")
			}
		}
	})
}

func TestWithNobodyToOrderStartsAreRefusedAndTheRestIsForgotten(t *testing.T) {
	dir, h := t.TempDir(), newHeard()
	c, err := Open(ClientConfig{Dir: dir, Sink: h.sink, Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	c.Stop("a.9.1", "cancelled") // nobody is there, and it does not make one come
	c.Ack([]string{"a.8.1"})
	if err := os.Mkdir(filepath.Join(dir, logName), 0o700); err != nil { // a supervisor cannot be started without its log
		t.Fatal(err)
	}
	for slot := range 3 {
		c.Start(specIn(t, dir, fmt.Sprintf("a.%d.1", slot), "touch ran"))
		if e := h.until(fmt.Sprintf("a.%d.1", slot), Event.Final); e.Kind != Refused || !Exhausted(e.Cause()) || !strings.Contains(e.Err, logName) {
			t.Errorf("%+v", e)
		}
	}
	if err := os.Remove(filepath.Join(dir, logName)); err != nil {
		t.Fatal(err)
	}
	c.Start(specIn(t, dir, "a.7.1", "exit 4"))
	if e := h.until("a.7.1", Event.Final); e.Exit != 4 {
		t.Errorf("%+v", e)
	}
	_ = c.Close()
	if err := EndAll(dir); err != nil {
		t.Error(err)
	}
	if err := EndAll(dir); err != nil {
		t.Errorf("with nobody there: %v", err)
	}
	for _, e := range h.got {
		if e.Task == "a.9.1" || e.Task == "a.8.1" {
			t.Errorf("told %+v", e)
		}
	}
}
