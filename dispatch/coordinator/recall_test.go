package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// A worker comes back with a task in its queue at the very moment when the coordinator looks for
// tasks to even out. What it asks back then belongs to the Complete set it sends: left out, it
// would wait for an answer for ever, and ask for nothing more.
func TestARecallDecidedWithACompleteSetIsSentWithIt(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{
		"member a", "member b", "hello a cpus=1", "submit j count=2 cpus=1", // both are a's: one runs, one waits
		"open a cpus=1", "hello b cpus=1",
	} {
		r.command(strings.Fields(line))
	}
	r.take()
	r.now = r.now.Add(500 * time.Millisecond) // a busy coordinator: what is due and what came are one step
	r.command(strings.Fields("report a j.1.1=running j.2.1=accepted done"))
	if got := r.take(); !strings.Contains(got, "recall j.2.1") {
		t.Errorf("the queued task is not taken back:\n%s", got)
	}
	r.command(strings.Fields("batch a 1 j.2.1=rejected/recalled"))
	if got := r.take(); !strings.Contains(got, "assign j[2.2] to b") {
		t.Errorf("nor given to the peer with room:\n%s", got)
	}
}

// A worker starts its queue in order. What needs only memory does not start on a peer where
// something waits for a cpu: it was sent there all the same, taken back, and sent to the next such
// peer, for ever.
func TestATaskIsNotPassedAroundAmongPeersWithAQueue(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "member b", "hello a cpus=1", "hello b cpus=1", "submit busy count=4 cpus=1"} {
		r.command(strings.Fields(line))
	}
	for _, p := range []string{"a", "b"} {
		o := r.core.peers.of(p).offer
		o.Resources.Memory = 1 << 30
		r.step(SessionFrame{Conn: r.conns[p], Frame: session.Up{Offer: &o}})
	}
	small := jobOf("small", nil)
	small.Resources = taskstate.Resources{Memory: 1 << 20}
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: small}})
	r.command(strings.Fields("advance 5s a b"))
	if got := r.take(); strings.Contains(got, "small[") {
		t.Errorf("sent to where it cannot start:\n%s", got)
	}
	r.command(strings.Fields("member c"))
	r.hello("c", session.Hello{Incarnation: "c1", Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: 1000, Memory: 1 << 30}}})
	if got := r.take(); !strings.Contains(got, "assign small[1.1] to c") {
		t.Errorf("not sent to where it can:\n%s", got)
	}
}

// What waits for a peer that is given nothing waits on; the others have room for what stands in
// line elsewhere.
func TestRoomOnAPeerThatIsGivenNothingKeepsNoOthersFromEveningOut(t *testing.T) {
	r := newRig(t, CoreConfig{})
	r.commands("member a", "hello a cpus=1", "submit j count=2 cpus=1", "advance 100ms a", "member b", "hello b cpus=8")
	o := r.core.peers.of("b").offer
	o.Trouble = "no room on its disk"
	r.step(SessionFrame{Conn: r.conns["b"], Frame: session.Up{Offer: &o}})
	r.commands("submit big count=1 cpus=8", "advance 1s a b")
	if got := r.commands("advance 2s a b"); strings.Contains(got, "recall") {
		t.Fatalf("taken back, and nobody could start it:\n%s", got)
	}
	if got := r.commands("member c", "hello c cpus=1", "advance 2s a b c"); !strings.Contains(got, "recall j.2.1") {
		t.Errorf("it stands in line while somebody has room:\n%s", got)
	}
}

// Work that must not run twice takes its turn on a worker even if it needs nothing. It goes where
// nothing waits, and is taken back from where something does.
func TestWorkThatTakesItsTurnDoesNotWaitBehindAQueueWhileOthersAreFree(t *testing.T) {
	r := newRig(t, CoreConfig{})
	for _, line := range []string{"member a", "hello a cpus=1", "submit busy count=2 cpus=1", "submit once count=1 wait", "member b", "hello b cpus=1"} {
		r.command(strings.Fields(line))
	}
	if got := r.take(); !strings.Contains(got, "assign once[1.1] to a") {
		t.Fatalf("not given to the only peer:\n%s", got)
	}
	r.command(strings.Fields("advance 100ms"))
	if got := r.take(); !strings.Contains(got, "recall once.1.1") {
		t.Fatalf("not taken back:\n%s", got)
	}
	r.command(strings.Fields("batch a 1 busy.1.1=running once.1.1=rejected/recalled"))
	if got := r.take(); !strings.Contains(got, "assign once[1.2] to b") {
		t.Errorf("not given to the peer without a queue:\n%s", got)
	}
}

// Tasks that wait for disk alone go to where there is some, and disk that a peer has promised
// beyond what it offers – what its tasks wrote before it was started again – keeps nobody else
// away.
func TestWhatWaitsForDiskIsTakenBackAndKeepsNobodyElseAway(t *testing.T) {
	r := newRig(t, CoreConfig{})
	offers := func(peer string, disk int64) {
		r.hello(peer, session.Hello{Incarnation: taskstate.Incarnation(peer + "1"), Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: 4000, Disk: disk}}})
	}
	r.commands("member a", "member b")
	offers("a", 10)
	writes := jobOf("writes", map[string]string{"count": "3"})
	writes.Resources.Disk = 8
	r.apply(ledger.Command{Submit: &ledger.Submit{Job: writes}})
	r.inc["a"] = "a1"
	r.commands("batch a 1 writes.1.1=running")
	offers("b", 10)
	r.take()
	r.command(strings.Fields("advance 5s a b"))
	if got := r.take(); !strings.Contains(got, "recall") {
		t.Fatalf("what waits for disk stays in line:\n%s", got)
	}
	r.step(SessionFrame{Conn: r.conns["a"], Frame: session.Up{Offer: &session.Offer{Resources: taskstate.Resources{MilliCPU: 4000, Disk: 2}}}})
	r.commands("avail b pause")
	if got := r.commands("submit other count=1 cpus=1"); !strings.Contains(got, "assign other[1.1] to a") {
		t.Errorf("it waits for disk that it does not want:\n%s", got)
	}
}
