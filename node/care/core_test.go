package care

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// world is several cores and what they really have. What is to be done takes a while, or fails if
// no reachable peer can give it.
type world struct {
	t     *rapid.T
	now   time.Time
	names []taskstate.PeerID
	up    map[taskstate.PeerID]bool
	since map[taskstate.PeerID]time.Time
	drain map[taskstate.PeerID]bool
	room  map[taskstate.PeerID]int // things
	cores map[taskstate.PeerID]*Core
	pins  map[taskstate.PeerID]map[taskstate.TaskID]bool
	known []FileSet
	queue []job
	asks  int
}

type job struct {
	peer taskstate.PeerID
	do   Action
	at   time.Time
}

func newWorld(t *rapid.T, n int) *world {
	w := &world{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), up: map[taskstate.PeerID]bool{}, since: map[taskstate.PeerID]time.Time{},
		drain: map[taskstate.PeerID]bool{}, room: map[taskstate.PeerID]int{}, cores: map[taskstate.PeerID]*Core{}, pins: map[taskstate.PeerID]map[taskstate.TaskID]bool{},
	}
	for i := range n {
		id := taskstate.PeerID(fmt.Sprintf("p%d", i))
		w.names = append(w.names, id)
		w.up[id], w.since[id], w.room[id] = true, w.now, 1000
		w.pins[id] = map[taskstate.TaskID]bool{}
		w.cores[id] = NewCore(id, w.now)
	}
	w.see()
	return w
}

func (w *world) begin(peer taskstate.PeerID, dos []Action) {
	for _, d := range dos {
		w.queue = append(w.queue, job{peer, d, w.now.Add(time.Second)})
	}
}

func (w *world) see() {
	for _, id := range w.names {
		if !w.up[id] {
			continue
		}
		peers := map[taskstate.PeerID]Peer{}
		for _, o := range w.names {
			peers[o] = Peer{Here: w.up[o], Since: w.since[o], Drained: w.drain[o]}
		}
		w.begin(id, w.cores[id].Sees(peers, w.now))
	}
}

// start gives a peer what it finds when it starts.
func (w *world) start(id taskstate.PeerID) {
	c := NewCore(id, w.now)
	w.cores[id] = c
	held := map[taskstate.TaskID]PinState{}
	for task := range w.pins[id] {
		held[task] = ForGood
	}
	w.begin(id, c.Holds(held, w.now))
	w.begin(id, c.Keep(w.known, w.now))
}

func (w *world) turn(id taskstate.PeerID, up bool) {
	if w.up[id] == up {
		return
	}
	w.up[id], w.since[id] = up, w.now
	w.queue = slices.DeleteFunc(w.queue, func(j job) bool { return j.peer == id })
	if up {
		w.start(id)
	}
	w.see()
}

func (w *world) fits(id taskstate.PeerID) bool { return len(w.pins[id]) < w.room[id] }

func (w *world) has(task taskstate.TaskID) (who []taskstate.PeerID) {
	for _, id := range w.names {
		if w.up[id] && w.pins[id][task] {
			who = append(who, id)
		}
	}
	return who
}

func (w *world) carry(j job) Outcome {
	task := j.do.Thing.ID
	switch j.do.Kind {
	case Bring, BringSmall:
		switch who := w.has(task); {
		case w.pins[j.peer][task]:
		case len(who) == 0:
			return Failed
		case !w.fits(j.peer):
			return NoRoom
		}
		w.pins[j.peer][task] = true
	case Drop:
		delete(w.pins[j.peer], task)
	case Ask:
		w.asks++
		p := j.do.Peer
		switch {
		case p == j.peer || !w.pins[j.peer][task]:
			w.t.Fatalf("%s asks %s to keep %v", j.peer, p, task)
		case !w.up[p]:
			return Failed
		case !w.pins[p][task] && !w.fits(p):
			return NoRoom
		case !w.pins[p][task]:
			w.pins[p][task] = true
			w.begin(p, w.cores[p].Holds(w.held(p), w.now))
		}
	case Tell:
		i := slices.IndexFunc(w.known, func(x FileSet) bool { return x.ID == task })
		if i < 0 {
			return Failed
		}
		s := *w.known[i].Saved
		s.Keepers = slices.DeleteFunc(slices.Clone(s.Keepers), func(p taskstate.PeerID) bool { return slices.Contains(j.do.Lost, p) })
		if slices.Contains(s.Keepers, j.peer) || !w.pins[j.peer][task] {
			w.t.Fatalf("%s tells that it keeps %v, keepers %v", j.peer, task, s.Keepers)
		}
		s.Keepers = append(s.Keepers, j.peer)
		w.decided(i, &s)
	case Lose:
		i := slices.IndexFunc(w.known, func(x FileSet) bool { return x.ID == task })
		if i < 0 {
			return Failed
		}
		s := *w.known[i].Saved
		if !slices.Contains(s.Keepers, j.peer) || w.pins[j.peer][task] {
			w.t.Fatalf("%s tells that it has lost %v, keepers %v", j.peer, task, s.Keepers)
		}
		s.Keepers = slices.DeleteFunc(slices.Clone(s.Keepers), func(p taskstate.PeerID) bool { return p == j.peer })
		w.decided(i, &s)
	}
	return OK
}

// decided is that the ledger says something else of a thing.
func (w *world) decided(i int, s *taskstate.Saved) {
	w.known[i].Saved = s
	x := w.known[i]
	for _, id := range w.names {
		if c := w.cores[id]; w.up[id] && (c.things[x.ID] != nil || x.Owner == id || slices.Contains(s.Keepers, id)) {
			w.begin(id, c.Keep([]FileSet{x}, w.now))
		}
	}
}

func (w *world) held(id taskstate.PeerID) map[taskstate.TaskID]PinState {
	held := map[taskstate.TaskID]PinState{}
	for task := range w.pins[id] {
		held[task] = ForGood
	}
	return held
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(time.Second)
		due := slices.DeleteFunc(slices.Clone(w.queue), func(j job) bool { return j.at.After(w.now) })
		w.queue = slices.DeleteFunc(w.queue, func(j job) bool { return !j.at.After(w.now) })
		for _, j := range due {
			if w.up[j.peer] {
				w.begin(j.peer, w.cores[j.peer].Done(j.do, w.carry(j), w.now))
			}
		}
		for _, id := range w.names {
			if at := w.cores[id].Next(); w.up[id] && !at.IsZero() && !at.After(w.now) {
				w.begin(id, w.cores[id].Tick(w.now))
			}
		}
	}
	running := map[taskstate.PeerID][kinds]int{}
	for _, j := range w.queue {
		r := running[j.peer]
		r[j.do.Kind]++
		running[j.peer] = r
		if r[j.do.Kind] > atOnce[j.do.Kind] {
			w.t.Fatalf("%s does %d of %d at once", j.peer, r[j.do.Kind], j.do.Kind)
		}
	}
}

// left is an end that the ledger has.
func (w *world) left(n int, owner taskstate.PeerID, keep int, keepers ...taskstate.PeerID) taskstate.TaskID {
	x := FileSet{
		ID: taskstate.Task("job", n, 1), Order: uint64(n), Owner: owner,
		Saved: &taskstate.Saved{Root: piece.Sum([]byte{byte(n)}), Bytes: 100, Keepers: keepers, Keep: keep},
	}
	for _, k := range keepers {
		w.pins[k][x.ID] = true
	}
	w.known = append(w.known, x)
	for _, id := range w.names {
		if w.up[id] {
			w.begin(id, w.cores[id].Holds(w.held(id), w.now))
			w.begin(id, w.cores[id].Keep([]FileSet{x}, w.now))
		}
	}
	return x.ID
}

// However peers come and go, what somebody who is here has is there as often as it is to be, once
// nobody has come or gone for long enough.
func TestCopiesThatAreMissingAreMadeAndWhatIsForgottenGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(2, 5).Draw(t, "peers"))
		peer := rapid.SampledFrom(w.names)
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				maker := peer.Draw(t, "maker")
				if !w.up[maker] {
					continue
				}
				keepers := []taskstate.PeerID{maker}
				if k := peer.Draw(t, "keeper"); w.up[k] && k != maker {
					keepers = append(keepers, k)
				}
				w.left(i+1, peer.Draw(t, "owner"), rapid.IntRange(1, 3).Draw(t, "keep"), keepers...)
			case 2:
				w.turn(peer.Draw(t, "who"), rapid.Bool().Draw(t, "up"))
			case 3:
				id := peer.Draw(t, "who")
				w.drain[id] = !w.drain[id]
				w.see()
			case 4:
				w.pass(time.Duration(rapid.IntRange(1, 1200).Draw(t, "seconds")) * time.Second)
			case 5: // it starts with a new disk, which may have no room
				id := peer.Draw(t, "whose disk")
				w.turn(id, false)
				clear(w.pins[id])
				if rapid.Bool().Draw(t, "no room") {
					w.room[id] = 0
				}
				w.turn(id, true)
			}
		}
		w.pass(LostAfter + 3*mostPause)
		for _, x := range w.known {
			for _, id := range w.has(x.ID) {
				if !slices.Contains(x.Saved.Keepers, id) {
					t.Errorf("nobody knows that %s keeps %v", id, x.ID)
				}
			}
			for _, id := range x.Saved.Keepers {
				if w.up[id] && !w.pins[id][x.ID] {
					t.Errorf("%s is counted as a keeper of %v, which it does not have", id, x.ID)
				}
			}
		}
		stays := slices.DeleteFunc(slices.Clone(w.names), func(id taskstate.PeerID) bool { return !w.up[id] || w.drain[id] })
		for _, x := range w.known {
			who := w.has(x.ID)
			if len(who) == 0 {
				continue
			}
			who = slices.DeleteFunc(who, func(id taskstate.PeerID) bool { return w.drain[id] })
			could := slices.DeleteFunc(slices.Clone(stays), func(id taskstate.PeerID) bool { return w.room[id] == 0 && !w.pins[id][x.ID] })
			if len(who) < min(x.copies(), len(could)) {
				t.Errorf("%v has %d copies that count, of %d that could be; keepers %v, up %v, drained %v, has %v", x.ID, len(who), min(x.copies(), len(could)), x.Saved.Keepers, w.up, w.drain, w.has(x.ID))
			}
			if x.copies() > 1 && w.up[x.Owner] && w.room[x.Owner] > 0 && !w.pins[x.Owner][x.ID] {
				t.Errorf("%v is not at %s, which submitted it", x.ID, x.Owner)
			}
		}
		full := slices.ContainsFunc(w.names, func(id taskstate.PeerID) bool { return w.room[id] == 0 }) // it is tried now and then
		if len(w.queue) > 0 && !full {
			t.Errorf("there is always something to do: %+v", w.queue[0])
		}
		before := w.asks
		w.pass(time.Hour)
		if w.asks != before && !full {
			t.Errorf("%d are asked though nothing changes", w.asks-before)
		}
		for _, id := range w.names {
			if !w.up[id] {
				continue
			}
			var all []taskstate.TaskID
			for _, x := range w.known {
				all = append(all, x.ID)
			}
			w.begin(id, w.cores[id].Forget(all, false, w.now))
		}
		w.known = nil
		w.pass(time.Minute)
		for _, id := range w.names {
			if w.up[id] && (len(w.pins[id]) > 0 || len(w.cores[id].things) > 0) {
				t.Errorf("%s still has %v", id, slices.Collect(maps.Keys(w.pins[id])))
			}
		}
	})
}

// Cases 25 and 26, what goes when there is little room: what has come home and is kept often
// enough.
func TestOnlyCopiesThatAreNotNeededGoWhereRoomIsShort(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for why, x := range map[string]struct {
		owner   taskstate.PeerID
		keepers []taskstate.PeerID
		away    taskstate.PeerID
		want    Kind
	}{
		"home, and enough others":           {owner: "home", keepers: []taskstate.PeerID{"maker", "me", "home"}, want: Release},
		"not home":                          {owner: "home", keepers: []taskstate.PeerID{"maker", "me", "other"}},
		"home, and nobody else":             {owner: "home", keepers: []taskstate.PeerID{"home", "me"}},
		"home, and the other one is away":   {owner: "home", keepers: []taskstate.PeerID{"maker", "me", "home"}, away: "maker"},
		"its submitter has it, and is away": {owner: "home", keepers: []taskstate.PeerID{"maker", "other", "me", "home"}, away: "home"},
		"this is its home":                  {owner: "me", keepers: []taskstate.PeerID{"maker", "me", "home"}},
	} {
		c := NewCore("me", now)
		peers := map[taskstate.PeerID]Peer{}
		for _, id := range []taskstate.PeerID{"me", "maker", "home", "other"} {
			peers[id] = Peer{Here: id != x.away, Since: now}
		}
		c.Sees(peers, now)
		id := taskstate.Task("job", 1, 1)
		c.Holds(map[taskstate.TaskID]PinState{id: ForGood}, now)
		if dos := c.Keep([]FileSet{{ID: id, Owner: x.owner, Saved: &taskstate.Saved{Root: piece.Root{1}, Keepers: x.keepers, Keep: 2}}}, now); len(dos) > 0 {
			t.Errorf("%s: with room, %+v", why, dos)
		}
		dos := c.Tight(true, now)
		if len(dos) > 1 || len(dos) == 1 != (x.want == Release) || len(dos) == 1 && dos[0].Kind != x.want {
			t.Errorf("%s: %+v", why, dos)
		}
		if len(dos) == 1 {
			if more := c.Done(dos[0], OK, now); len(more) > 0 {
				t.Errorf("%s: after it is gone: %+v", why, more)
			}
			if more := c.Tick(now.Add(time.Hour)); len(more) > 0 || !c.Next().IsZero() {
				t.Errorf("%s: an hour after it is gone: %+v", why, more)
			}
		}
	}
}

func TestAHolderWhoIsNotTheFirstWaitsForTheFirstForAWhileOnly(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewCore("p2", now)
	id := taskstate.TaskID{Job: "j", Slot: 1, Attempt: 1}
	c.Holds(map[taskstate.TaskID]PinState{id: ForGood}, now)
	here := Peer{Here: true, Since: now}
	asked := c.Sees(map[taskstate.PeerID]Peer{"p1": here, "p2": here, "p3": here}, now)
	keepers := []taskstate.PeerID{"p1", "p2", "gone"}
	asked = append(asked, c.Keep([]FileSet{{ID: id, Owner: "p1", Saved: &taskstate.Saved{Root: piece.Root{1}, Keep: 3, Keepers: keepers}}}, now)...)
	if len(asked) > 0 || !c.Next().Equal(now.Add(LostAfter)) {
		t.Fatalf("at once: %+v, next at %v", asked, c.Next())
	}
	if asked = c.Tick(now.Add(LostAfter)); len(asked) != 1 || asked[0].Kind != Ask || asked[0].Peer != "p3" {
		t.Fatalf("%+v", asked)
	}
}

func TestTheFirstOfThoseWhoKeepSomethingTellsOnceThatAnotherHasLeft(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	here, id := Peer{Here: true, Since: now}, taskstate.Task("j", 1, 1)
	keeps := func(who ...taskstate.PeerID) []FileSet {
		return []FileSet{{ID: id, Owner: "p1", Saved: &taskstate.Saved{Root: piece.Root{1}, Bytes: 1, Keep: 1, Keepers: who}}}
	}
	for self, tells := range map[taskstate.PeerID]bool{"p1": true, "p2": false} {
		c := NewCore(self, now)
		c.Holds(map[taskstate.TaskID]PinState{id: ForGood}, now)
		dos := c.Sees(map[taskstate.PeerID]Peer{"p1": here, "p2": here, "away": {Since: now}, "left": here}, now)
		dos = append(dos, c.Keep(keeps("left", "p1", "away", "p2"), now)...)
		if len(dos) > 0 {
			t.Errorf("%s, while it is a member: %+v", self, dos)
		}
		dos = append(c.Sees(map[taskstate.PeerID]Peer{"p1": here, "p2": here, "away": {Since: now}}, now), c.Tick(now.Add(tellEvery))...)
		if tells != (len(dos) == 1) || tells && (dos[0].Kind != Tell || !slices.Equal(dos[0].Lost, []taskstate.PeerID{"left"})) {
			t.Fatalf("%s, after it has left: %+v", self, dos)
		}
		if !tells {
			continue
		}
		if again := append(c.Done(dos[0], OK, now.Add(tellEvery)), c.Tick(now.Add(2*tellEvery))...); len(again) > 0 {
			t.Errorf("%s, before the ledger has said so here: %+v", self, again)
		}
		if again := append(c.Keep(keeps("p1", "away", "p2"), now.Add(2*tellEvery)), c.Tick(now.Add(time.Hour))...); len(again) > 0 {
			t.Errorf("%s, after the ledger has said so: %+v", self, again)
		}
	}
}

func TestAPeerThatSaysItKeepsSomethingIsBelievedUntilTheLedgerShouldKnow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewCore("p1", now)
	id := taskstate.TaskID{Job: "j", Slot: 1, Attempt: 1}
	c.Holds(map[taskstate.TaskID]PinState{id: ForGood}, now)
	here := Peer{Here: true, Since: now}
	c.Sees(map[taskstate.PeerID]Peer{"p1": here, "p2": here}, now)
	asked := c.Keep([]FileSet{{ID: id, Owner: "p1", Saved: &taskstate.Saved{Root: piece.Root{1}, Keep: 2, Keepers: []taskstate.PeerID{"p1"}}}}, now)
	if len(asked) != 1 || asked[0].Peer != "p2" {
		t.Fatalf("%+v", asked)
	}
	if more := c.Done(asked[0], OK, now); len(more) > 0 || !c.Next().Equal(now.Add(LostAfter)) {
		t.Fatalf("%+v, next at %v", more, c.Next())
	}
	if asked = c.Tick(now.Add(LostAfter)); len(asked) != 1 || asked[0].Kind != Ask || asked[0].Peer != "p2" {
		t.Fatalf("it never told, as if it had lost its disk, and is not asked again: %+v", asked)
	}
}

func TestWhatTheLedgerHasNotHeardOfYetIsUnsettledUntilItSays(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := taskstate.TaskID{Job: "j", Slot: 1, Attempt: 1}
	for what, hears := range map[string]func(c *Core){
		"it is kept":         func(c *Core) { c.Keep([]FileSet{{ID: id, Saved: &taskstate.Saved{Root: piece.Root{1}}}}, now) },
		"it is not kept":     func(c *Core) { c.Forget([]taskstate.TaskID{id}, false, now) },
		"it is nobody's now": func(c *Core) { c.Forget([]taskstate.TaskID{id}, true, now) },
	} {
		c := NewCore("p1", now)
		if c.Unsettled() {
			t.Fatal("nothing is here")
		}
		c.Holds(map[taskstate.TaskID]PinState{id: ForGood}, now)
		if !c.Unsettled() {
			t.Fatal("it has just been pinned")
		}
		if hears(c); c.Unsettled() {
			t.Fatal(what)
		}
	}
}

func TestWhatTheLedgerSaysIsHereIsUnsettledWhileItIsLookedFor(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	thing := FileSet{ID: taskstate.TaskID{Job: "j", Slot: 1, Attempt: 1}, Saved: &taskstate.Saved{Root: piece.Root{1}, Keep: 1, Keepers: []taskstate.PeerID{"p1"}}}
	for is, left := range map[Outcome]bool{OK: true, Failed: false} {
		c := NewCore("p1", now)
		do := c.Keep([]FileSet{thing}, now) // before it was looked at what is pinned here
		if len(do) != 1 || !c.Unsettled() {
			t.Fatalf("%+v", do)
		}
		c.Holds(map[taskstate.TaskID]PinState{thing.ID: ForGood}, now)
		if !c.Unsettled() {
			t.Fatal("what is under way is not known yet")
		}
		c.Done(do[0], is, now)
		if c.Unsettled() || len(sole(c, now)) > 0 != left {
			t.Fatalf("%v: %+v is left", is, sole(c, now))
		}
	}
}

func TestWhatIsDamagedWhileSomethingIsDoneAboutItIsBroughtAfterwards(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	id := taskstate.Task("job", 1, 1)
	for first, is := range map[Kind]Outcome{Tell: Failed, Bring: OK, Fasten: OK} {
		c := NewCore("me", now)
		c.Sees(map[taskstate.PeerID]Peer{"me": {Here: true, Since: now}, "other": {Here: true, Since: now}}, now)
		held, keepers := map[Kind]PinState{Tell: ForGood, Bring: NotPinned, Fasten: ForNow}[first], []taskstate.PeerID{"other"}
		if first != Tell {
			keepers = append(keepers, "me")
		}
		c.Holds(map[taskstate.TaskID]PinState{id: held}, now)
		dos := c.Keep([]FileSet{{ID: id, Owner: "me", Saved: &taskstate.Saved{Root: piece.Root{1}, Bytes: 2 * smallBytes, Keepers: keepers, Keep: 2}}}, now)
		for at := now; len(dos) == 0 && at.Before(now.Add(time.Hour)); at = at.Add(time.Second) {
			now, dos = at, c.Tick(at)
		}
		if len(dos) != 1 || dos[0].Kind != first {
			t.Fatalf("%d is not begun: %+v", first, dos)
		}
		c.Holds(map[taskstate.TaskID]PinState{id: Damaged}, now)
		dos = c.Done(dos[0], is, now)
		if len(dos) != 1 || dos[0].Kind != Bring {
			t.Errorf("damaged during %d, then: %+v", first, dos)
			continue
		}
		if dos = c.Done(dos[0], OK, now); slices.ContainsFunc(dos, func(d Action) bool { return d.Kind == Bring }) {
			t.Errorf("it is brought twice: %+v", dos)
		}
	}
}

func TestAKeeperThatCannotHaveItsCopyBackSaysSo(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	here := Peer{Here: true, Since: now}
	for what, x := range map[string]struct {
		held    PinState
		is      Outcome
		keepers []taskstate.PeerID
		after   time.Duration // 0: never
	}{
		"there is no room for it":                {NotPinned, NoRoom, []taskstate.PeerID{"other", "me"}, tellEvery},
		"no reachable peer has it":               {NotPinned, Failed, []taskstate.PeerID{"away", "me"}, tellEvery + gonePause},
		"nobody has it":                          {NotPinned, Failed, []taskstate.PeerID{"me"}, tellEvery + gonePause},
		"it is damaged":                          {Damaged, Failed, []taskstate.PeerID{"away", "me"}, tellEvery + gonePause},
		"it is damaged, and there is no other":   {Damaged, Failed, []taskstate.PeerID{"me"}, 0},
		"it was never counted on, and is wanted": {NotPinned, NoRoom, []taskstate.PeerID{"other"}, 0},
	} {
		c := NewCore("me", now)
		c.Sees(map[taskstate.PeerID]Peer{"me": here, "other": here, "away": {}}, now)
		id := taskstate.Task("job", 1, 1)
		c.Holds(map[taskstate.TaskID]PinState{id: x.held}, now)
		dos := c.Keep([]FileSet{{ID: id, Owner: "me", Saved: &taskstate.Saved{Root: piece.Root{1}, Keepers: x.keepers, Keep: 2}}}, now)
		at := now
		for end := now.Add(time.Hour); at.Before(end) && (len(dos) == 0 || dos[0].Kind != Lose); at = at.Add(time.Second) {
			if len(dos) == 1 {
				dos = c.Done(dos[0], x.is, at)
			} else {
				dos = c.Tick(at)
			}
		}
		switch lost := len(dos) == 1 && dos[0].Kind == Lose; {
		case lost != (x.after > 0), lost && (at.Before(now.Add(x.after-tellEvery)) || at.After(now.Add(x.after+5*time.Second))):
			t.Errorf("%s: it says so %t, after %v", what, lost, at.Sub(now))
		case lost:
			if dos = c.Done(dos[0], OK, at); slices.ContainsFunc(dos, func(d Action) bool { return d.Kind == Lose }) {
				t.Errorf("%s: and once more", what)
			}
		}
	}
}

func TestWhatIsLostForGoodHoldsNothingUp(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := NewCore("p1", now)
	var all []FileSet
	for n := range 40 {
		all = append(all, FileSet{
			ID: taskstate.TaskID{Job: "j", Slot: n + 1, Attempt: 1}, Order: uint64(n), Owner: "p1",
			Saved: &taskstate.Saved{Root: piece.Root{1}, Bytes: 100 << 20, Keep: 2, Keepers: []taskstate.PeerID{"p2"}},
		})
	}
	tried := map[int]bool{}
	for dos := c.Keep(all, now); len(tried) < len(all); {
		if now = now.Add(time.Minute); now.Sub(c.began) > 12*time.Minute {
			t.Fatalf("%d of %d had a turn", len(tried), len(all))
		}
		var next []Action
		for _, d := range dos {
			tried[d.Thing.ID.Slot] = true
			next = append(next, c.Done(d, Failed, now)...) // a minute each, four at once
		}
		dos = next
	}
}
