package membership

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (t *table) verdictOf(id string) (Verdict, time.Time) {
	m, _ := t.view(Member{ID: t.self}).Get(id)
	return m.Verdict, m.Since
}

func TestVerdictsFollowTheRules(t *testing.T) {
	type step func(*table, time.Time)
	join := func(x *table, at time.Time) { x.joined("a", meta{}, at) }
	hear := func(x *table, at time.Time) { x.heard("a", at) }
	gone := func(x *table, at time.Time) { x.gone("a", at, false) }
	ask := func(x *table, at time.Time) { x.gone("a", at, true) }
	miss := func(x *table, at time.Time) { x.missed("a", meta{}, at) }
	suspicion := func(inc uint32) step {
		return func(x *table, at time.Time) { x.rumoured(rumour{suspect: true, node: "a", incarnation: inc}, at) }
	}
	refute := func(inc uint32) step {
		return func(x *table, at time.Time) { x.rumoured(rumour{node: "a", incarnation: inc}, at) }
	}
	claimGone := func(v Verdict) step {
		return func(x *table, at time.Time) {
			if e := x.entries["a"]; e != nil {
				x.claimGone("a", v, e.lives, at)
			}
		}
	}
	for name, c := range map[string]struct {
		steps []step
		want  Verdict
		since int // the step that brought it, from 1
	}{
		"nobody spoke of it":                        {nil, 0, 0},
		"it joined":                                 {[]step{join}, Alive, 1},
		"joining again is the same life":            {[]step{join, join}, Alive, 1},
		"it is suspected":                           {[]step{join, suspicion(1)}, Suspect, 2},
		"a suspicion is repeated":                   {[]step{join, suspicion(1), suspicion(1)}, Suspect, 2},
		"it refutes":                                {[]step{join, suspicion(1), refute(2)}, Alive, 3},
		"an old suspicion comes after the refutal":  {[]step{join, suspicion(1), refute(2), suspicion(1)}, Alive, 3},
		"a suspicion before it was known":           {[]step{suspicion(1)}, 0, 0},
		"heard while suspected":                     {[]step{join, suspicion(1), hear}, Alive, 3},
		"the suspicion is repeated though it spoke": {[]step{join, suspicion(1), hear, suspicion(1)}, Alive, 3},
		"it died":                             {[]step{join, suspicion(1), gone}, Dead, 3},
		"a suspicion about the dead":          {[]step{join, gone, suspicion(1)}, Dead, 2},
		"a packet does not raise the dead":    {[]step{join, gone, hear}, Dead, 2},
		"it comes back":                       {[]step{join, gone, join}, Alive, 3},
		"called dead, and asked":              {[]step{join, hear, ask}, Suspect, 3},
		"asked, and back":                     {[]step{join, ask, hear, join}, Alive, 4},
		"asked in vain":                       {[]step{join, hear, ask, hear, gone}, Dead, 5},
		"asked, and refused on two sides":     {[]step{join, ask, claimGone(Dead), gone}, Dead, 3},
		"refused here":                        {[]step{join, claimGone(Suspect)}, Suspect, 2},
		"refused on two sides":                {[]step{join, claimGone(Suspect), claimGone(Dead)}, Dead, 3},
		"memberlist misses it later":          {[]step{join, claimGone(Dead), suspicion(1), gone}, Dead, 2},
		"a packet clears evidence":            {[]step{join, claimGone(Dead), hear}, Alive, 3},
		"a new life clears evidence":          {[]step{join, claimGone(Dead), join}, Alive, 3},
		"evidence against nobody":             {[]step{claimGone(Dead)}, 0, 0},
		"refuted, but still refused":          {[]step{join, suspicion(1), claimGone(Suspect), refute(2)}, Suspect, 2},
		"in the book and not there":           {[]step{miss}, Dead, 1},
		"a member that is missed is not dead": {[]step{join, miss}, Alive, 1},
		"in the book, then it comes":          {[]step{miss, join}, Alive, 2},
		"in the book, missed again":           {[]step{miss, miss}, Dead, 1},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTable("self")
			for i, s := range c.steps {
				s(x, epoch.Add(time.Duration(i+1)*time.Second))
			}
			v, since := x.verdictOf("a")
			if v != c.want || v != 0 && !since.Equal(epoch.Add(time.Duration(c.since)*time.Second)) {
				t.Errorf("%s since second %.0f, want %s since %d", v, since.Sub(epoch).Seconds(), c.want, c.since)
			}
		})
	}
}

func TestADoubtIsNewOnceAndStandsUntilItIsRefutedWhateverWasHeard(t *testing.T) {
	x := newTable("self")
	first, next := rumour{suspect: true, node: "a", incarnation: 1}, rumour{suspect: true, node: "a", incarnation: 2}
	suspicion := func(r rumour) bool { _, d := x.rumoured(r, epoch); return d }
	if suspicion(first) || x.suspected(first) {
		t.Error("somebody unknown is suspected")
	}
	x.joined("a", meta{}, epoch)
	if !suspicion(first) || suspicion(first) || !x.suspected(first) {
		t.Error("the first suspicion is new, then it is not")
	}
	if x.heard("a", epoch); !x.suspected(first) {
		t.Error("a packet is taken for a refutation")
	}
	if suspicion(rumour{node: "a", incarnation: 2}) || x.suspected(first) {
		t.Error("it is suspected after its refutation")
	}
	if suspicion(first) || !suspicion(next) || x.suspected(first) || !x.suspected(next) {
		t.Error("only the suspicion of its newest life counts")
	}
	if x.gone("a", epoch, false); x.suspected(next) {
		t.Error("the dead are suspected")
	}
	if x.joined("a", meta{}, epoch); x.suspected(next) {
		t.Error("who is here again is suspected")
	}
}

func TestASlowAccusationAfterASignOfLifeIsVoid(t *testing.T) {
	x := newTable("self")
	x.joined("a", meta{}, epoch)
	lives := x.entries["a"].lives
	x.heard("a", epoch)
	if x.claimGone("a", Dead, lives, epoch) {
		t.Error("it lived meanwhile and was claimed gone all the same")
	}
}

// TestTheTableKeepsItsLaws: whatever happens in whatever order, only memberlist or two refusals
// make a peer dead, Since never moves without the verdict, and a new life is alive at once.
func TestTheTableKeepsItsLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := newTable("self")
		now := epoch
		id := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "peer")) }
		type seen struct {
			v     Verdict
			since time.Time
		}
		last := map[string]seen{}
		t.Repeat(map[string]func(*rapid.T){
			"joined": func(t *rapid.T) {
				id := id(t)
				x.joined(id, meta{}, now)
				if v, _ := x.verdictOf(id); v != Alive {
					t.Fatalf("a new life is %s", v)
				}
			},
			"gone": func(t *rapid.T) { x.gone(id(t), now, false) },
			"gone, and asked": func(t *rapid.T) {
				id := id(t)
				if !x.spoke(id, now, 2*time.Second) {
					return
				}
				x.gone(id, now, true)
				if v, _ := x.verdictOf(id); v != Suspect {
					t.Fatalf("who is asked is %s", v)
				}
			},
			"asked in vain": func(t *rapid.T) {
				id := id(t)
				if !x.asked(id) {
					return
				}
				x.gone(id, now, false)
				if v, _ := x.verdictOf(id); v != Dead {
					t.Fatalf("who was asked in vain is %s", v)
				}
			},
			"rumour": func(t *rapid.T) {
				x.rumoured(rumour{rapid.Bool().Draw(t, "suspect"), id(t), rapid.Uint32Range(0, 5).Draw(t, "inc")}, now)
			},
			"heard": func(t *rapid.T) {
				id := id(t)
				_, dead := x.heard(id, now)
				if v, _ := x.verdictOf(id); dead != (v == Dead || v == 0 || x.entries[id].asked) {
					t.Fatalf("heard says dead=%v, the verdict is %s", dead, v)
				}
			},
			"claimGone": func(t *rapid.T) {
				x.claimGone(id(t), rapid.SampledFrom([]Verdict{Suspect, Dead}).Draw(t, "v"), rapid.Uint64Range(0, 3).Draw(t, "lives"), now)
			},
			"missed": func(t *rapid.T) { x.missed(id(t), meta{}, now) },
			"pinged": func(t *rapid.T) { x.pinged(id(t), time.Millisecond) },
			"forget": func(t *rapid.T) { id := id(t); x.forget(id); delete(last, id) },
			"": func(t *rapid.T) {
				for _, m := range x.view(Member{ID: "self", Verdict: Alive}).Members {
					was, ok := last[m.ID]
					if ok && was.v == m.Verdict && !was.since.Equal(m.Since) {
						t.Fatalf("%s is %s as before, but since %s instead of %s", m.ID, m.Verdict, m.Since, was.since)
					}
					last[m.ID] = seen{m.Verdict, m.Since}
				}
				now = now.Add(time.Second)
			},
		})
	})
}

func TestRoundTripsAreSmoothed(t *testing.T) {
	x := newTable("self")
	x.pinged("nobody", time.Second)
	x.joined("a", meta{}, epoch)
	x.pinged("a", 10*time.Millisecond)
	x.pinged("a", 90*time.Millisecond)
	if rtt := x.entries["a"].rtt; rtt != 20*time.Millisecond {
		t.Errorf("after 10 and 90 ms: %s", rtt)
	}
}

func TestAViewIsSortedAndFindsItsMembers(t *testing.T) {
	x := newTable("m")
	for _, id := range []string{"z", "a", "q"} {
		x.joined(id, meta{Name: "n" + id}, epoch)
	}
	x.gone("q", epoch, false)
	v := x.view(Member{ID: "m", Verdict: Alive})
	if got := v.String(); got != "a=alive m=alive q=dead z=alive" {
		t.Error(got)
	}
	if m, ok := v.Get("z"); !ok || m.Name != "nz" {
		t.Errorf("z is %+v", m)
	}
	if _, ok := v.Get("b"); ok || v.Verdict("b") != 0 || v.Verdict("b").String() != "unknown" {
		t.Error("b is known")
	}
	if got := fmt.Sprint(v.Others()); got != "[a z]" {
		t.Errorf("alive others: %s", got)
	}
}

func TestWhoSaidGoodbyeIsToldFromWhoVanishedUntilItIsBack(t *testing.T) {
	tab, now := newTable("me"), time.Unix(100, 0)
	parted := func() bool { m, _ := tab.view(Member{ID: "me"}).Get("p"); return m.Parted }
	tab.parting("p") // nobody knows it
	tab.joined("p", meta{}, now)
	tab.parting("p")
	if parted() {
		t.Error("memberlist has not heard of it")
	}
	tab.gone("p", now, false)
	if !parted() {
		t.Error("it said goodbye")
	}
	tab.joined("p", meta{}, now)
	tab.gone("p", now, false)
	if parted() {
		t.Error("this time it said nothing")
	}
}
