package quorum

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/coveyproject/covey/dispatch/ledger/quorum/store"
	"github.com/coveyproject/covey/p2p/memnet"
)

// never is a question that raft does not answer.
type never struct{ until chan struct{} }

func (n never) Error() error {
	<-n.until
	return nil
}

// soon fails the test if something takes as long as nothing here may.
func soon[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatal(what)
	}
	return v
}

func TestWhoWaitsForARaftThatHasStoppedIsAnswered(t *testing.T) {
	s := &seat{gone: make(chan struct{})}
	q := never{make(chan struct{})}
	defer close(q.until)
	answered := make(chan error, 1)
	go func() { answered <- s.ask(func() raft.Future { return q }) }()
	select {
	case err := <-answered:
		t.Fatalf("answered with %v though raft said nothing", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(s.gone)
	if err := soon(t, "who asked waits for ever", answered); !errors.Is(err, raft.ErrRaftShutdown) {
		t.Errorf("answered with %v", err)
	}
	said := never{make(chan struct{})}
	close(said.until)
	live := &seat{gone: make(chan struct{})}
	if err := live.ask(func() raft.Future { return said }); err != nil {
		t.Errorf("raft's own answer became %v", err)
	}
}

func TestWhoIsAskedToTakeASeatWhileItStopsDoesNotHoldUpItsEnd(t *testing.T) {
	n, err := Open(Config{Net: memnet.New().Host("b"), Self: "b", Incarnation: "1", Draw: firstSeat, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	n.seating.life.Lock() // what is being done takes a while
	n.handlers.Add(1)     // a is being served
	closed, answered := make(chan error, 1), make(chan error, 1)
	go func() { closed <- n.Close() }()
	<-n.life.Done()
	go func() {
		defer n.handlers.Done()
		_, err := n.prepare("a", seatAsk{Generation: 1, Server: "b/1"})
		answered <- err
	}()
	if err := soon(t, "who asks waits for what Close waits for, too", answered); !errors.Is(err, errStopping) {
		t.Errorf("answered with %v", err)
	}
	n.seating.life.Unlock()
	if err := soon(t, "Close waits for ever", closed); err != nil {
		t.Error(err)
	}
}

func TestWhoWaitsForASnapshotGoesOnWhenTheSeatIsFoundUnsound(t *testing.T) {
	_, n := founded(t)
	s := n.place.seat.Load()
	n.place.unread.mu.Lock() // a snapshot looks at it: raft does not answer
	defer n.place.unread.mu.Unlock()
	made := make(chan struct{})
	go func() { defer close(made); s.snapshot() }()
	select {
	case <-made:
		t.Fatal("the snapshot did not wait for raft")
	case <-time.After(50 * time.Millisecond):
	}
	s.unsound.Store(&store.Unsound{Why: errors.New("rot")})
	soon(t, "who waits for a snapshot of a seat that is no good waits for ever", made)
}
