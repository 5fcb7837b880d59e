package logreplica_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/node/keep"
	. "github.com/coveyproject/covey/node/logreplica"
	"github.com/coveyproject/covey/taskstate"
)

var start = time.Unix(1_800_000_000, 0)

func printed(job string, slot int, bytes int64, failed, fresh bool) Output {
	return Output{Task: taskstate.Task(taskstate.JobID(job), slot, 1), Submitter: "home", Out: bytes, Failed: failed, Fresh: fresh}
}

func seeing(t interface{ Helper() }, all ...Output) *Core {
	t.Helper()
	c := NewCore("self")
	c.Sees(map[taskstate.PeerID]care.Peer{"self": {Here: true}, "home": {Here: true}, "other": {Here: true}, "guest": {Here: true, Blind: true}}, start)
	c.Add(all)
	return c
}

func TestOutputGoesToThePeerThatSubmittedTheJobFailedTasksAndSmallOutputFirst(t *testing.T) {
	c := seeing(t, printed("job", 1, 5000, false, true), printed("job", 2, 10, false, true), printed("job", 3, 9000, true, true), printed("job", 4, 1<<20, true, true))
	b, ok := c.Next(false, start)
	if !ok || b.Peer != "home" || b.Offer || len(b.Tasks) != 3 || b.Tasks[0].Slot != 3 || b.Tasks[1].Slot != 2 || b.Tasks[2].Slot != 1 {
		t.Errorf("%+v", b)
	}
	if large, ok := c.Next(true, start); !ok || len(large.Tasks) != 1 || large.Tasks[0].Slot != 4 {
		t.Errorf("in the other lane: %+v", large)
	}
	c.Done(b, nil, nil, "home", start)
	if s := c.Sole(""); s.Tasks() != 1 || s.Jobs[0].Bytes != 1<<20 {
		t.Errorf("kept once: %+v", s)
	}
}

func TestWhereTheSubmitterIsAwayAnotherPeerThatMayReadKeepsIt(t *testing.T) {
	c := seeing(t, printed("job", 1, 10, false, true))
	c.Sees(map[taskstate.PeerID]care.Peer{"self": {Here: true}, "home": {Since: start}, "other": {Here: true}, "guest": {Here: true, Blind: true}}, start)
	b, ok := c.Next(false, start)
	if !ok || b.Peer != "other" {
		t.Fatalf("%+v", b)
	}
	c.Done(b, nil, &keep.Refused{Code: keep.CodeNone}, "other", start)
	if b, ok := c.Next(false, start); ok {
		t.Errorf("then %s is asked", b.Peer)
	}
	if s := c.Sole("job"); !c.Settled() || s.Tasks() != 1 || s.Jobs[0].Why != "other: it stores nothing for others" {
		t.Errorf("kept once: %+v", s)
	}
	c.Sees(map[taskstate.PeerID]care.Peer{"self": {Here: true}, "home": {Here: true}, "other": {Here: true}}, start)
	if b, ok := c.Next(false, start); !ok || b.Peer != "home" {
		t.Errorf("when the submitter is back: %+v", b)
	}
}

func TestWhatMayBeKeptAlreadyIsOfferedBeforeItIsSent(t *testing.T) {
	c := seeing(t, printed("job", 1, 10, false, false), printed("job", 2, 10, false, false))
	for _, peer := range []taskstate.PeerID{"home", "other"} {
		b, ok := c.Next(false, start)
		if !ok || b.Peer != peer || !b.Offer {
			t.Fatalf("%+v", b)
		}
		at := slices.IndexFunc(b.Tasks, func(p keep.Printed) bool { return p.Slot == 1 })
		c.Done(b, []int{at}, nil, peer, start) // the other one is there
	}
	if b, ok := c.Next(false, start); !ok || b.Peer != "home" || b.Offer || len(b.Tasks) != 1 || b.Tasks[0].Slot != 1 {
		t.Errorf("%+v", b)
	}
}

// What was sent before a peer is about to go may not be on the keeper's disk yet.
func TestALeavingPeerTakesNoCopyForSafeThatWasNotFlushed(t *testing.T) {
	c := seeing(t, printed("job", 1, 10, false, true))
	b, _ := c.Next(false, start)
	c.Leave(true)
	c.Add([]Output{printed("job", 1, 10, false, false)})
	c.Done(b, nil, nil, "home", start)
	if c.Settled() || c.Sole("").Tasks() != 1 {
		t.Fatalf("kept once: %+v", c.Sole(""))
	}
	if b, ok := c.Next(false, start); !ok || !b.Flush {
		t.Errorf("then %+v", b)
	}
}

// Whoever comes, goes, refuses or lies: no output goes to a peer that may not read it or is not
// here, nor back to this one; nothing is given up while a peer would take it, and what one has said
// that it keeps is no more said to be kept once.
func TestOutputComesToAPeerThatMayReadItAndToNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []taskstate.PeerID{"home", "b", "c", "d"}
		now, c := start, NewCore("self")
		peers := map[taskstate.PeerID]care.Peer{}
		sees := func() {
			peers = map[taskstate.PeerID]care.Peer{"self": {Here: true}}
			for _, p := range names {
				if rapid.IntRange(0, 4).Draw(t, "member") > 0 {
					peers[p] = care.Peer{Here: rapid.Bool().Draw(t, "here"), Since: now, Drained: rapid.IntRange(0, 3).Draw(t, "drained") == 0, Blind: rapid.Bool().Draw(t, "blind")}
				}
			}
			c.Sees(peers, now)
		}
		may := func(p taskstate.PeerID) bool {
			x := peers[p]
			return p != "self" && x.Here && !x.Drained && (!x.Blind || p == "home")
		}
		sees()
		left := map[taskstate.TaskID]bool{}
		answer := func(b Batch, honest bool) {
			if !may(b.Peer) || len(b.Tasks) == 0 || len(b.Tasks) > keep.MaxPrinted {
				t.Fatalf("%+v with %+v", b, peers)
			}
			var lacks []int
			var err error
			switch outcome := rapid.IntRange(0, 3).Draw(t, "answer"); {
			case honest && b.Offer, !honest && outcome == 0:
				for i := range b.Tasks {
					lacks = append(lacks, i)
				}
			case honest:
			case outcome == 1:
				err = errors.New("gone")
			case outcome == 2:
				err = &keep.Refused{Code: rapid.SampledFrom([]string{keep.CodeNone, keep.CodeBusy, keep.CodeFull}).Draw(t, "code")}
			}
			if err == nil && len(lacks) == 0 {
				for i := range b.Tasks {
					delete(left, b.Task(i))
				}
			}
			c.Done(b, lacks, err, b.Peer, now)
		}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				sees()
			case 1:
				o := printed(fmt.Sprintf("job%d", i%3), i+1, int64(rapid.IntRange(1, 40_000).Draw(t, "bytes")), rapid.Bool().Draw(t, "failed"), rapid.Bool().Draw(t, "fresh"))
				left[o.Task] = true
				c.Add([]Output{o})
			default:
				if b, ok := c.Next(rapid.Bool().Draw(t, "large"), now); ok {
					answer(b, false)
				}
			}
		}
		for i, idle := 0, 0; idle < 3; i++ { // then all are honest, and no refusal counts any more
			b, ok := c.Next(i%2 == 0, now)
			if !ok {
				b, ok = c.Next(i%2 == 1, now)
			}
			switch {
			case i > 200:
				t.Fatal("it goes on for ever")
			case !ok:
				idle, now = idle+1, now.Add(2*time.Hour)
			default:
				answer(b, true)
			}
		}
		if got := c.Sole("").Tasks(); got != len(left) {
			t.Fatalf("%d are kept once, and it says %d", len(left), got)
		}
		if slices.ContainsFunc(names, may) && len(left) > 0 || !c.Settled() {
			t.Fatalf("%d are kept once, with %+v", len(left), peers)
		}
	})
}

// A peer that has just started knows no other, and takes its copy of output for the only one.
func TestWhatHasOneCopyIsLookedAtAnewWhenAPeerComes(t *testing.T) {
	c := NewCore("self")
	here := map[taskstate.PeerID]care.Peer{"self": {Here: true}, "other": {Here: true}}
	if c.Sees(here, start) {
		t.Error("there is nothing to look at")
	}
	c.Add([]Output{printed("job", 1, 10, false, false)})
	here = map[taskstate.PeerID]care.Peer{"self": {Here: true}, "other": {Here: true}, "maker": {Here: true}}
	if !c.Sees(here, start) || c.Sees(here, start) {
		t.Error("it is not looked at, or again and again")
	}
	if !c.Sees(map[taskstate.PeerID]care.Peer{"self": {Here: true}, "maker": {Here: true}}, start.Add(time.Hour)) {
		t.Error("a peer is gone, and it is not looked at")
	}
}
