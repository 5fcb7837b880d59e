package node

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/blob"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/copies"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/secrets"
	"github.com/coveyproject/covey/node/stdin"
	"github.com/coveyproject/covey/node/tasklog"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// A peer that was admitted and is in bad hands, here a puppet, against a whole peer.

func TestACallThatAsksForTwoThingsIsJudgedByBoth(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	p := newPuppet(t)
	all[0].admit(p, admission.Worker)
	own := &ledger.Depart{Peer: p.Self()}
	for what, c := range map[string]calls.Call{
		"remove":  {Remove: &ledger.Remove{Peer: all[1].self}},
		"invite":  {Invite: inviteCall(p.Self()).Invite},
		"cancel":  {Cancel: &ledger.Cancel{Job: "aaaaaaaaaa"}},
		"submit":  {Submit: submitCall(p.Self()).Submit},
		"nothing": {},
	} {
		c.From = p.Self()
		if what != "nothing" {
			c.Leave = own
		}
		if r := p.asks(all[0].self, c); r.Error == nil || r.Error.Code != api.Usage {
			t.Errorf("%s: %+v", what, r)
		}
	}
	all[0].sees("one", "two")
	if inv, err := all[0].Invites(timed(t)); err != nil || len(inv.Tickets) != 1 {
		t.Errorf("%+v, %v", inv, err)
	}
}

func TestWhatACallBringsIntoTheLedgerIsChecked(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	l.admit(p, admission.AllRoles()...)
	eventually(t, "the peer's own worker is registered, the last entry that comes by itself", func() (in bool, _ string) {
		l.replica.Read(func(s *ledger.State) { m, _ := s.Member(l.self); in = m.Incarnation != "" })
		return in, ""
	})
	long := strings.Repeat("x", 2000)
	job := func(change func(*taskstate.Job)) calls.Call {
		c := submitCall(p.Self())
		change(c.Submit)
		return c
	}
	invite := func(change func(*ledger.Invite)) calls.Call {
		c := inviteCall(p.Self())
		change(c.Invite)
		return c
	}
	for what, c := range map[string]calls.Call{
		"a path as id":       job(func(j *taskstate.Job) { j.ID = "../../../x" }),
		"no id":              job(func(j *taskstate.Job) { j.ID = "" }),
		"nothing to run":     job(func(j *taskstate.Job) { j.Run.Noop = nil }),
		"negative resources": job(func(j *taskstate.Job) { j.Resources.MilliCPU = -1 }),
		"another's name":     job(func(j *taskstate.Job) { j.Submitter = l.self }),
		"a long reason":      {Cancel: &ledger.Cancel{Job: "aaaaaaaaaa", Reason: long}},
		"a long job id":      {Cancel: &ledger.Cancel{Job: taskstate.JobID(long)}},
		"a long removal":     {Remove: &ledger.Remove{Peer: p.Self(), Reason: long}},
		"a long ticket id":   {Revoke: &ledger.Revoke{ID: long}},
		"a long invite":      invite(func(i *ledger.Invite) { i.ID = long }),
		"a short secret":     invite(func(i *ledger.Invite) { i.Secret = i.Secret[:8] }),
		"an unknown role":    invite(func(i *ledger.Invite) { i.Roles = []admission.Role{"king"} }),
		"negative uses":      invite(func(i *ledger.Invite) { i.Uses = -1 }),
		"a newcomer's name":  {Join: &calls.JoinCall{Peer: "x", Request: admission.JoinRequest{Name: long}}},
	} {
		c.From = p.Self()
		before := l.replica.Applied()
		if r := p.asks(l.self, c); r.Error == nil {
			t.Errorf("%s: %+v", what, r)
		}
		if now := l.replica.Applied(); now != before {
			t.Errorf("%s: the ledger went from %d to %d", what, before, now)
		}
	}
}

// everyProtocol is all that an admitted peer can open.
var everyProtocol = [...]string{
	admission.JoinProtocol, admission.RosterProtocol, calls.Protocol, session.Protocol, digest.Protocol, membership.PacketProtocol,
	membership.SyncProtocol, membership.ProbeProtocol, tasklog.LogsProtocol, quorum.FollowProtocol, quorum.RaftProtocol, quorum.VoterProtocol,
	p2p.HelloProtocol, copies.Protocol, stdin.Protocol, blob.Protocol, keep.Protocol, secrets.Protocol, highwater.Protocol,
}

// It counts the goroutines of the whole process: no other test may run beside it.
func TestGarbageOnEveryProtocolHarmsNobody(t *testing.T) {
	all := clusterOf(t, "one", "two")
	p := newPuppet(t)
	all[0].admit(p, admission.AllRoles()...)
	r := rand.New(rand.NewPCG(7, 7))
	before := goroutines(t, all[0])
	for _, protocol := range everyProtocol {
		for i := range 20 {
			c, err := p.Dial(timed(t), all[0].self, protocol)
			if err != nil {
				continue // refused: as good
			}
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = c.Write(rubbish(t, r, i))
			if i%4 != 0 {
				_ = c.Close() // the others stay open and say nothing more
			} else {
				t.Cleanup(func() { c.Close() })
			}
		}
	}
	for _, l := range all {
		l.outcome(l.submit(noopJob("unharmed", 50, 0)))
	}
	all[0].sees("one", "two")
	_ = p.Close()
	eventually(t, "what it opened is gone", func() (bool, string) {
		now := goroutines(t, all[0])
		return now < before+50, fmt.Sprint(before, " goroutines before, now ", now)
	})
}

func goroutines(t *testing.T, l *living) int {
	t.Helper()
	st, err := l.Stats(timed(t))
	if err != nil {
		t.Fatal(err)
	}
	return st.Goroutines
}

// rubbish is noise, a frame that is announced and does not come, or a frame of something else.
func rubbish(t *testing.T, r *rand.Rand, i int) []byte {
	t.Helper()
	switch i % 4 {
	case 0:
		return binary.BigEndian.AppendUint32(nil, uint32(1+r.IntN(wire.MaxFrame)))
	case 1:
		return binary.BigEndian.AppendUint32(nil, 1<<31+r.Uint32()>>1)
	case 2:
		b, err := wire.Marshal(map[int]any{1: []int{1, 2, 3}, 2: "x", 99: map[string]string{"a": "b"}})
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	}
	b := make([]byte, 1+r.IntN(5000))
	for j := range b {
		b[j] = byte(r.Uint32())
	}
	return b
}

func TestForgedStatusesChangeNothingAndDoNotTravelOn(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, "one", "two")
	one := all[0]
	p := newPuppet(t)
	one.admit(p, admission.AllRoles()...)
	eventually(t, "two admits the puppet, too", func() (bool, string) { return all[1].roster.Admitted(p.Self()), "" })
	topic, err := p.Topic(statusTopic, func(string, []byte) p2p.Acceptance { return p2p.Ignore })
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	if err := p.Connect(timed(t), one.self, nil); err != nil {
		t.Fatal(err)
	}
	id := one.submit(noopJob("long", 1, time.Hour))
	var task api.Task
	for _, l := range all {
		eventually(t, "it runs, as "+l.name+" knows", func() (bool, string) {
			ts, err := l.Tasks(timed(t), id)
			if err != nil || len(ts.Tasks) != 1 {
				return false, fmt.Sprint(err)
			}
			task = ts.Tasks[0]
			return task.State == "running", task.State
		})
	}
	author := one
	if task.Peer != one.self {
		author = all[1]
	}
	end := taskstate.Status{Task: taskstate.Task(taskstate.JobID(id), 1, 1), Seq: 1 << 40, State: taskstate.Failed, Index: 1}
	envelope := func(name, inc string, number uint64, b taskstate.Batch) []byte {
		body, err := taskstate.EncodeBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		env, err := digest.Seal(name, inc, number, body, p.Sign)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := env.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	inc := author.folder.incarnation
	forged := taskstate.Batch{Author: author.self, Incarnation: inc, Number: 1 << 30, Statuses: []taskstate.Status{end}}
	foreign := taskstate.Batch{Author: p.Self(), Incarnation: "p-1", Number: 1, Statuses: []taskstate.Status{end}}
	bad := [][]byte{
		[]byte("noise"), nil,
		envelope(author.self, string(inc), forged.Number, forged), // the victim's name under the forger's signature
		envelope(p.Self(), "p-1", 1, foreign),                     // its own name, another's task
		envelope(p.Self(), "p-1", 7, forged),                      // its own name outside, the victim's inside
	}
	for n := range uint64(2000) { // and a flood of its own, with holes
		b := foreign
		b.Number = 10 + 3*n
		bad = append(bad, envelope(p.Self(), fmt.Sprint("p-", n%20), b.Number, b))
	}
	for _, raw := range bad {
		_ = topic.Publish(timed(t), raw) // it may be told that it publishes too much
		if _, _, err := one.statuses.accept(raw); err == nil && len(raw) < 10 {
			t.Errorf("accepted %q", raw)
		}
	}
	for _, l := range all {
		done := l.submit(noopJob("beside", 20, 0))
		l.outcome(done)
		ts, err := l.Tasks(timed(t), id)
		if err != nil || ts.Tasks[0].State != "running" || ts.Tasks[0].Attempt != 1 {
			t.Errorf("at %s: %+v, %v", l.name, ts, err)
		}
		if m := l.store.Mark(author.self, string(inc)); m.Top >= forged.Number {
			t.Errorf("%s believes a forged number: %+v", l.name, m)
		}
		if _, n := l.store.Size(); n > 20_000 {
			t.Errorf("%s keeps %d envelopes", l.name, n)
		}
		if st, _ := l.Stats(timed(t)); st.Counters["parked"] > 0 {
			t.Errorf("%s parks %d", l.name, st.Counters["parked"])
		}
	}
	if _, err := one.Cancel(timed(t), id); err != nil {
		t.Error(err)
	}
}

func TestReadersThatNeverReadLeaveRoomForTheOthers(t *testing.T) {
	t.Parallel()
	l := alive(t, Config{Name: "one"})
	p := newPuppet(t)
	l.admit(p, admission.AllRoles()...)
	id := l.submit(shellJob("talks", 1, "echo here"))
	l.outcome(id)
	task := taskstate.Task(taskstate.JobID(id), 1, 1)
	for range 300 {
		c, err := p.Dial(timed(t), l.self, tasklog.LogsProtocol)
		if err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		_ = wire.NewWriter(c, 0).Send(tasklog.AllOutput(task, true))
	}
	if got := l.output(id, api.LogQuery{}); got != "here\n" {
		t.Errorf("%q", got)
	}
}
