package troubles

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/coveyproject/covey/node/api"
)

func TestATroubleIsKnownByItsCodeAndSaidOnce(t *testing.T) {
	var x Troubles
	if !x.Set("wren", "b", "first") || x.Set("wren", "b", "second") || !x.Set("wren", "a", "other") {
		t.Fatal("news is what was not said before")
	}
	want := []api.Trouble{{Code: "a", Message: "other"}, {Code: "b", Message: "second"}}
	if d := cmp.Diff(want, x.List("wren")); d != "" {
		t.Fatal(d)
	}
	if x.Clear("robin", "b") || !x.Clear("wren", "b") || x.Clear("wren", "b") || len(x.List("wren")) != 1 {
		t.Fatal("what is over is taken back once, from whom it is of")
	}
}

func TestTroublesAreBoundedWhateverPeerSaysThem(t *testing.T) {
	var x Troubles
	var told []api.Trouble
	long := strings.Repeat("ä", 2*maxTroubleText)
	for i := range 3 * maxTroubles {
		x.Set("wren", fmt.Sprint("code", i), long)
		told = append(told, api.Trouble{Code: fmt.Sprint("told", i), Message: long})
	}
	for _, list := range [][]api.Trouble{x.List("wren"), Merge(nil, told), Merge(x.List("wren"), told)} {
		if len(list) != maxTroubles || len(list[0].Message) > maxTroubleText || !utf8.ValidString(list[0].Message) {
			t.Fatalf("%d troubles, the first of %d bytes", len(list), len(list[0].Message))
		}
	}
}

func TestWhatIsWrongWithThisPeerIsSaidOnceInItsLogAndTakenBackWhenItIsOver(t *testing.T) {
	var all Troubles
	var log strings.Builder
	own := Own{Self: "wren", All: &all, Log: slog.New(slog.NewTextHandler(&log, nil))}
	full := errors.New("not a byte is left")
	for what, say := range map[string]func(error){"audit": own.Audit, "disk": own.DiskFull, "store": own.StoreFull, "exhausted": own.Exhausted} {
		log.Reset()
		say(full)
		say(full)
		if list := all.List("wren"); len(list) != 1 || !strings.Contains(list[0].Message, full.Error()) || strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("%s: %v, and in the log:\n%s", what, list, log.String())
		}
		if say(nil); len(all.List("wren")) != 0 {
			t.Errorf("%s: it is over, and still said: %v", what, all.List("wren"))
		}
	}
}

func TestWhatDiffersIsAskedForWheneverTheOwnTroublesAreRead(t *testing.T) {
	var all Troubles
	said := ""
	of := Own{Self: "a", All: &all, Log: slog.New(slog.DiscardHandler)}.Of(func() string { return said }, func() string { return "" })
	for _, said = range []string{"it goes on to entry 9", "", "it goes on to entry 12"} {
		got := of("a")
		if said == "" && len(got) > 0 || said != "" && (len(got) != 1 || got[0].Code != api.TroubleLedgerDiffers || got[0].Message != said) {
			t.Errorf("it says %+v, want %q", got, said)
		}
		if other := of("b"); len(other) > 0 {
			t.Errorf("of another peer it says %+v", other)
		}
	}
}

func TestWhatAnotherPeerSaysIsToBeTypedIsTypedThere(t *testing.T) {
	for said, want := range map[string]string{
		"stop it with `peer down`; then `peer up --join TICKET`.":   "stop it with `peer down` there; then `peer up --join TICKET` there.",
		"make one (`peer ticket` at another peer), `peer up` there": "make one (`peer ticket` at another peer), `peer up` there",
		"edit `policy.yaml`": "edit `policy.yaml`",
	} {
		list := []api.Trouble{{Code: "x", Message: said}}
		if got := CommandsTypedThere(list); got[0].Message != want || list[0].Message != said {
			t.Errorf("%q, want %q", got[0].Message, want)
		}
	}
}
