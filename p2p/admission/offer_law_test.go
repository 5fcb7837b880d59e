package admission_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"covey/p2p/admission"
	"covey/p2p/memnet"

	"pgregory.net/rapid"
)

// anyEntries draws signed entries among a few peers, with times that repeat: some contradict each other, some prove each other.
func (f *flock) anyEntries(t *rapid.T, most int) (all []admission.Entry) {
	names := []string{"v1", "v2", "w", "x", "y"}
	for range rapid.IntRange(0, most).Draw(t, "entries") {
		e := admission.Entry{
			Cluster: cluster, Peer: rapid.SampledFrom(names).Draw(t, "peer"), At: int64(rapid.IntRange(3, 4).Draw(t, "at")),
			Removed: rapid.IntRange(0, 3).Draw(t, "removed") == 0, Roles: admission.AllRoles(),
		}
		if rapid.IntRange(0, 3).Draw(t, "worker") == 0 {
			e.Roles = []admission.Role{admission.Worker}
		}
		e = f.sign(rapid.SampledFrom(append(names, "stranger")).Draw(t, "by"), e)
		if rapid.IntRange(0, 15).Draw(t, "forged") == 0 {
			e.Name = "forged"
		}
		all = append(all, e)
	}
	return all
}

// What an offer leaves behind depends on what is in it and not on its order; nothing in it goes back in time or stands on nobody's word; and once taken
// over it teaches nothing more.
func TestAnOfferMeansTheSameInEveryOrderAndProvesAllItChanges(t *testing.T) {
	f := newFlock(t)
	base := []admission.Entry{f.admit("v1", "v1"), f.admit("v1", "v2")}
	rapid.Check(t, func(t *rapid.T) {
		offer := f.anyEntries(t, 12)
		take := func(offer []admission.Entry) (*admission.Roster, error) {
			r, err := admission.OpenRoster("", memnet.Verify)
			if err == nil {
				err = r.Trust(base...)
			}
			if err != nil {
				t.Fatal(err)
			}
			return r, r.Offer(offer...)
		}
		r, err := take(offer)
		other, err2 := take(rapid.Permutation(offer).Draw(t, "order"))
		if !reflect.DeepEqual(r.All(), other.All()) || (err == nil) != (err2 == nil) {
			t.Fatalf("it leaves %+v (%v)\nin another order %+v (%v)", r.All(), err, other.All(), err2)
		}
		for _, e := range r.All() {
			old := slices.ContainsFunc(base, func(b admission.Entry) bool { return reflect.DeepEqual(b, e) })
			vouched := e.By == "v1" || e.By == "v2" || slices.ContainsFunc(offer, func(o admission.Entry) bool { return o.Peer == e.By && o.Has(admission.Voter) })
			if !old && (e.Verify(memnet.Verify) != nil || !vouched || e.At < 3) {
				t.Fatalf("%+v was taken over", e)
			}
		}
		before := r.All()
		if _ = r.Offer(offer...); !reflect.DeepEqual(r.All(), before) {
			t.Fatalf("offered again it leaves %+v, before %+v", r.All(), before)
		}
	})
}

// largest is an entry at all its limits.
func (f *flock) largest(n int) admission.Entry {
	wide := func(prefix string, size int) string { return prefix + strings.Repeat("x", size-len(prefix)) }
	return admission.Entry{
		Cluster: wide("", 128), Peer: wide(fmt.Sprint("peer", n), 128), Name: wide("", 64), Ticket: wide("", 128), By: wide("by", 128),
		Roles: admission.AllRoles(), At: 1 << 60, Removed: true, Sig: make([]byte, 256),
	}
}

func TestTheLargestRosterThereMayBeIsThereAfterARestart(t *testing.T) {
	f := newFlock(t)
	path := filepath.Join(t.TempDir(), "roster")
	r, err := admission.OpenRoster(path, memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	var all []admission.Entry
	for n := range admission.MaxRoster {
		all = append(all, f.largest(n))
	}
	if err := r.Trust(all...); err != nil {
		t.Fatal(err)
	}
	again, err := admission.OpenRoster(path, memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(again.All()); n != admission.MaxRoster {
		t.Errorf("%d entries of %d", n, admission.MaxRoster)
	}
}

func TestARosterThatCannotBeReadIsNotTakenForDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "roster")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for what, path := range map[string]string{"a folder": path, "below a file": filepath.Join(path, "x", "\x00")} {
		if r, err := admission.OpenRoster(path, memnet.Verify); err == nil || r != nil || errors.Is(err, admission.ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it was moved: %v", err)
	}
}

func TestAnEntryThatCannotBeSignedIsNone(t *testing.T) {
	f := newFlock(t)
	gone := f.net.Host("gone")
	for what, x := range map[string]struct {
		entry admission.Entry
		by    admission.Signer
		why   string
	}{
		"no peer":       {admission.Entry{Cluster: cluster}, gone, "required"},
		"a role twice":  {admission.Entry{Cluster: cluster, Peer: "x", Roles: []admission.Role{admission.Worker, admission.Worker}}, gone, "twice"},
		"a long ticket": {admission.Entry{Cluster: cluster, Peer: "x", Ticket: strings.Repeat("t", 129)}, gone, "ticket"},
		"no key":        {admission.Entry{Cluster: cluster, Peer: "x"}, keyless{}, "sign the roster entry of x: no key"},
	} {
		if e, err := x.entry.Signed(x.by); err == nil || !strings.Contains(err.Error(), x.why) {
			t.Errorf("%s: %+v, %v", what, e, err)
		}
	}
}

type keyless struct{}

func (keyless) Self() string                { return "k" }
func (keyless) Sign([]byte) ([]byte, error) { return nil, errors.New("no key") }
