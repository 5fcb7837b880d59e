package admission_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
)

func TestANewcomerIsFasterThanTheNewsOfItsAdmission(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		founder, v2 := f.admit("v1", "v1"), f.admit("v1", "v2")
		x := f.admit("v2", "x", admission.Worker)
		theirs := f.roster(founder) // has heard neither of v2 nor of x
		f.serve("w", nil, theirs)
		mine := f.roster(founder, v2, x)
		if err := admission.Show(t.Context(), f.net.Host("x"), "w", mine); err != nil {
			t.Fatal(err)
		}
		if !theirs.Admitted("x") || !theirs.Admitted("v2") {
			t.Errorf("the other knows %v", peers(theirs))
		}
	})
}

func TestAReturningPeerLearnsWhatItMissed(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		old := []admission.Entry{f.admit("v1", "v1"), f.admit("v1", "x"), f.admit("v1", "w")}
		news := []admission.Entry{f.admit("v1", "v2"), f.admit("v2", "y"), f.remove("v2", "w")}
		f.serve("v2", nil, f.roster(append(slices.Clone(old), news...)...))
		mine := f.roster(old...)
		if err := admission.Show(t.Context(), f.net.Host("x"), "v2", mine); err != nil {
			t.Fatal(err)
		}
		if got := peers(mine); !slices.Equal(got, []string{"v1", "x", "v2", "y"}) {
			t.Errorf("it knows %v", got)
		}
	})
}

func TestARemovedPeerIsShownItsRemovalAndNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		old := []admission.Entry{f.admit("v1", "v1"), f.admit("v1", "x")}
		f.serve("v1", nil, f.roster(append(slices.Clone(old), f.admit("v1", "secret-friend"), f.remove("v1", "x"))...))
		mine := f.roster(old...)
		err := admission.Show(t.Context(), f.net.Host("x"), "v1", mine)
		var no *admission.Refusal
		if !errors.As(err, &no) || no.Code != admission.Refused {
			t.Fatalf("got %v, want refused", err)
		}
		if e, _ := mine.Get("x"); !e.Removed || len(mine.All()) != 2 {
			t.Errorf("it knows %+v", mine.All())
		}
	})
}

func TestAStrangerLearnsNothingFromTheRoster(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		theirs := f.roster(f.admit("v1", "v1"), f.admit("v1", "w"))
		f.serve("v1", nil, theirs)
		type show struct {
			Entries []admission.Entry `cbor:"1,keyasint"`
		}
		for what, entries := range map[string][]admission.Entry{
			"nothing shown":         nil,
			"signed by itself":      {f.admit("z", "z")},
			"somebody else's entry": {f.admit("v1", "y")},
			"too many entries":      slices.Repeat([]admission.Entry{{Peer: "z"}}, 9),
		} {
			raw := f.talk("v1", admission.RosterProtocol, show{entries})
			if bytes.Contains(raw, []byte("v1")) || bytes.Contains(raw, []byte(cluster)) {
				t.Errorf("%s: heard %q", what, raw)
			}
			if theirs.Admitted("z") {
				t.Fatalf("%s: let in", what)
			}
		}
	})
}

func TestAPeerWithoutAnEntryHasNothingToShow(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		err := admission.Show(t.Context(), f.net.Host("x"), "v1", f.roster(f.admit("v1", "v1")))
		if !errors.Is(err, admission.ErrNotAdmitted) || !strings.Contains(err.Error(), "join with a ticket") {
			t.Errorf("got %v, want ErrNotAdmitted", err)
		}
	})
}

func TestWhatCannotBeProvedIsNotTakenOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		old := []admission.Entry{f.admit("v1", "v1"), f.admit("v1", "x"), f.admit("v1", "w", admission.Worker)}
		f.serve("w", nil, f.roster(append(slices.Clone(old), f.admit("w", "crony"), f.admit("v1", "y"))...))
		mine := f.roster(old...)
		err := admission.Show(t.Context(), f.net.Host("x"), "w", mine)
		if !errors.Is(err, admission.ErrUntrusted) || mine.Admitted("crony") || !mine.Admitted("y") {
			t.Errorf("got %v; it knows %v", err, peers(mine))
		}
	})
}
