package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ids(n, salt int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("peer-%d-%d", salt, i))
	}
	return all
}

// hoods are the neighbourhoods of members that know of each other.
func hoods(all []string) map[string]*neighbourhood {
	out := map[string]*neighbourhood{}
	for _, id := range all {
		out[id] = newNeighbourhood(id, slices.DeleteFunc(slices.Clone(all), func(o string) bool { return o == id }), nil)
	}
	return out
}

// steps is how many steps from neighbour to neighbour it takes from the first to all, and how many
// are reached.
func steps(from string, of map[string]*neighbourhood) (n, reached int) {
	seen := map[string]bool{from: true}
	for edge := []string{from}; len(edge) > 0; n++ {
		var next []string
		for _, id := range edge {
			for _, o := range of[id].near {
				if !seen[o] {
					seen[o] = true
					next = append(next, o)
				}
			}
		}
		edge = next
	}
	return n - 1, len(seen)
}

func TestNeighboursAreEachOthersAndNewsReachesAllInAFewSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "members")
		all := ids(n, rapid.Int().Draw(t, "salt"))
		of := hoods(all)
		for _, a := range all {
			if of[a].has(a) {
				t.Fatal("a member is near itself")
			}
			for _, b := range of[a].near {
				if !of[b].has(a) || !slices.Contains(of[b].near, a) {
					t.Fatalf("%s is near %s, and not the other way round", b, a)
				}
			}
			if least := min(n-1, 2*beside); len(of[a].near) < least {
				t.Fatalf("%d are near of %d", len(of[a].near), n)
			}
		}
		k, reached := steps(all[0], of)
		if reached != n || k > 8 {
			t.Fatalf("%d of %d reached in %d steps", reached, n, k)
		}
	})
}

func TestUpToSixteenMembersAllAreNear(t *testing.T) {
	for n := 1; n <= allNear; n++ {
		for id, h := range hoods(ids(n, 1)) {
			if len(h.near) != n-1 {
				t.Errorf("%d of %d others are near %s", len(h.near), n-1, id)
			}
		}
	}
}

func TestAMemberHasAsManyNeighboursInALargerCluster(t *testing.T) {
	for _, n := range []int{50, 100, 200, 400} {
		sum, most := 0, 0
		for _, h := range hoods(ids(n, 2)) {
			sum, most = sum+len(h.near), max(most, len(h.near))
		}
		if mean := float64(sum) / float64(n); mean < 9 || mean > 14 || most > 30 {
			t.Errorf("of %d members one has %.1f neighbours, at most %d", n, mean, most)
		}
	}
}

// Each change of a neighbourhood is a connection.
func TestANewcomerMakesNoOthersNeighbours(t *testing.T) {
	all := ids(120, 3)
	made := 0
	for n := 60; n < len(all); n++ {
		before, after := hoods(all[:n]), hoods(all[:n+1])
		for _, id := range all[:n] {
			for _, o := range after[id].near {
				if o != all[n] && !before[id].has(o) {
					made++
				}
			}
		}
	}
	if made > 0 {
		t.Errorf("%d pairs of 60 newcomers' elders became neighbours", made)
	}
}

// A peer that is not a member yet is near those it will be near.
func TestANewcomerIsNearBeforeItIsAMember(t *testing.T) {
	all := ids(80, 4)
	before, after := hoods(all[:79]), hoods(all)
	missed := 0
	for _, id := range all[:79] {
		if after[id].has(all[79]) && !before[id].has(all[79]) {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d do not see that it will be near", missed)
	}
}

// What voters wait for each other grows with the round trips between them.
func TestWhoDecidesTogetherIsNear(t *testing.T) {
	all := ids(100, 5)
	deciders := all[:5]
	for _, id := range deciders {
		n := newNeighbours(&Membership{self: id})
		n.update(&table{self: id, entries: alive(id, all[1:])})
		n.decide(deciders)
		for _, o := range deciders {
			if o != id && (!n.has(o) || o != all[0] && !slices.Contains(n.now().near, o)) {
				t.Errorf("%s is not near %s", o, id)
			}
		}
		n.update(&table{self: id, entries: alive(id, all)})
		if !slices.Contains(n.now().near, deciders[(slices.Index(deciders, id)+1)%len(deciders)]) {
			t.Error("a change of the members makes it forget who decides")
		}
	}
	n := newNeighbours(&Membership{self: all[50]})
	n.update(&table{self: all[50], entries: alive(all[50], all)})
	before := len(n.now().near)
	if n.decide(deciders); len(n.now().near) != before {
		t.Error("who has no vote is near because of others' votes")
	}
}

func alive(self string, ids []string) map[string]*entry {
	out := map[string]*entry{}
	for _, id := range ids {
		out[id] = &entry{gossip: Alive}
	}
	delete(out, self)
	return out
}

func TestALargerClusterTellsNewsLessOftenAndOneWithoutTimeEvenLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few, more := rapid.IntRange(0, 200).Draw(t, "others"), rapid.IntRange(0, 100).Draw(t, "more")
		pace := func(others int, strained bool) time.Duration {
			m := &Membership{self: "self", cfg: Config{strained: func() bool { return strained }}}
			n := newNeighbours(m)
			n.hood = newNeighbourhood("self", ids(others, 0), nil)
			return n.slower()
		}
		a, b, busy := pace(few, false), pace(few+more, false), pace(few, true)
		if a < 1 || b < a || busy < a || b > slowest || busy > slowest*weary {
			t.Fatalf("with %d others %d times, %d without time, with %d more %d", few, a, busy, more, b)
		}
		if large := few+1 > allNear; large != (busy > a) || !large && a != 1 {
			t.Fatalf("with %d others %d times, %d without time", few, a, busy)
		}
	})
}

func TestAPeerWithoutTimeDoubtsAMemberOnlyAfterARowOfSilentLooksWithoutASignOfLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		strained := false
		n := newNeighbours(&Membership{self: "self", cfg: Config{strained: func() bool { return strained }}})
		lives, row := uint64(0), 0
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			if rapid.Bool().Draw(t, "lives") {
				lives++
				row = 0
			}
			silent := rapid.IntRange(0, 3).Draw(t, "silent") > 0
			strained = rapid.Bool().Draw(t, "without time")
			if row++; !silent {
				row = 0
			}
			if got, want := n.doubts("p", lives, silent), silent && (!strained || row >= strainedBy); got != want {
				t.Fatalf("after %d silent looks in a row, without time %v: doubted %v", row, strained, got)
			}
		}
		if _, kept := n.silent["p"]; kept != (row > 0) {
			t.Fatalf("after %d silent looks in a row it is kept: %v", row, kept)
		}
	})
}

// Where many start at once, a first dial takes longer than a probe waits.
func TestAMemberThatIsBeingDialledForTheFirstTimeIsNotDoubtedYet(t *testing.T) {
	for _, met := range []bool{false, true} {
		m := quiet(t, gate{"b": true}, func(c *Config) { c.strained = func() bool { return false } })
		m.transport = newTransport(m)
		s := &sender{}
		s.met.Store(met)
		m.transport.senders["b"] = s
		m.intake.known["b"] = signedRecord{}
		m.joined("b", meta{}.encode())
		told := make(chan bool, 1)
		go func() {
			defer close(told)
			select {
			case <-m.transport.packets:
				told <- true
			case <-m.transport.ctx.Done():
			}
		}()
		m.near.lookAfter(t.Context(), "b") // nobody has given m a life, so that no ping goes out
		m.transport.cancel()
		if suspected := <-told; suspected != met {
			t.Errorf("a member that was dialled before (%v) and is silent is suspected: %v", met, suspected)
		}
	}
}
