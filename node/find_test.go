package node

import (
	"strings"
	"testing"
	"time"

	"covey/dispatch/ledger"
	"covey/node/api"
	"covey/p2p/admission"
	"covey/taskstate"
)

func TestAJobIsFoundByWhatAPersonTypes(t *testing.T) {
	s := newScripted(t)
	s.take("aaaa111111", "old", s.self, 1)
	s.take("aaaa222222", "same", s.self, 1)
	s.take("bbbb333333", "same", "somebody", 1)
	for typed, want := range map[string]taskstate.JobID{
		"aaaa111111": "aaaa111111", "aaaa1": "aaaa111111", "b": "bbbb333333", "old": "aaaa111111",
		"same": "bbbb333333", // the newest of a name
		"last": "aaaa222222", // the newest submitted here
	} {
		if got, held, err := s.resolve(typed); got != want || held != nil || err != nil {
			t.Errorf("%s: %s %v %v", typed, got, held, err)
		}
	}
	_, _, err := s.resolve("aaaa")
	wants(t, err, api.Conflict, `"aaaa" begins the ids of 2 jobs`, "type more")
	_, _, err = s.find(timed(t), "cccc")
	wants(t, err, api.NotFound, `no job "cccc"`, "peer jobs")
	_, _, err = s.find(timed(t), "aaaa1.3")
	wants(t, err, api.NotFound, `no job "aaaa1.3"`, "it would be a task")
	_, _, err = s.resolve("")
	wants(t, err, api.NotFound)
}

func TestAHeldJobIsFoundLikeAnyOther(t *testing.T) {
	s := newScripted(t)
	_, _, err := s.resolve("last")
	wants(t, err, api.NotFound, "no job was submitted through this peer yet")
	s.take("aaaa111111", "known", s.self, 1)
	first, second := jobNamed("waits"), jobNamed("waits")
	first.ID, second.ID = "hhhh111111", "hhhh222222"
	for i, j := range []taskstate.Job{first, second} {
		if err := s.held.put(j, int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	for typed, want := range map[string]taskstate.JobID{
		"hhhh111111": "hhhh111111", "hhhh1": "hhhh111111", "waits": "hhhh222222", "last": "hhhh222222",
	} {
		if got, held, err := s.resolve(typed); got != want || held == nil || held.Job.ID != want || err != nil {
			t.Errorf("%s: %s %v %v", typed, got, held, err)
		}
	}
	if got, held, err := s.resolve("known"); got != "aaaa111111" || held != nil || err != nil {
		t.Error(got, held, err)
	}
	jobs, err := s.Jobs(timed(t))
	if err != nil || len(jobs.Jobs) != 3 || jobs.Jobs[0].ID != "hhhh222222" || jobs.Jobs[0].State != "held" || jobs.Jobs[2].ID != "aaaa111111" {
		t.Fatalf("%+v %v", jobs, err)
	}
}

func TestAPeerIsFoundByIdPartOrNameAndNamesakesAreTold(t *testing.T) {
	s := newScripted(t)
	var ids []taskstate.PeerID
	for _, name := range []string{"left", "right", "right"} {
		a := s.newAuthor()
		s.write(ledger.Command{Register: &ledger.Register{Peer: a.id, Incarnation: a.inc, Name: name}})
		ids = append(ids, a.id)
	}
	for _, typed := range []string{ids[0], ids[0][len(ids[0])-12:], "left"} {
		if got, err := s.findPeer(typed); got != ids[0] || err != nil {
			t.Errorf("%s: %s %v", typed, got, err)
		}
	}
	s.name = "left"
	if w := s.namesakes(); len(w) != 1 || !strings.Contains(w[0], ids[0]) || !strings.Contains(w[0], "--name") {
		t.Errorf("a peer of the same name: %q", w)
	}
	s.name = "middle"
	if w := s.namesakes(); len(w) != 0 {
		t.Errorf("nobody is called like this one: %q", w)
	}
	_, err := s.findPeer("right")
	wants(t, err, api.Conflict, `"right" fits 2 peers`)
	_, err = s.findPeer("nobody")
	wants(t, err, api.NotFound, "peer peers")
	_, err = s.findPeer(ids[0][len(ids[0])-3:])
	wants(t, err, api.NotFound) // too short to mean a peer for sure
}

func TestATicketOfPrivateAddressesOnlySaysWhichPortToOpen(t *testing.T) {
	doors := func(addrs ...string) []admission.PeerAddr { return []admission.PeerAddr{{ID: "p", Addrs: addrs}} }
	for _, c := range []struct {
		doors []admission.PeerAddr
		want  string
	}{
		{doors("/ip4/192.168.1.7/tcp/26839", "/ip4/192.168.1.7/udp/26839/quic-v1"), "open port 26839"},
		{doors("/ip4/127.0.0.1/tcp/4001"), "open port 4001"},
		{doors("/ip6/fe80::1/tcp/4001", "/ip6/fd00::1/tcp/4001"), "open port 4001"},
		{doors("/ip4/192.168.1.7/tcp/26839", "/ip4/11.0.0.1/tcp/26839"), ""},
		{append(doors("/ip4/10.0.0.1/tcp/1"), doors("/ip6/2001:db8::1/tcp/2")...), ""},
		{doors("/ip4/10.0.0.1/tcp/1", "/dns4/peer.example.com/tcp/26839"), ""},
	} {
		got := reachWarning(c.doors)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q", c.doors, got)
		}
		if got != "" && !strings.Contains(got, "--announce") {
			t.Errorf("%q does not say what to type", got)
		}
	}
}

func TestTheLogsOfATaskAreThoseOfItsSlotAndAttempt(t *testing.T) {
	s := newScripted(t)
	a := s.newAuthor()
	j := shellJob("talk", 3, "echo")
	j.ID = someJob
	s.write(ledger.Command{Submit: &ledger.Submit{Job: j}})
	s.assign(someJob, a, 1, 1)
	for _, c := range []struct {
		q       api.LogQuery
		slots   int
		attempt int
	}{
		{api.LogQuery{}, 3, 0}, {api.LogQuery{Slot: 2}, 1, 0}, {api.LogQuery{Task: "k3v5q7x2ab.3.2"}, 1, 2},
	} {
		slots, attempt, err := s.logSlots(someJob, c.q)
		if err != nil || len(slots) != c.slots || attempt != c.attempt {
			t.Errorf("%+v: %v %d %v", c.q, slots, attempt, err)
		}
	}
	_, _, err := s.logSlots(someJob, api.LogQuery{Slot: 4})
	wants(t, err, api.NotFound, "slots 1 to 3", "no slot 4")
	_, _, err = s.logSlots(someJob, api.LogQuery{Task: "nonsense"})
	wants(t, err, api.Usage, "JOB.SLOT.ATTEMPT")
	err = s.Logs(timed(t), "k3v5.1", api.LogQuery{Slot: 2}, func(api.LogChunk) error { return nil })
	wants(t, err, api.Usage, "slot 1", "slot 2")
	err = s.Logs(timed(t), "k3v5.4", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.NotFound, "slots 1 to 3")
	err = s.Logs(timed(t), "k3v5.x", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.Usage, "JOB.SLOT.ATTEMPT")
	err = s.Logs(timed(t), "talk.1.2", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.NotFound, "not the newest attempt")

	// A peer that cannot be reached for what it has is named, on one line, and what never began is silent.
	var chunks []api.LogChunk
	if err := s.Logs(timed(t), string(someJob), api.LogQuery{}, func(c api.LogChunk) error { chunks = append(chunks, c); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(chunks) != 1 || chunks[0].Error == nil || chunks[0].Error.Code != api.NoCoordinator || !chunks[0].EOF {
		t.Fatalf("%+v", chunks)
	}
	if text := chunks[0].Error.Message; !strings.Contains(text, a.id) || !strings.Contains(text, "none of its addresses is known here") || strings.Contains(text, "\n") {
		t.Error(text)
	}
}

func TestWhatATicketAsksForIsChecked(t *testing.T) {
	n := newUnborn(t)
	for _, r := range []api.TicketRequest{{Expires: 0}, {Expires: -1}, {Expires: 1, Uses: -1}, {Expires: 1, Roles: []string{"king"}}, {Expires: 1, Roles: []string{"worker", "worker"}}} {
		_, err := n.Invite(timed(t), r)
		wants(t, err, api.Usage)
	}
}

func TestEverythingWithoutACoordinatorSaysSo(t *testing.T) {
	n := newUnborn(t)
	began := time.Now()
	s, err := n.Submit(timed(t), api.Submit{Job: noopJob("early", 1, 0)})
	if err != nil || !s.Held || s.Note == "" {
		t.Fatalf("%+v %v", s, err)
	}
	_, err = n.Invite(timed(t), api.TicketRequest{Expires: 60})
	wants(t, err, api.NoCoordinator, "no ticket was made", "no coordinator", "peer peers")
	ps, err := n.Peers(timed(t))
	if err != nil || ps.Coordinator != "" {
		t.Fatalf("%+v %v", ps, err)
	}
	err = n.Logs(timed(t), "early", api.LogQuery{}, func(api.LogChunk) error { return nil })
	wants(t, err, api.NotFound, "held here")
	t.Logf("all of it took %s", time.Since(began))
}

func TestAJobThatMakesNoSenseIsRefusedAtTheDoor(t *testing.T) {
	n := newUnborn(t)
	_, err := n.Submit(timed(t), api.Submit{Job: taskstate.Job{Name: "empty", Count: 1}})
	wants(t, err, api.Usage)
	if len(n.held.list()) != 0 {
		t.Fatal("it is held")
	}
}
