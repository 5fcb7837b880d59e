package admission_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"

	"pgregory.net/rapid"
)

// seats signs a record, as by would.
func (f *testCluster) seats(by string, index uint64, voters ...string) admission.Seats {
	return f.seatsOf(1, by, index, voters...)
}

func (f *testCluster) seatsOf(generation uint64, by string, index uint64, voters ...string) admission.Seats {
	f.t.Helper()
	c, err := admission.OpenSeats("", f.net.Host(by), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	c.Hold(cluster, 1, 0, []string{by}) // it held a seat before
	c.Hold(cluster, generation, index, voters)
	return c.Now()
}

// chain knows the first of the records, and has been shown the others.
func (f *testCluster) chain(records ...admission.Seats) *admission.SeatChain {
	f.t.Helper()
	c, err := admission.OpenSeats("", nil, memnet.Verify)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := c.Adopt(cluster, records[:1], nil); err != nil {
		f.t.Fatal(err)
	}
	if err := c.Offer(nil, records[1:]...); err != nil {
		f.t.Fatal(err)
	}
	return c
}

func TestWhoHoldsASeatIsProvedBackToWhoHeldOne(t *testing.T) {
	f := newCluster(t)
	one, two := f.seats("a", 1, "a"), f.seats("a", 5, "a", "b", "c")
	three, four := f.seats("b", 9, "b", "c", "d"), f.seats("d", 12, "d", "e", "c")
	forged := four
	forged.Voters = []string{"x"}
	huge := f.seatsOf(1<<64-1, "c", 1, "c")
	elsewhere := f.seats("d", 20, "d")
	elsewhere.Cluster = "another"
	for name, c := range map[string]struct {
		offer []admission.Seats
		index uint64 // that is believed afterwards
		err   error
	}{
		"all of it, last first":           {[]admission.Seats{four, three, two}, 12, nil},
		"the next":                        {[]admission.Seats{two}, 5, nil},
		"a link is missing":               {[]admission.Seats{two, four}, 5, admission.ErrUntrusted},
		"by who holds none":               {[]admission.Seats{f.seats("x", 30, "x")}, 1, admission.ErrUntrusted},
		"by who held one once":            {[]admission.Seats{two, three, four, f.seats("a", 30, "a")}, 12, admission.ErrUntrusted},
		"forged":                          {[]admission.Seats{two, three, forged}, 9, admission.ErrBadSeats},
		"of another cluster":              {[]admission.Seats{elsewhere}, 1, admission.ErrOtherGroup},
		"of a generation nobody can know": {[]admission.Seats{two, huge}, 5, admission.ErrBadSeats},
		"a new ledger, by a holder":       {[]admission.Seats{two, f.seatsOf(2, "b", 3, "b")}, 3, nil},
		"a new ledger, by another":        {[]admission.Seats{two, f.seatsOf(2, "x", 3, "x")}, 5, admission.ErrUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			k := f.chain(one)
			err := k.Offer(nil, c.offer...)
			if got := k.Now().Index; got != c.index || !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("believes index %d, want %d: %v, want %v", got, c.index, err, c.err)
			}
		})
	}
	k := f.chain(one, two, three, four)
	if k.Seated("a") || !k.WasSeated("a") || !k.Seated("e") || k.WasSeated("x") {
		t.Errorf("%+v", k.Now())
	}
	if err := k.Offer(nil, f.seats("a", 7, "a"), f.seats("a", 8, "a"), f.seats("a", 30, "a")); err == nil || k.Now().Index != 12 || len(k.Proof()) != 4 {
		t.Errorf("who held a seat once rewrites what came after: %+v, %v", k.Proof(), err)
	}
	if p := k.ShortProof(8); len(p) != 4 || p[0].Index != 1 || p[3].Index != 12 {
		t.Errorf("%+v", p)
	}
	if p := k.ShortProof(2); len(p) != 2 || p[1].Index != 12 {
		t.Errorf("%+v", p)
	}
}

func TestWhereNobodyDecidesOneWithoutASeatMayBeginAgain(t *testing.T) {
	f := newCluster(t)
	k := f.chain(f.seats("a", 5, "a", "b", "c"))
	again := f.seatsOf(2, "x", 90, "x")
	if err := k.Offer(func(by string) bool { return by == "y" }, again); err == nil || k.Now().Generation != 1 {
		t.Errorf("%+v, %v", k.Now(), err)
	}
	if err := k.Offer(func(by string) bool { return by == "x" }, again); err != nil || !k.Seated("x") || k.Seated("a") {
		t.Errorf("%+v, %v", k.Now(), err)
	}
}

func TestAProofThatCameLateIsTakenOver(t *testing.T) {
	f := newCluster(t)
	one, two, three := f.seats("a", 1, "a"), f.seats("a", 5, "a", "d"), f.seats("d", 9, "d")
	d, err := admission.OpenSeats("", f.net.Host("d"), memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Adopt(cluster, []admission.Seats{one}, nil); err != nil {
		t.Fatal(err)
	}
	d.Hold(cluster, 1, 5, []string{"a", "d"}) // from its own log; it held no seat before, and proves nothing to others by itself
	if len(d.Proof()) != 1 || !d.Seated("d") {
		t.Errorf("%+v", d.Proof())
	}
	if err := d.Offer(nil, two); err != nil || len(d.Proof()) != 2 {
		t.Errorf("%+v, %v", d.Proof(), err)
	}
	d.Hold(cluster, 1, 9, []string{"d"})
	k := f.chain(one)
	if err := k.Offer(nil, d.Proof()...); err != nil || k.Now().Index != three.Index {
		t.Errorf("%+v, %v", k.Now(), err)
	}
}

func TestSeatsAreThereAfterARestart(t *testing.T) {
	f := newCluster(t)
	path := filepath.Join(t.TempDir(), "seats")
	k, err := admission.OpenSeats(path, f.net.Host("a"), memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	k.Assume([]string{"old"})
	k.Hold(cluster, 1, 1, []string{"a"})
	k.Hold(cluster, 1, 4, []string{"a", "b", "c"})
	if err := k.Save(); err != nil {
		t.Fatal(err)
	}
	again, err := admission.OpenSeats(path, nil, memnet.Verify)
	if err != nil || !again.Seated("c") || len(again.Proof()) != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	again.Assume([]string{"x"})
	if again.Seated("x") {
		t.Error("what is known is assumed away")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if bad, err := admission.OpenSeats(path, nil, memnet.Verify); !errors.Is(err, admission.ErrDamaged) || len(bad.Proof()) != 0 || bad.Seated("a") {
		t.Errorf("a damaged file was read: %+v, %v", bad, err)
	}
}

// Whatever is offered in whatever order and pieces: what is believed was signed step by step by
// holders of seats, and it never goes back.
func TestNobodyWithoutASeatHasAnythingToDoWithWhoHoldsOne(t *testing.T) {
	f := newCluster(t)
	people := []string{"a", "b", "c", "d", "x"}
	rapid.Check(t, func(r *rapid.T) {
		k := f.chain(f.seats("a", 1, "a", "b"))
		honest := map[string]bool{"a": true, "b": true} // "x" never got a seat from one that held one
		for range rapid.IntRange(1, 12).Draw(r, "offers") {
			by := rapid.SampledFrom(people).Draw(r, "by")
			to := slices.DeleteFunc(slices.Clone(people), func(p string) bool { return !rapid.Bool().Draw(r, "seat of "+p) || p == "x" && by != "x" })
			if len(to) == 0 {
				continue
			}
			s := f.seatsOf(uint64(rapid.IntRange(1, 3).Draw(r, "generation")), by, uint64(rapid.IntRange(1, 40).Draw(r, "index")), to...)
			before := k.Now()
			_ = k.Offer(nil, s)
			now := k.Now()
			switch {
			case now.Compare(before) < 0:
				r.Fatalf("%+v after %+v", now, before)
			case now.Compare(before) > 0 && !before.Holds(now.By):
				r.Fatalf("%+v was not signed by a holder of %+v", now, before)
			case now.Holds("x") && honest["a"]:
				r.Fatalf("x has a seat: %+v", now)
			}
			for i, p := range k.Proof()[1:] {
				if !k.Proof()[i].Holds(p.By) {
					r.Fatalf("a chain with a gap: %v", fmt.Sprint(k.Proof()))
				}
			}
		}
	})
}
