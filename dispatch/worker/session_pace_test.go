package worker

import (
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
)

func TestAWorkerKeepsToAnotherBeatFromTheMomentItHearsOfIt(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin"}
	workerBubble(t, func(r *shellRig) {
		r.pass(1500 * time.Millisecond)
		before := len(robin.beats)
		heard := time.Now()
		robin.say(session.Down{Beat: &session.BeatAnswer{Held: true, Beat: 20_000, Grace: 60_000}})
		r.pass(50 * time.Second)
		beats := robin.beats[before:]
		if len(robin.hellos) != 1 || len(beats) < 3 || len(beats) > 4 {
			t.Fatalf("%d sessions, beats %v after %v", len(robin.hellos), beats, heard)
		}
		if !beats[0].Equal(heard) {
			t.Errorf("the first beat came at %v, not at once at %v", beats[0], heard)
		}
		if d := beats[1].Sub(beats[0]); d < 18*time.Second || d > 22*time.Second {
			t.Errorf("the next one after %v", d)
		}
		// And back, in the middle of a long beat.
		before = len(robin.beats)
		robin.say(session.Down{Beat: &session.BeatAnswer{Held: true, Beat: 200, Grace: 600}})
		r.pass(2 * time.Second)
		if n := len(robin.beats) - before; n < 9 || n > 13 || len(robin.hellos) != 1 {
			t.Errorf("%d beats in 2 s, %d sessions", n, len(robin.hellos))
		}
	}, robin)
}

func TestABeatSaysHowBusyTheMachineIsWhenThatChanges(t *testing.T) {
	robin, marian := &scriptedCoordinator{name: "robin"}, &scriptedCoordinator{name: "marian", term: 2}
	workerBubble(t, func(r *shellRig) {
		r.pass(10 * time.Second)
		if len(robin.loads) != 0 {
			t.Errorf("what is not known is told: %+v", robin.loads)
		}
		r.load.Store(&session.Load{CPU: new(250)})
		r.pass(10 * time.Second)
		r.load.Store(&session.Load{CPU: new(750)})
		r.pass(10 * time.Second)
		if l := robin.loads; len(l) != 2 || *l[0].CPU != 250 || *l[1].CPU != 750 {
			t.Errorf("told %+v", l)
		}
		r.direct("marian", 2)
		r.pass(time.Second)
		if l := marian.loads; len(l) != 1 || *l[0].CPU != 750 {
			t.Errorf("another coordinator is told %+v", l)
		}
	}, robin, marian)
}

func TestAWorkerLeavesASilentCoordinatorAfterTheGraceItWasToldLast(t *testing.T) {
	for _, c := range []struct {
		beat, grace int64
		silence     time.Duration
		sessions    int
	}{
		{4000, 12_000, 8 * time.Second, 1},
		{500, 1000, 1500 * time.Millisecond, 2},
		{0, 1000, 2500 * time.Millisecond, 1}, // makes no sense: as before
		{1000, -1, 2500 * time.Millisecond, 1},
	} {
		robin := &scriptedCoordinator{name: "robin"}
		workerBubble(t, func(r *shellRig) {
			robin.say(session.Down{Beat: &session.BeatAnswer{Held: true, Beat: c.beat, Grace: c.grace}})
			r.pass(100 * time.Millisecond)
			r.net.Cut("robin", benchPeer)
			r.pass(c.silence)
			r.net.Heal()
			r.pass(20 * time.Second)
			if len(robin.hellos) != c.sessions {
				t.Errorf("%+v: hellos at %v", c, robin.at)
			}
		}, robin)
	}
}
