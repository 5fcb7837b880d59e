package node

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"covey/node/api"
)

func TestATroubleIsKnownByItsCodeAndSaidOnce(t *testing.T) {
	var x troubles
	if !x.set("wren", "b", "first") || x.set("wren", "b", "second") || !x.set("wren", "a", "other") {
		t.Fatal("news is what was not said before")
	}
	want := []api.Trouble{{Code: "a", Message: "other"}, {Code: "b", Message: "second"}}
	if d := cmp.Diff(want, x.list("wren")); d != "" {
		t.Fatal(d)
	}
	if x.clear("robin", "b") || !x.clear("wren", "b") || x.clear("wren", "b") || len(x.list("wren")) != 1 {
		t.Fatal("what is over is taken back once, from whom it is of")
	}
}

func TestTroublesAreBoundedWhoeverSaysThem(t *testing.T) {
	var x troubles
	var told []api.Trouble
	long := strings.Repeat("ä", 2*maxTroubleText)
	for i := range 3 * maxTroubles {
		x.set("wren", fmt.Sprint("code", i), long)
		told = append(told, api.Trouble{Code: fmt.Sprint("told", i), Message: long})
	}
	for _, list := range [][]api.Trouble{x.list("wren"), mergeTroubles(nil, told), mergeTroubles(x.list("wren"), told)} {
		if len(list) != maxTroubles || len(list[0].Message) > maxTroubleText || !utf8.ValidString(list[0].Message) {
			t.Fatalf("%d troubles, the first of %d bytes", len(list), len(list[0].Message))
		}
	}
}
