package quorum_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// cluster is a set of ledger nodes on a network in memory, with an all-knowing membership.
type cluster struct {
	t       *testing.T
	net     *memnet.Network
	mu      sync.Mutex
	seen    map[string]*quorum.Candidate
	nodes   map[string]*testNode
	dir     string
	ring    int
	mayVote func(string) bool // what peers know beyond their copy of the ledger
	disks   map[string]*badDisk
	drawn   map[string]int           // seats drawn per folder
	rtt     time.Duration            // as membership measured it
	clocks  map[string]time.Duration // how far the clocks of machines are ahead
	roots   map[string]*root
}

// testNode is one peer's ledger node, while it runs.
type testNode struct {
	*quorum.Node
	id     string
	inc    taskstate.Incarnation
	cancel context.CancelFunc
	ran    chan error
	mu     sync.Mutex
	led    []taskstate.Epoch // terms it has led in
	now    taskstate.Epoch   // the one it leads in, or zero
}

func TestMain(m *testing.M) { os.Exit(long.InMemory(m)) }

// asIs is what peers are called in tests.
func asIs(id taskstate.PeerID) string { return id }

// inBubble runs a test in virtual time and closes what it left open.
func inBubble(t *testing.T, f func(t *testing.T, fl *cluster)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fl := &cluster{t: t, net: memnet.New(), seen: map[string]*quorum.Candidate{}, nodes: map[string]*testNode{}, dir: dir}
		f(t, fl)
		for id := range fl.nodes {
			fl.stop(id)
		}
		_ = fl.net.Close()
		time.Sleep(3 * time.Minute)
	})
}

func (fl *cluster) candidates() []quorum.Candidate {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	var out []quorum.Candidate
	for _, c := range fl.seen {
		out = append(out, *c)
		out[len(out)-1].RTT = fl.rtt
		if b := fl.nodes[c.Peer]; b != nil && b.inc == c.Incarnation {
			out[len(out)-1].Incarnation = b.SeatIncarnation()
		}
	}
	slices.SortFunc(out, func(a, b quorum.Candidate) int { return a.Since.Compare(b.Since) })
	return out
}

// far makes every link slow, and membership know it.
func (fl *cluster) far(oneWay time.Duration) {
	fl.mu.Lock()
	fl.rtt = 2 * oneWay
	fl.mu.Unlock()
	fl.net.Delay(oneWay)
}

// see records what everybody's membership says of a peer.
func (fl *cluster) see(id string, inc taskstate.Incarnation, alive bool) {
	fl.mu.Lock()
	fl.seen[id] = &quorum.Candidate{Peer: id, Incarnation: inc, Alive: alive, Since: time.Now(), Eligible: true}
	fl.mu.Unlock()
	for _, b := range fl.nodes {
		b.Reconsider()
	}
}

// forget takes a peer out of the roster, as far as the voters' rules see it.
func (fl *cluster) forget(id string) {
	fl.mu.Lock()
	delete(fl.seen, id)
	fl.mu.Unlock()
}

func (fl *cluster) log(id string) *slog.Logger {
	if os.Getenv("LEDGER_LOG") == "" {
		return nil
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("at", id)
}

// start runs a peer's node, from its folder if it has one.
func (fl *cluster) start(id string, inc taskstate.Incarnation, follow ...string) *testNode {
	fl.t.Helper()
	fl.net.Revive(id)
	host := fl.net.Host(id)
	seats, err := admission.OpenSeats(filepath.Join(fl.dir, id+string(inc)+".seats"), host, memnet.Verify)
	if err != nil {
		fl.t.Fatal(err)
	}
	n, err := quorum.Open(quorum.Config{
		Seats: seats,
		Net:   host, Self: id, Incarnation: inc, Dir: filepath.Join(fl.dir, id+string(inc)), Root: fl.root(id), Vouched: fl.root(id).vouched,
		Sign: fakeSign(id), Verify: fakeVerify, Draw: fl.draw(id, inc), Candidates: fl.candidates, Log: fl.log(id), RingBytes: fl.ring, MayVote: fl.mayVote, Now: fl.clock(id), Hurt: fl.disk(id).ask,
	})
	if err != nil {
		fl.t.Fatal(err)
	}
	b := &testNode{Node: n, id: id, inc: inc, ran: make(chan error, 1)}
	fl.mu.Lock()
	fl.nodes[id] = b
	fl.mu.Unlock()
	if len(follow) > 0 {
		n.Follow(follow)
	}
	return b
}

// root is what a peer's data folder remembers of its seat.
func (fl *cluster) root(id string) *root {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.roots == nil {
		fl.roots = map[string]*root{}
	}
	if fl.roots[id] == nil {
		fl.roots[id] = &root{}
	}
	return fl.roots[id]
}

// draw names the seats of a folder after its incarnation: the first is called the same, the others
// 1.2, 1.3, …
func (fl *cluster) draw(id string, inc taskstate.Incarnation) func() taskstate.Incarnation {
	return func() taskstate.Incarnation {
		fl.mu.Lock()
		defer fl.mu.Unlock()
		if fl.drawn == nil {
			fl.drawn = map[string]int{}
		}
		k := id + "/" + string(inc)
		fl.drawn[k]++
		if fl.drawn[k] == 1 {
			return inc
		}
		return inc + taskstate.Incarnation(fmt.Sprint(".", fl.drawn[k]))
	}
}

func (fl *cluster) run(b *testNode) *testNode {
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() {
		b.ran <- b.Run(ctx, func(ctx context.Context, e taskstate.Epoch) {
			b.mu.Lock()
			b.led, b.now = append(b.led, e), e
			b.mu.Unlock()
			<-ctx.Done()
			b.mu.Lock()
			b.now = taskstate.Epoch{}
			b.mu.Unlock()
		})
	}()
	return b
}

// terms is how many terms it has led in.
func (b *testNode) terms() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.led)
}

// found starts the first peer and admits the others to the roster.
func (fl *cluster) found(ids ...string) *testNode {
	fl.t.Helper()
	b := fl.start(ids[0], "1")
	if err := b.Found(context.Background(), founding(ids[0])); err != nil {
		fl.t.Fatal(err)
	}
	fl.see(ids[0], "1", true)
	fl.run(b)
	fl.await("the founder leads", func() bool { return fl.leader() == b })
	for _, id := range ids[1:] {
		fl.propose(b, ledger.Command{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "clusterclusterclu", Peer: id, Roles: admission.AllRoles(), By: ids[0]}}})
	}
	return b
}

// grow founds a cluster and lets everybody join, until all replicas and voters are as they should
// be.
func (fl *cluster) grow(voters int, ids ...string) {
	fl.t.Helper()
	fl.found(ids...)
	for _, id := range ids[1:] {
		fl.run(fl.start(id, "1", ids[0]))
		fl.see(id, "1", true)
	}
	fl.await(fmt.Sprintf("%d voters", voters), func() bool { return len(fl.voting()) == voters && len(fl.leader().Voters()) == voters })
	fl.settle()
}

// kill ends a peer as a crash does; its membership verdict is the caller's to give.
func (fl *cluster) kill(id string) {
	fl.net.Kill(id)
	fl.stop(id)
}

func (fl *cluster) stop(id string) {
	b := fl.nodes[id]
	fl.mu.Lock()
	delete(fl.nodes, id)
	fl.mu.Unlock()
	if b.cancel != nil {
		b.cancel()
		<-b.ran
	}
	if err := b.Close(); err != nil {
		fl.t.Errorf("close %s: %v", id, err)
	}
}

// leader is the node that leads in the newest term, or nil.
func (fl *cluster) leader() *testNode {
	fl.mu.Lock() // never held while anybody waits: in a bubble that stops the clock
	defer fl.mu.Unlock()
	var best *testNode
	var epoch taskstate.Epoch
	for _, b := range fl.nodes {
		b.mu.Lock()
		now := b.now
		b.mu.Unlock()
		if epoch.Less(now) {
			best, epoch = b, now
		}
	}
	return best
}

func (fl *cluster) voting() []string {
	var out []string
	l := fl.leader()
	if l == nil {
		return nil
	}
	for _, v := range l.Voters() {
		if v.Voting {
			out = append(out, v.Peer)
		}
	}
	slices.Sort(out)
	return out
}

// await waits in virtual time.
func (fl *cluster) await(what string, ok func() bool) time.Duration {
	fl.t.Helper()
	begin := time.Now()
	for !ok() {
		if time.Since(begin) > 2*time.Minute {
			for id, b := range fl.nodes {
				c, e, k := b.Coordinator()
				in, at := b.InSync()
				fl.t.Logf("%s: applied %d coordinator %s %v %v voters %v in sync %v %v", id, b.Replica().Applied(), c, e, k, b.Voters(), in, at)
			}
			fl.t.Fatalf("waited two minutes in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(begin)
}

// settle waits until everybody knows the coordinator and has all it has.
func (fl *cluster) settle() time.Duration {
	fl.t.Helper()
	return fl.await("all replicas equal", func() bool {
		l := fl.leader()
		if l == nil {
			return false
		}
		for _, b := range fl.nodes {
			c, _, ok := b.Coordinator()
			in, _ := b.InSync()
			if !ok || c != l.id || !in || b.Replica().Applied() != l.Replica().Applied() {
				return false
			}
		}
		return true
	})
}

func (fl *cluster) propose(b *testNode, c ledger.Command) uint64 {
	fl.t.Helper()
	i, res, err := b.Propose(context.Background(), []ledger.Command{c})
	if err != nil || len(res) != 1 || res[0].Refused != "" {
		fl.t.Fatalf("propose at %s: %v %v", b.id, res, err)
	}
	return i
}

// insist proposes at the leader until it is decided: what a client of the cluster does.
func (fl *cluster) insist(c ledger.Command) {
	fl.t.Helper()
	fl.await("a decision", func() bool {
		l := fl.leader()
		if l == nil {
			return false
		}
		_, _, err := l.Propose(context.Background(), []ledger.Command{c})
		if err != nil && !errors.As(err, new(ledger.ErrNotCoordinator)) && !errors.Is(err, quorum.ErrOutcomeUnknown) {
			fl.t.Fatal(err)
		}
		return err == nil
	})
}

func job(n int) ledger.Command {
	id := taskstate.JobID(fmt.Sprintf("job%07d", n))
	return ledger.Command{Submit: &ledger.Submit{Job: taskstate.Job{ID: id, Name: "x", Type: taskstate.BatchJob, Count: 1, Run: taskstate.Run{Noop: &taskstate.Noop{}}}}}
}

func has(b *testNode, n int) bool {
	ok := false
	b.Replica().Read(func(s *ledger.State) { _, ok = s.Job(job(n).Submit.Job.ID) })
	return ok
}

func TestOneVoterBecomesThreeWhenThreePeersAreHere(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		a := fl.found("a", "b", "c")
		fl.run(fl.start("b", "1", "a"))
		fl.see("b", "1", true)
		fl.await("b follows", func() bool { in, _ := fl.nodes["b"].InSync(); return in })
		time.Sleep(5 * time.Second)
		if got := fl.voting(); !slices.Equal(got, []string{"a"}) {
			t.Fatalf("two peers have voters %v, want one", got)
		}
		fl.run(fl.start("c", "1", "a"))
		fl.see("c", "1", true)
		took := fl.await("three voters", func() bool { return len(fl.voting()) == 3 })
		t.Log("three voters after", took)
		fl.propose(a, job(1))
		t.Log("all equal after", fl.settle())
		for id, b := range fl.nodes {
			if !has(b, 1) {
				t.Errorf("%s does not have the job", id)
			}
		}
	})
}

func TestWhenTheCoordinatorDiesAnotherGoesOnAndNothingDecidedIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *cluster) {
		fl.grow(3, "a", "b", "c", "d")
		done := 0
		for round := range 5 {
			for range 20 {
				done++
				fl.insist(job(done))
			}
			old := fl.leader()
			before := old.led[len(old.led)-1]
			fl.kill(old.id)
			took := fl.await("another coordinator", func() bool { return fl.leader() != nil })
			l := fl.leader()
			if !before.Less(l.now) {
				t.Fatalf("epoch went from %v to %v", before, l.now)
			}
			t.Logf("round %d: %s after %v, known to all after %v more", round, l.id, took, fl.settle())
			if took > 2*time.Second {
				t.Errorf("a new coordinator took %v", took)
			}
			for i := range done {
				for _, b := range fl.nodes {
					if !has(b, i+1) {
						t.Fatalf("%s lost job %d", b.id, i+1)
					}
				}
			}
			fl.run(fl.start(old.id, "1"))
			t.Log("back in sync after", fl.settle())
		}
	})
}

// firstSeat draws the incarnation that tests give their seats.
func firstSeat() taskstate.Incarnation { return "1" }

// fakeSign signs as a peer does, for those who believe everybody's word on who it is.
func fakeSign(id string) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		sum := sha256.Sum256(append([]byte(id), b...))
		return sum[:], nil
	}
}

func fakeVerify(id string, b, sig []byte) error {
	if want, _ := fakeSign(id)(b); !bytes.Equal(want, sig) {
		return errors.New("a bad signature")
	}
	return nil
}
