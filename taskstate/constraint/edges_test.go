package constraint_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/taskstate/constraint"
)

// suggested is the word an error proposes; "" if it proposes none.
func suggested(err error) string {
	var e *constraint.Error
	if !errors.As(err, &e) {
		return ""
	}
	_, after, _ := strings.Cut(e.Problem, "did you mean ")
	word, _, _ := strings.Cut(after, "?")
	return word
}

func TestAKeyOfAnotherSystemIsRefusedWithOurs(t *testing.T) {
	for theirs, ours := range map[string]string{
		"node.ip": "peer.addr", "peer.address": "peer.addr", "host.cidr": "peer.addr", "network": "peer.addr", "attr.architecture": "peer.arch", "machine": "peer.arch", "node.platform.arch": "peer.arch",
		"node.hostname": "peer.name", "host": "", "attr.cores": "peer.cpus", "ram": "peer.memory", "engine.labels.disk": "peer.label.disk", "meta.rack": "peer.label.rack", "tags.Zone": "peer.label.Zone",
		"node.offers.tpus": "peer.offer.tpus", "resources.gpus": "peer.offer.gpus", "offer.Seats": "peer.offer.Seats", "gpu": "peer.offer.gpus", "node.region": "peer.label.region", "dc": "peer.label.dc",
		"Rack": "peer.label.rack", "pear.os": "peer.os", "peer.nam": "peer.name", "peer.memroy": "peer.memory", "peer.lable": "peer.label", "node": "", "meta.a$b": "", "weather": "",
	} {
		_, err := constraint.Parse(theirs + " == 1")
		if got := suggested(err); err == nil || got != ours {
			t.Errorf("%s: %q, want %q (%v)", theirs, got, ours, err)
		}
		if ours == "" || ours == "peer.label" {
			continue
		}
		if _, err := constraint.Parse(ours + " == 1"); err != nil && strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%s: what is proposed for it is none: %v", theirs, err)
		}
	}
}

func TestAnOperatorOfAnotherLanguageIsRefusedWithOurs(t *testing.T) {
	for ours, theirs := range map[string]string{
		"==": "= === is eq equals EQ", "!=": "<> ! !== not ne isnt", ">=": "=> ge gte", "<=": "=< le lte", ">": "gt >>", "<": "lt <<",
		"=~": "~ ~= ~~ ==~ matches match like contains regexp Like", "in": "one among of", "": "!~ <=> ><! xor within_not",
	} {
		for _, op := range strings.Fields(theirs) {
			if _, err := constraint.Parse("peer.label.x " + op + " 1"); err == nil || suggested(err) != ours {
				t.Errorf("%s: %q, want %q (%v)", op, suggested(err), ours, err)
			}
		}
	}
}

// refusedWith is what a constraint is refused with, "" if it is not.
func refusedWith(text string) string {
	_, err := constraint.Parse(text)
	var e *constraint.Error
	if errors.As(err, &e) {
		return e.Problem
	}
	return ""
}

// Each limit is met exactly: what is allowed is read, and one more is not.
func TestTheLastThatIsAllowedIsReadAndOneMoreIsNot(t *testing.T) {
	of := func(n int) string { return strings.Repeat("a", n) }
	for what, c := range map[string]struct {
		text func(n int) string
		most int
		says string
	}{
		"bytes":           {func(n int) string { return "peer.os == " + of(n-len("peer.os == ")) }, constraint.MaxText, "at most 4096 are allowed"},
		"values":          {func(n int) string { return "peer.os in (" + strings.TrimSuffix(strings.Repeat("a,", n), ",") + ")" }, constraint.MaxList, "more than 64 values"},
		"an expression":   {func(n int) string { return "peer.os =~ " + of(n) }, constraint.MaxRegexp, "more than 256 bytes"},
		"its repetitions": {func(n int) string { return fmt.Sprintf("peer.os =~ (a{%d}){10}", n) }, 16, "repeats too much"},
		"a label's name":  {func(n int) string { return "peer.label." + of(n) + " == 1" }, constraint.MaxName, "at most 128 are allowed"},
		"an offer's name": {func(n int) string { return "peer.offer." + of(n) + " == 1" }, constraint.MaxName, "at most 128 are allowed"},
		"digits":          {func(n int) string { return "peer.label.x >= " + strings.Repeat("1", n) }, 64, "compares a label with a number"},
	} {
		if says := refusedWith(c.text(c.most)); says != "" {
			t.Errorf("%s: %d are too many: %s", what, c.most, says)
		}
		if says := refusedWith(c.text(c.most + 1)); !strings.Contains(says, c.says) {
			t.Errorf("%s: one more than %d: %q, want %q", what, c.most, says, c.says)
		}
	}
}

func TestALabelWithMoreDigitsThanAnythingMeansIsNoNumber(t *testing.T) {
	with := func(n int) *constraint.Facts {
		return &constraint.Facts{Labels: map[string]string{"x": strings.Repeat("9", n)}}
	}
	holds(t, with(64), true, "peer.label.x > 1", "peer.label.x == "+strings.Repeat("9", 64))
	holds(t, with(65), false, "peer.label.x > 1", "peer.label.x <= 1")
	holds(t, with(65), true, "peer.label.x == "+strings.Repeat("9", 65), "peer.label.x =~ ^9+$")
}

func TestOnlyKeysThatCanBeSpreadOverHaveAValue(t *testing.T) {
	f := server()
	for _, text := range []string{"peer.cpus > 1", "peer.memory > 1", "peer.addr != 10.0.0.1", "peer.offer.gpus > 1"} {
		if v, ok := parse(t, text).Key().Value(f); v != "" || ok {
			t.Errorf("%s: its key has the value %q", text, v)
		}
	}
	if v, ok := (constraint.Key{}).Value(f); v != "" || ok {
		t.Errorf("no key has the value %q", v)
	}
	if v, ok := parse(t, "peer.label.empty == x").Key().Value(f); v != "" || !ok {
		t.Error("a label that is empty is there")
	}
}

// A network of IPv4 in IPv6 that reaches beyond IPv4 is one of IPv6, in which no IPv4 address lies.
func TestIPv4InIPv6IsIPv4WhereAllOfTheNetworkIs(t *testing.T) {
	f := server() // 10.1.2.3, 203.0.113.9 and a link-local address
	holds(t, f, true, "peer.addr == ::ffff:0:0/96", "peer.addr == ::ffff:10.1.2.3/128", "peer.addr != ::ffff:0:0/95")
	holds(t, f, false, "peer.addr == ::ffff:0:0/95", "peer.addr == 2000::/3")
	if got := parse(t, "peer.addr == ::ffff:10.1.2.3/104").String(); got != "peer.addr == 10.0.0.0/8" {
		t.Error(got)
	}
}

func TestAConstraintIsUsedByMany(t *testing.T) {
	f, cs := server(), []constraint.Constraint{parse(t, "peer.name =~ ^gpu-[0-9]+$"), parse(t, "peer.label.gen >= 3.5"), parse(t, "peer.addr in (10.0.0.0/8, fe80::/10)")}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if at := constraint.FirstBroken(cs, f); at >= 0 {
					t.Errorf("%s does not hold", cs[at])
				}
			}
		})
	}
	wg.Wait()
}
