package admission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"

	"pgregory.net/rapid"
)

// anyEntries draws entries that few peers sign about each other, at few moments, some of them for
// another cluster and some forged.
func (f *testCluster) anyEntries(r *rapid.T) (out []admission.Entry) {
	who := rapid.SampledFrom([]string{"v1", "v2", "v3", "x", "y"})
	for range rapid.IntRange(0, 10).Draw(r, "entries") {
		e := admission.Entry{Cluster: cluster, Peer: who.Draw(r, "whom"), At: rapid.Int64Range(1, 4).Draw(r, "at"), Roles: admission.AllRoles()}
		switch rapid.IntRange(0, 7).Draw(r, "kind") {
		case 0:
			e = removal(e)
		case 1:
			e.Cluster = "other"
		case 2:
			e.Roles = []admission.Role{admission.Worker}
		}
		e = f.sign(who.Draw(r, "by"), e)
		if rapid.IntRange(0, 7).Draw(r, "forged") == 0 {
			e.At++
		}
		out = append(out, e)
	}
	return out
}

// told is all a roster holds.
func told(r *admission.Roster) string {
	var b strings.Builder
	for _, e := range r.All() {
		fmt.Fprintf(&b, "%s by %s at %d %v %v\n", e.Peer, e.By, e.At, e.Roles, e.Removed)
	}
	return b.String()
}

func fresh(r *rapid.T, base ...admission.Entry) *admission.Roster {
	out, err := admission.OpenRoster("", memnet.Verify)
	if err == nil {
		err = out.Trust(base...)
	}
	if err != nil {
		r.Fatal(err)
	}
	return believing(out, seated...)
}

// seated are those whose signatures count in these laws: "v3", "x" and "y" hold no seat, whatever
// roles entries give them.
var seated = []string{"v1", "v2"}

func TestInWhateverOrderAnOfferComesTheRosterIsTheSame(t *testing.T) {
	f := newCluster(t)
	founder := f.sign("v1", admission.Entry{Cluster: cluster, Peer: "v1", At: 1, Roles: admission.AllRoles()})
	rapid.Check(t, func(r *rapid.T) {
		offer := f.anyEntries(r)
		one, other := fresh(r, founder), fresh(r, founder)
		_ = one.Offer(offer...)
		_ = other.Offer(rapid.Permutation(offer).Draw(r, "another order")...)
		if told(one) != told(other) {
			r.Fatalf("of %+v\none has\n%sthe other\n%s", offer, told(one), told(other))
		}
	})
}

func TestOfTwoEntriesOfOneMomentEveryRosterTakesTheSame(t *testing.T) {
	f := newCluster(t)
	founder, second := f.admit("v1", "v1"), f.admit("v1", "v2")
	at := admission.Entry{Cluster: cluster, Peer: "x", At: 9, Roles: admission.AllRoles()}
	a, b := f.sign("v1", at), f.sign("v2", at)
	one, other := f.roster(founder, second), f.roster(founder, second)
	if err := one.Offer(a, b); err != nil {
		t.Fatal(err)
	}
	if err := other.Offer(b, a); err != nil {
		t.Fatal(err)
	}
	if told(one) != told(other) {
		t.Errorf("one has\n%sthe other\n%s", told(one), told(other))
	}
}

// What a roster takes over is what is newer, of its cluster, truly signed, and signed by somebody
// who holds a seat in the ledger, whatever roles others have; and a second time the same offer
// brings nothing.
func TestAnOfferBringsOnlyWhatIsProved(t *testing.T) {
	f := newCluster(t)
	founder := f.sign("v1", admission.Entry{Cluster: cluster, Peer: "v1", At: 1, Roles: admission.AllRoles()})
	rapid.Check(t, func(r *rapid.T) {
		roster, before := fresh(r, founder), map[string]admission.Entry{"v1": founder}
		for range rapid.IntRange(1, 3).Draw(r, "offers") {
			offer := f.anyEntries(r)
			_ = roster.Offer(offer...)
			after := map[string]admission.Entry{}
			for _, e := range roster.All() {
				after[e.Peer] = e
				old, held := before[e.Peer]
				same := held && old.At == e.At && old.By == e.By && old.Removed == e.Removed
				switch {
				case same:
				case held && old.At >= e.At:
					r.Fatalf("%+v took the place of %+v", e, old)
				case e.Cluster != cluster || e.Verify(memnet.Verify) != nil || !slices.Contains(seated, e.By):
					r.Fatalf("%+v is not proved by a seat", e)
				}
			}
			for p := range before {
				if _, ok := after[p]; !ok {
					r.Fatalf("%s was forgotten", p)
				}
			}
			before = after
			was := told(roster)
			if _ = roster.Offer(offer...); told(roster) != was {
				r.Fatalf("a second time the same brings\n%safter\n%s", told(roster), was)
			}
		}
	})
}

func TestAnEntryAtItsLimitsPassesAndBeyondThemDoesNot(t *testing.T) {
	f := newCluster(t)
	long := func(n int) string { return strings.Repeat("x", n) }
	sign := func(e admission.Entry) error {
		if e.Cluster == "" {
			e.Cluster = cluster
		}
		if e.Peer == "" {
			e.Peer = "x"
		}
		_, err := e.Signed(f.net.Host("v1"))
		return err
	}
	for what, c := range map[string]struct {
		at, beyond admission.Entry
		says       string
	}{
		"cluster": {admission.Entry{Cluster: long(128)}, admission.Entry{Cluster: long(129)}, "at most 128 bytes"},
		"peer":    {admission.Entry{Peer: long(128)}, admission.Entry{Peer: long(129)}, "at most 128 bytes"},
		"text":    {admission.Entry{Peer: "é"}, admission.Entry{Peer: "\xff"}, "128 bytes"},
		"name":    {admission.Entry{Name: long(64)}, admission.Entry{Name: long(65)}, "longer than 64 bytes"},
		"named":   {admission.Entry{Name: "é"}, admission.Entry{Name: "\xff"}, "not UTF-8"},
		"ticket":  {admission.Entry{Ticket: long(128)}, admission.Entry{Ticket: long(129)}, "the ticket id is too long"},
		"roles":   {admission.Entry{Roles: admission.AllRoles()}, admission.Entry{Roles: []admission.Role{admission.Worker, admission.Worker}}, `"worker" is listed twice`},
		"known":   {admission.Entry{}, admission.Entry{Roles: []admission.Role{"king"}}, `there is no role "king"`},
	} {
		if err := sign(c.at); err != nil {
			t.Errorf("%s: at its limit: %v", what, err)
		}
		if err := sign(c.beyond); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: beyond it: %v, want %q", what, err, c.says)
		}
	}
}

func TestASecretIsReadAsItIsSpelt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		secret := rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(r, "secret")
		spelt := admission.SecretText(secret)
		if rapid.Bool().Draw(r, "shouted") {
			spelt = " " + strings.ToUpper(spelt) + "\n"
		}
		got, err := admission.ParseSecret(spelt)
		if fits := len(secret) >= 16 && len(secret) <= 20; fits != (err == nil) || fits && !slices.Equal(got, secret) {
			r.Fatalf("%x is spelt %q and read as %x, %v", secret, spelt, got, err)
		}
	})
}
