package admission_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"

	"pgregory.net/rapid"
)

func TestASignedEntryProvesItsSigner(t *testing.T) {
	f := newCluster(t)
	e := f.admit("v1", "x")
	if e.By != "v1" || e.Verify(memnet.Verify) != nil {
		t.Fatalf("%+v does not verify: %v", e, e.Verify(memnet.Verify))
	}
	for what, forge := range map[string]func(*admission.Entry){
		"another peer":    func(e *admission.Entry) { e.Peer = "y" },
		"more roles":      func(e *admission.Entry) { e.Roles = e.Roles[:1] },
		"another time":    func(e *admission.Entry) { e.At++ },
		"another signer":  func(e *admission.Entry) { e.By = "v2" },
		"a tombstone":     func(e *admission.Entry) { e.Removed = true },
		"another cluster": func(e *admission.Entry) { e.Cluster = "other" },
		"no signature":    func(e *admission.Entry) { e.Sig = nil },
		"an unknown role": func(e *admission.Entry) { e.Roles = []admission.Role{"king"} },
		"a long name":     func(e *admission.Entry) { e.Name = strings.Repeat("n", 65) },
		"no peer":         func(e *admission.Entry) { e.Peer = "" },
	} {
		forged := e
		forge(&forged)
		if err := forged.Verify(memnet.Verify); !errors.Is(err, admission.ErrBadEntry) {
			t.Errorf("%s: %v, want ErrBadEntry", what, err)
		}
	}
}

func TestARosterIsThereAfterARestart(t *testing.T) {
	f := newCluster(t)
	path := filepath.Join(t.TempDir(), "roster")
	r, err := admission.OpenRoster(path, memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if r.Cluster() != "" || r.Admitted("v1") {
		t.Fatal("a new roster is not empty")
	}
	if err := r.Trust(f.admit("v1", "v1"), f.admit("v1", "x"), f.admit("v1", "y"), f.remove("v1", "y")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("what is learnt is written before anybody asks for it")
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	again, err := admission.OpenRoster(path, memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if got := peers(again); !slices.Equal(got, []string{"v1", "x"}) || again.Cluster() != cluster || again.Admitted("y") {
		t.Errorf("after reopening: %v of %q", got, again.Cluster())
	}
	if e, ok := again.Get("y"); !ok || !e.Removed || e.Has(admission.Worker) {
		t.Errorf("the removal was forgotten: %+v", e)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".roster-*")); len(left) > 0 {
		t.Errorf("temporary files left: %v", left)
	}
}

func TestADamagedFileIsSetAsideAndSaidSo(t *testing.T) {
	f := newCluster(t)
	path := filepath.Join(t.TempDir(), "roster")
	r, _ := admission.OpenRoster(path, memnet.Verify)
	if err := errors.Join(r.Trust(f.admit("v1", "v1"), f.admit("v1", "x")), r.Flush()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := slices.Clone(whole)
	flipped[len(flipped)-3] ^= 1
	for what, b := range map[string][]byte{"empty": {}, "torn": whole[:len(whole)-9], "short": whole[:5], "flipped": flipped, "foreign": []byte("hello, I am another file of fifty bytes or a bit more")} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := admission.OpenRoster(path, memnet.Verify)
		if !errors.Is(err, admission.ErrDamaged) || !strings.Contains(err.Error(), path+".damaged") || r == nil {
			t.Fatalf("%s: %v, want ErrDamaged beside a usable roster", what, err)
		}
		if len(r.All()) != 0 {
			t.Errorf("%s: something was read: %v", what, peers(r))
		}
		if err := r.Trust(f.admit("v1", "v1")); err != nil {
			t.Errorf("%s: the roster is not usable: %v", what, err)
		}
		if aside, err := os.ReadFile(path + ".damaged"); err != nil || !slices.Equal(aside, b) {
			t.Errorf("%s: what was there is lost: %v", what, err)
		}
	}
}

func TestARosterThatCannotBeSavedIsNotChanged(t *testing.T) {
	f := newCluster(t)
	dir := filepath.Join(t.TempDir(), "gone")
	r, err := admission.OpenRoster(filepath.Join(dir, "roster"), memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Replace(f.admit("v1", "v1")); err == nil || r.Admitted("v1") {
		t.Errorf("got %v; admitted %v: what is not on disk must not be acted on", err, r.Admitted("v1"))
	}
}

func TestWhatTheLedgerSaysCountsBeforeItIsOnDiskAndIsTriedAgain(t *testing.T) {
	f := newCluster(t)
	dir := filepath.Join(t.TempDir(), "gone")
	r, err := admission.OpenRoster(filepath.Join(dir, "roster"), memnet.Verify)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Trust(f.admit("v1", "v1")); err != nil || !r.Admitted("v1") {
		t.Errorf("got %v; admitted %v", err, r.Admitted("v1"))
	}
	if err := r.Flush(); err == nil {
		t.Error("that the roster is not kept goes unsaid")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(); err != nil {
		t.Error(err)
	}
	again, err := admission.OpenRoster(filepath.Join(dir, "roster"), memnet.Verify)
	if err != nil || !again.Admitted("v1") {
		t.Errorf("after reopening: %v, %v", peers(again), err)
	}
}

func TestTheLedgerHasTheLastWord(t *testing.T) {
	f := newCluster(t)
	old := f.remove("v1", "x")
	r := f.roster(f.admit("v1", "v1"), f.admit("v1", "x"))
	if err := r.Trust(old); err != nil || r.Admitted("x") {
		t.Errorf("a removal from the ledger was overruled by a clock: %v", err)
	}
	foreign := f.sign("v1", admission.Entry{Cluster: "other", Peer: "y", At: 99})
	if err := r.Trust(foreign); !errors.Is(err, admission.ErrOtherGroup) || r.Admitted("y") {
		t.Errorf("an entry of another cluster: %v", err)
	}
	if err := r.Replace(foreign); err != nil || r.Cluster() != "other" || !slices.Equal(peers(r), []string{"y"}) {
		t.Errorf("moving to another cluster: %v, %v of %q", err, peers(r), r.Cluster())
	}
}

func TestAnOfferIsProvedByWhoHoldsASeat(t *testing.T) {
	f := newCluster(t)
	base := []admission.Entry{f.admit("v1", "v1"), f.admit("v1", "w", admission.Worker)}
	for name, c := range map[string]struct {
		offer []admission.Entry
		in    []string
		err   error
	}{
		"by a known voter":          {[]admission.Entry{f.admit("v1", "x")}, []string{"v1", "w", "x"}, nil},
		"by a chain, last first":    {[]admission.Entry{f.admit("v3", "x"), f.admit("v2", "v3"), f.admit("v1", "v2")}, []string{"v1", "v2", "v3", "w", "x"}, nil},
		"by a stranger":             {[]admission.Entry{f.admit("z", "x")}, []string{"v1", "w"}, admission.ErrUntrusted},
		"by strangers in a ring":    {[]admission.Entry{f.admit("z", "y"), f.admit("y", "z")}, []string{"v1", "w"}, admission.ErrUntrusted},
		"by itself":                 {[]admission.Entry{f.admit("z", "z")}, []string{"v1", "w"}, admission.ErrUntrusted},
		"by a role without a seat":  {[]admission.Entry{f.admit("v9", "x"), f.admit("v1", "v9")}, []string{"v1", "v9", "w"}, admission.ErrUntrusted},
		"a removal without a seat":  {[]admission.Entry{f.admit("v1", "v9"), f.remove("v9", "w")}, []string{"v1", "v9", "w"}, admission.ErrUntrusted},
		"a removal of no decision":  {[]admission.Entry{f.sign("v1", admission.Entry{Cluster: cluster, Peer: "w", At: 98, Removed: true})}, []string{"v1", "w"}, admission.ErrBadEntry},
		"a removal of no such time": {[]admission.Entry{f.sign("v1", admission.Entry{Cluster: cluster, Peer: "w", At: 98, Removed: true, Index: 5, Term: 1, Generation: 1<<64 - 1})}, []string{"v1", "w"}, admission.ErrBadEntry},
		"by a worker":               {[]admission.Entry{f.admit("w", "x")}, []string{"v1", "w"}, admission.ErrUntrusted},
		"one good, one not":         {[]admission.Entry{f.admit("z", "y"), f.admit("v1", "x")}, []string{"v1", "w", "x"}, admission.ErrUntrusted},
		"a removal":                 {[]admission.Entry{f.remove("v1", "w")}, []string{"v1"}, nil},
		"of another cluster":        {[]admission.Entry{f.sign("v1", admission.Entry{Cluster: "other", Peer: "x", At: 99})}, []string{"v1", "w"}, admission.ErrOtherGroup},
		"forged":                    {[]admission.Entry{{Cluster: cluster, Peer: "x", At: 99, By: "v1", Sig: []byte("sig")}}, []string{"v1", "w"}, admission.ErrBadEntry},
		"nothing new":               {base, []string{"v1", "w"}, nil},
		"a removed voter's protege": {[]admission.Entry{f.admit("v2", "x"), f.remove("v1", "v2"), f.admit("v1", "v2")}, []string{"v1", "v2", "w", "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := f.roster(base...)
			err := r.Offer(c.offer...)
			if !errors.Is(err, c.err) || (c.err == nil && err != nil) {
				t.Errorf("error %v, want %v", err, c.err)
			}
			got := peers(r)
			slices.Sort(got)
			if !slices.Equal(got, c.in) {
				t.Errorf("in are %v, want %v", got, c.in)
			}
		})
	}
}

func TestAnOldEntryDoesNotUndoARemoval(t *testing.T) {
	f := newCluster(t)
	founder, old := f.admit("v1", "v1"), f.admit("v1", "x")
	r := f.roster(founder, old, f.remove("v1", "x"))
	if err := r.Offer(old); err != nil || r.Admitted("x") {
		t.Errorf("a removed peer came back with its old entry: %v", err)
	}
	if err := r.Offer(f.admit("v1", "x")); err != nil || !r.Admitted("x") {
		t.Errorf("a new ticket must let it in again: %v", err)
	}
}

func TestARemovedVoterProvesNothingAnyMore(t *testing.T) {
	f := newCluster(t)
	r := f.roster(f.admit("v1", "v1"), f.admit("v1", "v2"), f.remove("v1", "v2"))
	if err := r.Offer(f.admit("v2", "x")); !errors.Is(err, admission.ErrUntrusted) || r.Admitted("x") {
		t.Errorf("got %v, want ErrUntrusted", err)
	}
}

// What it signed before may be all that leads from a peer that was away to those that decide now.
func TestWhatARemovedVoterSignedBeforeStillLeadsToTheOthers(t *testing.T) {
	f := newCluster(t)
	founder := f.admit("v1", "v1")
	r := f.roster(founder)
	if err := r.Offer(f.admit("v1", "v2"), f.remove("v2", "v1"), f.admit("v2", "x")); err != nil {
		t.Fatal(err)
	}
	if got := peers(r); !slices.Equal(got, []string{"v2", "x"}) {
		t.Errorf("in are %v", got)
	}
	level := f.roster(founder)
	level.Believe(level.Seats(), func() bool { return true }, nil)
	if err := level.Offer(f.remove("v2", "v1"), f.sign("v1", admission.Entry{Cluster: cluster, Peer: "y", At: founder.At, Roles: admission.AllRoles()})); !errors.Is(err, admission.ErrUntrusted) || level.Admitted("y") {
		t.Errorf("where the ledger is known it proves nothing: %v", err)
	}
}

// Where nobody decides, who held a seat once must not remove whom it likes.
func TestWhoGaveItsSeatUpRemovesNobody(t *testing.T) {
	f := newCluster(t)
	in := []admission.Entry{f.admit("a", "a"), f.admit("a", "b"), f.admit("a", "x")}
	tomb := func(by, of string, index uint64) admission.Entry {
		e := removal(f.admit("a", of))
		e.At, e.Index = e.At+1, index
		return f.sign(by, e)
	}
	applied := uint64(0)
	for _, c := range []struct {
		what    string
		tomb    admission.Entry
		applied uint64
		counts  bool
	}{
		{"by one that holds a seat", tomb("b", "x", 12), 12, true},
		{"by one that held one then", tomb("a", "x", 7), 8, true},
		{"by one that had given it up", tomb("a", "x", 12), 8, false},
		{"of a decision that would be known here", tomb("a", "x", 7), 7 + 2000, false},
	} {
		r := f.roster(in...)
		applied = c.applied
		r.Believe(f.chain(f.seats("a", 5, "a", "b"), f.seats("b", 9, "b", "c")), nil, func() (uint64, uint64) { return 1, applied })
		if err := r.Offer(c.tomb); (err == nil) != c.counts || r.Admitted("x") == c.counts {
			t.Errorf("%s: %v, and x is in: %v", c.what, err, r.Admitted("x"))
		}
	}
}

func TestAnEmptyRosterTakesNoOffers(t *testing.T) {
	f := newCluster(t)
	r := f.roster()
	if err := r.Offer(f.admit("v1", "v1")); !errors.Is(err, admission.ErrUntrusted) || len(r.All()) > 0 {
		t.Errorf("got %v, want ErrUntrusted", err)
	}
}

func TestTheOrderOfAnOfferDoesNotMatter(t *testing.T) {
	f := newCluster(t)
	base := []admission.Entry{f.admit("v1", "v1"), f.admit("v1", "v2")}
	offer := []admission.Entry{
		f.admit("v2", "v3"), f.admit("v3", "x"), f.admit("v3", "v4"), f.remove("v1", "v3"),
		f.admit("v4", "y"), f.admit("z", "q"), f.remove("v2", "w"), f.admit("v1", "w"),
	}
	want := ""
	rapid.Check(t, func(t *rapid.T) {
		r, err := admission.OpenRoster("", memnet.Verify)
		if err == nil {
			err = r.Trust(base...)
		}
		if err != nil {
			t.Fatal(err)
		}
		believing(r, "v1", "v2", "v3", "v4")
		_ = r.Offer(rapid.Permutation(offer).Draw(t, "order")...)
		got := strings.Join(peers(r), " ")
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("in are %s, in another order %s", got, want)
		}
	})
}

func TestAChainLeadsToTheFounder(t *testing.T) {
	f := newCluster(t)
	r := f.roster(f.admit("v1", "v1"), f.admit("v1", "v2"), f.admit("v2", "x"))
	var got []string
	for _, e := range r.Chain("x", 8) {
		got = append(got, e.Peer)
	}
	if !slices.Equal(got, []string{"x", "v2", "v1"}) {
		t.Errorf("chain %v", got)
	}
	if len(r.Chain("nobody", 8)) != 0 || len(r.Chain("x", 2)) != 2 {
		t.Error("a chain of nobody, or above its limit")
	}
}
