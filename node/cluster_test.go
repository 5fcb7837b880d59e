package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/held"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

func TestAPeerAloneFoundsAndRunsAJob(t *testing.T) {
	t.Parallel()
	a := alive(t, Config{Name: "one"})
	if a.ready.How != "founded" || a.ready.Coordinator != a.self || len(a.ready.Voters) != 1 {
		t.Fatalf("%+v", a.ready)
	}
	id := a.submit(noopJob("alone", 5, 0))
	row, tasks := a.outcome(id)
	if row.State != "complete" || row.ExitCode == nil || *row.ExitCode != 0 || row.Tasks["complete"] != 5 || len(tasks) != 5 {
		t.Fatalf("%+v %v", row, tasks)
	}
}

func TestThreePeersTakeJobsAndAnswerAlike(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	for _, l := range all {
		if want := map[string]string{"one": "founded", "two": "joined", "three": "joined"}[l.name]; l.ready.How != want {
			t.Errorf("%s: %s", l.name, l.ready.How)
		}
		id := l.submit(noopJob("through-"+l.name, 20, 0))
		for _, other := range all {
			row, _ := other.outcome(id)
			if row.State != "complete" || row.Tasks["complete"] != 20 || row.Submitter != l.self {
				t.Errorf("%s about %s: %+v", other.name, row.Name, row)
			}
		}
		last, err := l.Job(timed(t), "last")
		if err != nil || last.Job.ID != id {
			t.Errorf("last at %s: %+v, %v", l.name, last, err)
		}
	}
	jobs, err := all[2].Jobs(timed(t))
	if err != nil || len(jobs.Jobs) != 3 {
		t.Fatalf("%+v, %v", jobs, err)
	}
	st, err := all[1].Stats(timed(t))
	if err != nil || st.RSS == 0 || st.Goroutines == 0 || st.Counters["held"] != 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestTheOutputOfATaskIsReadThroughAnyPeer(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	id := all[1].submit(shellJob("talk", 4, "echo out; echo err >&2; exit 3"))
	for _, l := range all {
		row, _ := l.outcome(id)
		if row.State != "failed" || *row.ExitCode != 1 || row.Tasks["failed"] != 4 {
			t.Fatalf("%+v", row)
		}
		ran := map[string]bool{}
		tasks, err := l.Tasks(timed(t), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range tasks.Tasks {
			ran[k.PeerName] = true
			if k.ExitCode == nil || *k.ExitCode != 3 {
				t.Errorf("%+v", k)
			}
		}
		if got := l.output(id, api.LogQuery{Stream: "stdout"}); got != strings.Repeat("out\n", 4) {
			t.Errorf("%s shows %q of tasks that ran on %v", l.name, got, ran)
		}
		if got := l.output(id, api.LogQuery{Slot: 2, Stream: "stderr", Follow: true}); got != "err\n" {
			t.Errorf("%s shows %q", l.name, got)
		}
	}
}

func TestAJobIsCancelledThroughAnotherPeer(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	id := all[0].submit(noopJob("long", 50, time.Hour))
	if _, err := all[1].Cancel(timed(t), id); err != nil {
		t.Fatal(err)
	}
	row, tasks := all[0].outcome(id)
	if row.State != "shutdown" || row.Cancelled == "" || row.Tasks["shutdown"] != 50 {
		t.Fatalf("%+v", row)
	}
	for _, k := range tasks {
		if k.Desired != "shutdown" {
			t.Fatalf("%+v", k)
		}
	}
	if _, err := all[1].Cancel(timed(t), id); err != nil {
		t.Errorf("cancelling twice is no harm: %v", err)
	}
	done := all[0].submit(noopJob("quick", 1, 0))
	all[1].outcome(done)
	_, err := all[1].Cancel(timed(t), done)
	wants(t, err, api.Conflict, done, "is over")
}

func TestAJobIsHeldWhileTheOnlyVoterIsGoneAndGoesOutWhenItIsBack(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "voter", "other")
	voter, other := all[0], all[1]
	voter.crash()
	s, err := other.Submit(timed(t), api.Submit{Job: noopJob("patient", 3, 0)})
	if err != nil || !s.Held || !strings.Contains(s.Note, "voter") || !strings.Contains(s.Note, "peer up") {
		t.Fatalf("%+v, %v", s, err)
	}
	row, err := other.Job(timed(t), "last")
	if err != nil || row.Job.State != "held" || row.Job.Tasks["pending"] != 3 || !strings.Contains(row.Job.Waiting, "voter") {
		t.Fatalf("%+v, %v", row, err)
	}
	ts, err := other.Tasks(timed(t), s.ID)
	if err != nil || len(ts.Tasks) != 3 || ts.Tasks[0].State != "pending" {
		t.Fatalf("%+v, %v", ts, err)
	}
	_, err = other.Cancel(timed(t), "nosuchjob")
	wants(t, err, api.NotFound, "nosuchjob")

	voter.again()
	done, _ := other.outcome(s.ID)
	if done.State != "complete" || done.Tasks["complete"] != 3 {
		t.Fatalf("%+v", done)
	}
	eventually(t, "nothing is held any more", func() (bool, string) { return len(other.held.List()) == 0, "" })
}

func TestAHeldJobSurvivesARestartAndCanBeCancelled(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "voter", "other")
	voter, other := all[0], all[1]
	voter.crash()
	first, err := other.Submit(timed(t), api.Submit{Job: noopJob("first", 1, 0)})
	if err != nil || !first.Held {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := other.Submit(timed(t), api.Submit{Job: noopJob("second", 1, 0)})
	if err != nil || !second.Held {
		t.Fatalf("%+v, %v", second, err)
	}
	if row, err := other.Cancel(timed(t), "second"); err != nil || row.State != "shutdown" || row.ID != second.ID {
		t.Fatalf("%+v, %v", row, err)
	}
	_ = other.stop()
	if held, err := held.Open(other.folder.path("held"), nil); err != nil || len(held.List()) != 1 || held.List()[0].Job.Name != "first" {
		t.Fatalf("%+v, %v", held, err)
	}
	back := voter.back()
	other.back()
	if done, _ := back.outcomeOf(t, first.ID); done.State != "complete" {
		t.Fatalf("%+v", done)
	}
	if _, err := back.Job(timed(t), second.ID); err == nil {
		t.Error("a job that was cancelled while it was held went out")
	}
}

func TestAPeerThatRestartsOnAnotherPortIsReadyAgain(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stopped", "crashed"} {
		t.Run(how, func(t *testing.T) {
			all := clusterOf(t, "one", "two")
			before := all[1].host.Addrs()
			if how == "crashed" {
				all[1].crash()
			} else if err := all[1].stop(); err != nil {
				t.Fatal(err)
			}
			all[0].submit(noopJob("meanwhile", 1, 0))
			two := all[1].again()
			if two.ready.How != "resumed" || two.self != all[1].self || strings.Join(two.host.Addrs(), " ") == strings.Join(before, " ") {
				t.Fatalf("%+v; before %v", two.ready, before)
			}
			all[0].sees("one", "two")
			two.sees("one", "two")
			if row, _ := two.outcome("meanwhile"); row.State != "complete" {
				t.Fatalf("%+v", row)
			}
		})
	}
}

// What a peer that stops in order had begun is its own until it is back: processes go on without
// it. Everything else runs elsewhere at once, and if the peer stays away that is all the job waits
// for.
func TestAJobEndsAlthoughTheCoordinatorStopsInOrder(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two", "three")
	j := noopJob("handed-over", 200, 20*time.Millisecond)
	j.Resources.MilliCPU = 1000                           // two at a time on each peer, the others wait there
	j.Unreachable.ReplaceAfter = time.Hour.Milliseconds() // so long it would take if anything else were left assigned to the one that stops
	id := all[1].submit(j)
	if err := all[0].stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "only what one had begun is open", func() (bool, string) {
		here, elsewhere := all[1].openOn(id, all[0].self)
		return len(here) <= 2 && elsewhere == 0, fmt.Sprintf("with one: %v, with others or nobody: %d", here, elsewhere)
	})
	all[0] = all[0].again()
	for _, l := range all {
		if row, _ := l.outcome(id); row.State != "complete" || row.Tasks["complete"] != 200 {
			t.Fatalf("%s: %+v", l.name, row)
		}
	}
}

// openOn lists the slots of a job whose open task a peer has, and counts the others that are not
// over.
func (l *living) openOn(id, peer string) (here []int, elsewhere int) {
	l.replica.Read(func(s *ledger.State) {
		rec, ok := s.Job(taskstate.JobID(id))
		if !ok {
			elsewhere = -1 // not heard of yet
			return
		}
		c := rec.Counts()
		elsewhere = c.Pending + c.Open
		for o := range rec.OpenSlots() {
			if string(o.Peer) == peer {
				here = append(here, o.Slot)
				elsewhere--
			}
		}
	})
	return here, elsewhere
}

func TestOneTicketOfOneUseLetsOnePeerIn(t *testing.T) {
	t.Parallel()
	a := alive(t, Config{Name: "one"})
	k := a.ticket(api.TicketRequest{Expires: 600, Uses: 1})
	alive(t, Config{Name: "two", Join: k.Ticket})
	_, err := tryAlive(t, Config{Name: "three", Join: k.Ticket})
	wants(t, err, api.Refused, "used as often")
	revoked := a.ticket(api.TicketRequest{Expires: 600})
	if err := a.Revoke(timed(t), revoked.ID); err != nil {
		t.Fatal(err)
	}
	_, err = tryAlive(t, Config{Name: "three", Join: revoked.Ticket})
	wants(t, err, api.Refused, "revoked")
	wants(t, a.Revoke(timed(t), "nosuch"), api.NotFound, "nosuch")
	list, err := a.Invites(timed(t))
	if err != nil || len(list.Tickets) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, x := range list.Tickets {
		if want := map[string]string{k.ID: "used-up", revoked.ID: "revoked"}[x.ID]; x.State != want {
			t.Errorf("%+v", x)
		}
	}
}

func TestAPeerJoinsByAddressAndSecret(t *testing.T) {
	t.Parallel()
	a := alive(t, Config{Name: "one"})
	k := a.ticket(api.TicketRequest{Expires: 600})
	alive(t, Config{Name: "two", Bootstrap: []string{a.host.Addrs()[0] + "/p2p/" + a.self}, Invite: k.Secret})
	hostPort := a.host.Addrs()[0]
	_, p := p2p.IPAndPort(hostPort)
	alive(t, Config{Name: "three", Bootstrap: []string{"127.0.0.1:" + p}, Invite: k.Secret})
	a.sees("one", "two", "three")
	_, err := tryAlive(t, Config{Bootstrap: []string{"127.0.0.1:" + p}, Invite: "nonsense"})
	wants(t, err, api.Usage, "--invite")
	_, err = tryAlive(t, Config{Bootstrap: []string{"127.0.0.1:" + p}})
	wants(t, err, api.Refused, "refused")
	_, err = tryAlive(t, Config{Bootstrap: []string{"127.0.0.1:1"}, Invite: k.Secret})
	wants(t, err, api.NoCoordinator, "127.0.0.1:1", "peer up")
	_, err = tryAlive(t, Config{Join: "covey1nonsense"})
	wants(t, err, api.Usage, "--join")
}

func TestAnOpenClusterLetsAnybodyIn(t *testing.T) {
	t.Parallel()
	a := alive(t, Config{Name: "one", Open: true})
	if !a.ready.Open {
		t.Fatalf("%+v", a.ready)
	}
	alive(t, Config{Name: "two", Bootstrap: []string{a.host.Addrs()[0] + "/p2p/" + a.self}})
	a.sees("one", "two")
}

func TestAFolderWithJobsOfAnotherClusterIsRefusedATicket(t *testing.T) {
	t.Parallel()
	a := alive(t, Config{Name: "one"})
	k := a.ticket(api.TicketRequest{Expires: 600})
	b := alive(t, Config{Name: "other"})
	b.outcome(b.submit(noopJob("mine", 1, 0)))
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	_, err := tryAlive(t, Config{Data: b.cfg.Data, Join: k.Ticket})
	wants(t, err, api.Conflict, "belongs to cluster", "--data")
}

func TestAPeerThatWasAloneAndHadNoJobsMovesOver(t *testing.T) {
	t.Parallel()
	a := alive(t, Config{Name: "one"})
	k := a.ticket(api.TicketRequest{Expires: 600})
	b := alive(t, Config{Name: "other"})
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	moved := alive(t, Config{Data: b.cfg.Data, Name: "other", Join: k.Ticket})
	oneSeat := api.OneSeat("one", 2, true) // if the start took long
	warnings := slices.DeleteFunc(moved.ready.Warnings, func(w string) bool { return w == oneSeat })
	if moved.ready.Cluster != a.ready.Cluster || len(warnings) != 1 || !strings.Contains(warnings[0], b.ready.Cluster) {
		t.Fatalf("%+v", moved.ready)
	}
	a.sees("one", "other")
}

func TestARemovedPeerIsOutAndToldSo(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	for _, self := range all {
		wants(t, self.Remove(timed(t), self.cfg.Name, api.Removal{}), api.Conflict, "is this very peer", "peer leave")
	}
	wants(t, all[1].Remove(timed(t), "one", api.Removal{}), api.Conflict, "only voter")
	if err := all[0].Remove(timed(t), "two", api.Removal{}); err != nil {
		t.Fatal(err)
	}
	wants(t, all[0].Remove(timed(t), "two", api.Removal{}), api.NotFound, "two")
	eventually(t, "one shows itself only", func() (bool, string) {
		ps, err := all[0].Peers(timed(t))
		return err == nil && len(ps.Peers) == 1, ""
	})
	wants(t, all[1].out(), api.Refused, "was removed", "--data")
	_, err := tryAlive(t, Config{Data: all[1].cfg.Data})
	wants(t, err, api.Refused, "was removed")
}

// out waits until a peer that was removed hears of it, proved by a signature, and ends.
func (l *living) out() (err error) {
	l.t.Helper()
	select {
	case err = <-l.ended:
		l.ended <- nil
	case <-timed(l.t).Done():
		l.t.Fatal("a removed peer goes on as if nothing had happened")
	}
	return err
}

func TestAPeerThatWasRemovedWhileItWasAwayIsToldAtItsReturn(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	if err := all[1].stop(); err != nil {
		t.Fatal(err)
	}
	if err := all[0].Remove(timed(t), "two", api.Removal{}); err != nil {
		t.Fatal(err)
	}
	two, err := tryAlive(t, Config{Data: all[1].cfg.Data})
	if err == nil { // it may be ready before it hears of that
		err = two.out()
	}
	wants(t, err, api.Refused, "was removed")
}

func TestAPeerThatLeavesIsGoneAndTheLastCannot(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	wants(t, alive(t, Config{}).Leave(timed(t)), api.Conflict, "only peer", "peer down")
	if err := all[0].Leave(timed(t)); err != nil { // the voter and coordinator
		t.Fatal(err)
	}
	if err := all[0].stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two goes on alone", func() (bool, string) {
		ps, err := all[1].Peers(timed(t))
		return err == nil && len(ps.Peers) == 1 && ps.Coordinator == all[1].self, ""
	})
	if row, _ := all[1].outcome(all[1].submit(noopJob("after", 3, 0))); row.State != "complete" {
		t.Fatalf("%+v", row)
	}
	_, err := tryAlive(t, Config{Data: all[0].cfg.Data})
	wants(t, err, api.Refused, "this peer left cluster", "--join TICKET")
}

func TestABlockedPeerIsCutOffAndOnlyInATestnet(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "one", "two")
	if err := all[1].Block(timed(t), api.Block{Peers: []string{all[0].self}}); err != nil {
		t.Fatal(err)
	}
	s, err := all[1].Submit(timed(t), api.Submit{Job: noopJob("cut-off", 1, 0)})
	if err != nil || !s.Held {
		t.Fatalf("%+v, %v", s, err)
	}
	if err := all[1].Block(timed(t), api.Block{}); err != nil {
		t.Fatal(err)
	}
	if row, _ := all[0].outcomeOf(t, s.ID); row.State != "complete" {
		t.Fatalf("%+v", row)
	}
	n := &Node{}
	wants(t, n.Block(timed(t), api.Block{}), api.Refused, "testnet")
}

// outcomeOf is outcome of a job that this peer is about to hear of.
func (l *living) outcomeOf(t *testing.T, id string) (api.Job, map[int]api.Task) {
	t.Helper()
	eventually(t, l.name+" knows job "+id, func() (bool, string) {
		_, err := l.JobNow(taskstate.JobID(id))
		return err == nil, ""
	})
	return l.outcome(id)
}

func TestAFollowerBehindASnapshotTakesTheRosterFromIt(t *testing.T) {
	t.Parallel()
	// Peer two is away while three joins; with so much decided meanwhile that the followed voter
	// answers with a snapshot, its entry is in no delta that two ever sees.
	all := clusterOf(t, "one", "two")
	if err := all[1].stop(); err != nil {
		t.Fatal(err)
	}
	three := alive(t, Config{Name: "three", Join: all[0].ticket(api.TicketRequest{Expires: 600}).Ticket})
	two := all[1].again()
	two.sees("one", "two", "three")
	three.sees("one", "two", "three")
	if !two.roster.Admitted(three.self) {
		t.Fatal("two does not know three")
	}
	// A new follower begins with a snapshot: its reset event must bring the roster level, whatever
	// the join's answer said.
	fresh := newUnborn(t)
	state := snapshotOf(t, all[0])
	fresh.replica.Reset(state)
	for _, l := range []*living{all[0], two, three} {
		if !fresh.roster.Admitted(l.self) {
			t.Errorf("the roster lacks %s", l.name)
		}
	}
}
