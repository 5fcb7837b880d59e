package admission_test

import (
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
)

func TestANameShowsAllThereIsInItAndLooksLikeNothingElse(t *testing.T) {
	for _, name := range []string{"left", "büro 2", "a.example.org", "node-10", "me@home", "kitchen:2", "мост", "λόγος", "東京 node 1", "서울", "हिंदी", "ÅNGSTRÖM", "x"} {
		if err := admission.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", " ", "\u00a0", "\u2800", "\u3164", "a\u3164", "a\ufe0f", "a\u034f", "a\u200bb", "a\u202eb", "a\nb", "a\x1b[31m", "\xff", // blank, unseen, control
		".", "..", "../a", "/etc", `a\b`, "~", "-x", "--help", "self", "12D3KooWJ8dL1g6mVcEyKPRgb4U3ySRxPqMDfgK1rgcArwSnoQzb", "12D3KooW", // paths, flags, keys
		"$(id)", "a;b", "a`b", "a|b", "a&b", "a'b", `a"b`, "a*", "<b>", "a=b", // what a shell or a page would read
		"аlpha", "alphа", "аре", "ΑΒΕ", "МОСТ", "օո", "ａlpha", "𝐚lpha", "a\u0301", "ɑlpha", "мостX", // look-alikes
	} {
		if admission.CheckName(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestNamesThatAReaderTakesForEachOtherHaveOneLikeness(t *testing.T) {
	for a, b := range map[string]string{"alpha": "Alpha", "node0": "nodeO", "web-1": "web-l", "mail": "maiI", "modern": "modem", "a b": "a_b", "а": "a"} {
		if admission.Likeness(a) != admission.Likeness(b) {
			t.Errorf("%q and %q: %q %q", a, b, admission.Likeness(a), admission.Likeness(b))
		}
	}
	for a, b := range map[string]string{"mail": "mall", "node1": "node2", "alpha": "alpah", "büro": "buro"} {
		if admission.Likeness(a) == admission.Likeness(b) {
			t.Errorf("%q and %q have one likeness", a, b)
		}
	}
}
