package main

import (
	"strings"
	"testing"
)

func TestLettingInAKeySaysWhatItsTasksCanDoWhereTheyHaveNoUserOfTheirOwn(t *testing.T) {
	for _, x := range []struct {
		holds []string
		says  string
	}{
		{[]string{"hide", "nnp", "uid"}, ""},
		{[]string{"hide", "nnp"}, "except the data folder"},
		{[]string{"nnp"}, "they can act as this peer"},
		{nil, "they can act as this peer"},
	} {
		if got := lettingIn(x.holds); (got == "") != (x.says == "") || !strings.Contains(got, x.says) {
			t.Errorf("where %v holds: %q", x.holds, got)
		}
	}
}
