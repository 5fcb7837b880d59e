package constraint_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate/constraint"
)

func TestWhatCannotBeReadIsRefusedWithItsColumn(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		says   string
	}{
		{"", 1, "it is empty"},
		{"   ", 4, "it is empty"},
		{"== linux", 1, "expected a key first"},
		{"(peer.os) == linux", 1, "expected a key first"},
		{"peer.oss == linux", 1, `unknown key "peer.oss": did you mean peer.os?`},
		{"os == linux", 1, "did you mean peer.os?"},
		{"node.hostname == a", 1, "did you mean peer.name?"},
		{"node.platform.os == linux", 1, "did you mean peer.os?"},
		{"node.labels.zone == a", 1, "did you mean peer.label.zone?"},
		{"peer.labels.Zone == a", 1, "did you mean peer.label.Zone?"},
		{"peer.mem > 1GB", 1, "did you mean peer.memory?"},
		{"peer.cpu > 1", 1, "did you mean peer.cpus?"},
		{"peer.gpus >= 1", 1, "did you mean peer.offer.gpus?"},
		{"zone == west", 1, "did you mean peer.label.zone?"},
		{"peer.os.version == 1", 1, `unknown key "peer.os.version"`},
		{"peer.nosuch == 1", 1, `unknown key "peer.nosuch"; known are peer.id`},
		{"peer.label == a", 1, "peer.label.NAME has no name"},
		{"peer.label. == a", 1, "has no name"},
		{"peer.label.a,b == a", 13, "expected an operator"},
		{"peer.label.a$ == a", 1, "letters, digits"},
		{"peer.os", 8, "operator and a value are missing"},
		{"  peer.os linux", 11, `unknown operator "linux"`},
		{"peer.os = linux", 9, `did you mean ==?`},
		{"peer.cpus => 3", 11, `did you mean >=?`},
		{"peer.os is linux", 9, `did you mean ==?`},
		{"peer.os ~= linux", 9, `did you mean =~?`},
		{"peer.os !~ linux", 9, `unknown operator "!~"`},
		{"peer.os ==== linux", 9, `unknown operator "===="`},
		{"peer.os 'linux'", 9, "expected an operator after peer.os"},
		{"peer.os ==", 11, "the value is missing after =="},
		{"peer.os > linux", 9, "peer.os has no order: > does not work on it"},
		{"peer.addr < 10.0.0.1", 11, "has no order"},
		{"peer.memory =~ 8", 13, "is no text: =~ does not work on it"},
		{"peer.addr =~ 10", 11, "is no text"},
		{"peer.memory >= 8G", 16, "8GB (powers of 1000) or 8GiB"},
		{"peer.memory >= 8 GiB", 18, `unexpected "GiB" after the value; a value with spaces goes into quotes`},
		{"peer.memory >= lots", 16, "expected a size"},
		{"peer.cpus >= -1", 14, "expected a number of cpus"},
		{"peer.offer.gpus >= 1.5", 20, "expected a whole number"},
		{"peer.offer.gpus >= 99999999999999999999", 20, "expected a whole number"},
		{"peer.label.gen >= new", 19, "compares a label with a number"},
		{"peer.addr == 10.0.0.0/33", 14, "expected an address or a network"},
		{"peer.addr == fe80::1%eth0", 14, "no zone"},
		{"peer.addr in (10.0.0.0/8, x)", 27, "expected an address or a network"},
		{"peer.name =~ a(b", 14, "this is no regular expression: missing closing )"},
		{"peer.name =~ " + strings.Repeat("a", constraint.MaxRegexp+1), 14, "more than 256 bytes"},
		{`peer.name =~ \pL{0,900}`, 14, "repeats too much"},
		{`peer.name =~ ((a|b){30}){20}`, 14, "repeats too much"},
		{`peer.name =~ a{1001}`, 14, "no regular expression: invalid repeat count"},
		{"peer.os in linux", 12, "list in round brackets"},
		{"peer.os in (linux", 12, "the list is not closed"},
		{"peer.os in (linux,", 19, "the list is not closed"},
		{"peer.os in ()", 13, "expected a value"},
		{"peer.os in (a,,b)", 15, "expected a value"},
		{"peer.os in (a b)", 15, "expected , or )"},
		{"peer.os in (a) b", 16, "unexpected"},
		{"peer.os in (" + strings.Repeat("a,", constraint.MaxList) + "a)", 12 + 2*constraint.MaxList + 2, "more than 64 values"},
		{"peer.os == (linux, darwin)", 12, "a list goes with in"},
		{"peer.os == 'linux", 12, "the ' is missing"},
		{`peer.os == "linux'`, 12, `the " is missing`},
		{`peer.os == "li\`, 12, `the " is missing`},
		{`peer.os == "a\d"`, 14, `\d is no escape`},
		{`peer.os == it's`, 14, "goes into quotes itself"},
		{`peer.os == 'a'b`, 15, "after the closing quote"},
		{"peer.os == <a", 12, "goes into quotes"},
		{"peer.os == linux && peer.arch == arm64", 18, "one constraint is one condition"},
		{"peer.label.zone == westwärts und mehr", 30, "unexpected"},
		{"peer.os == a\x00", 13, "cannot be shown"},
		{"peer.label.ä == \u202eb", 17, "cannot be shown"},
		{"peer.os == ä\xff", 13, "no UTF-8"},
		{"peer.os == " + strings.Repeat("a", constraint.MaxText), 1, "at most 4096"},
		{"peer.os == '" + strings.Repeat(`"`, constraint.MaxText/2) + "'", 1, "written out it has 4109 bytes"},
	} {
		got, err := constraint.Parse(c.text)
		var e *constraint.Error
		if !errors.As(err, &e) {
			t.Errorf("%q is read as %q", c.text, got)
			continue
		}
		if e.Column != c.column || !strings.Contains(e.Problem, c.says) || e.Index != -1 || got.Holds(server()) {
			t.Errorf("%q: %v; want column %d and %q", c.text, err, c.column, c.says)
		}
		if want := fmt.Sprintf("column %d: %s, as in: %s", e.Column, e.Problem, e.Example); err.Error() != want {
			t.Errorf("%q: %v", c.text, err)
		}
		if _, err := constraint.Parse(e.Example); err != nil {
			t.Errorf("the example for %q is wrong itself: %v", c.text, err)
		}
	}
}

func TestTheExampleIsAboutTheSameKeyAndOperator(t *testing.T) {
	for text, want := range map[string]string{
		"peer.memory >= lots": "peer.memory >= 8GiB", "peer.cpus": "peer.cpus >= 4", "peer.label.gen < new": "peer.label.gen < 3", "peer.addr in x": "peer.addr in (10.0.0.0/8, 192.168.1.7)",
		"peer.os > linux": "peer.os == linux", "peer.name =~ (": `peer.name =~ "^gpu-[0-9]+$"`, "peer.offer.tpus =": "peer.offer.tpus >= 1", "nonsense": "peer.os == linux", "peer.id in": "peer.id in (12D3KooWGzh4, 12D3KooWKL3x)",
	} {
		var e *constraint.Error
		if _, err := constraint.Parse(text); !errors.As(err, &e) || e.Example != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTheErrorOfAListSaysWhichOne(t *testing.T) {
	cs, err := constraint.ParseAll([]string{"peer.os == linux", "peer.arch = arm64", "nonsense"})
	var e *constraint.Error
	if cs != nil || !errors.As(err, &e) || e.Index != 1 || !strings.HasPrefix(err.Error(), "constraints[1]: column 11: unknown operator") {
		t.Errorf("%v, %v", cs, err)
	}
	cs, err = constraint.ParseAll(make([]string, constraint.MaxCount+1))
	if cs != nil || err == nil || !strings.Contains(err.Error(), "at most 64") {
		t.Errorf("%v, %v", cs, err)
	}
	cs, err = constraint.ParseAll(slices.Repeat([]string{"peer.name =~ ^a"}, constraint.MaxRegexps+1))
	if cs != nil || !errors.As(err, &e) || e.Index != constraint.MaxRegexps || !strings.Contains(err.Error(), "more than 8 regular expressions") {
		t.Errorf("%v, %v", cs, err)
	}
	if cs, err := constraint.ParseAll(slices.Repeat([]string{"peer.name =~ ^a"}, constraint.MaxRegexps)); len(cs) != constraint.MaxRegexps || err != nil {
		t.Errorf("%v, %v", cs, err)
	}
	if cs, err := constraint.ParseAll(nil); len(cs) != 0 || err != nil {
		t.Errorf("%v, %v", cs, err)
	}
	if cs, err := constraint.ParseAll([]string{"peer.os == linux", "peer.arch == arm64"}); len(cs) != 2 || err != nil {
		t.Errorf("%v, %v", cs, err)
	}
}

func TestConstraintsAreWrittenInOneForm(t *testing.T) {
	for text, want := range map[string]string{
		" PEER.Os==linux ": "peer.os == linux", "peer.label.Zone   !=  'west'": "peer.label.Zone != west", `peer.label.z == "far west"`: `peer.label.z == "far west"`,
		`peer.label.z == 'a"b\\'`: `peer.label.z == "a\"b\\"`, `peer.label.z == "a\n\tb"`: `peer.label.z == "a\n\tb"`, "peer.label.z == ''": `peer.label.z == ""`,
		"peer.memory >= 8192MiB": "peer.memory >= 8GiB", "peer.memory >= 512MB": "peer.memory >= 512MB", "peer.memory > 1025": "peer.memory > 1025", "peer.memory < 0": "peer.memory < 0",
		"peer.memory == 1.5GiB": "peer.memory == 1536MiB", "peer.cpus >= 500m": "peer.cpus >= 0.5", "peer.cpus in (1.250,2.0)": "peer.cpus in (1.25, 2)", "peer.cpus < 0.001": "peer.cpus < 0.001",
		"peer.addr == 10.1.2.3/8": "peer.addr == 10.0.0.0/8", "peer.addr == 10.1.2.3/32": "peer.addr == 10.1.2.3", "peer.addr == ::FFFF:10.1.2.3": "peer.addr == 10.1.2.3", "peer.addr in (FE80::/10)": "peer.addr in (fe80::/10)",
		"peer.os IN (a,b)": "peer.os in (a, b)", "peer.name =~ ^a$": `peer.name =~ "^a$"`, "peer.offer.gpus >= 2": "peer.offer.gpus >= 2", "peer.label.gen >= 03.50": "peer.label.gen >= 03.50",
	} {
		if got := parse(t, text).String(); got != want {
			t.Errorf("%s is written %s, want %s", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"peer.os == linux", "peer.label.zone in (east, 'far west')", "peer.memory >= 8GiB", "peer.addr != ::ffff:0:0/90", `peer.name =~ "a\\b"`, "peer.label.ä < 03.5", "peer.cpus in (1,500m)",
		"peer.offer.gpus >= 1", "peer.os == \"\xff", "PEER.LABEL.X == '\\n'", "peer.addr == 1.2.3.4/0", "\u202e",
	} {
		f.Add(s)
	}
	facts := server()
	f.Fuzz(func(t *testing.T, text string) {
		c, err := constraint.Parse(text)
		if err != nil {
			var e *constraint.Error
			if !errors.As(err, &e) || e.Column < 1 || e.Column > utf8.RuneCountInString(text)+1 || c.String() != "" || c.Holds(facts) {
				t.Fatalf("%q: %v, %v", text, err, c)
			}
			if _, err := constraint.Parse(e.Example); err != nil {
				t.Fatalf("%q: the example %q is wrong: %v", text, e.Example, err)
			}
			return
		}
		again, err := constraint.Parse(c.String())
		if err != nil || again.String() != c.String() || again.Holds(facts) != c.Holds(facts) {
			t.Fatalf("%q is written %q, which is read as %q, %v", text, c, again, err)
		}
	})
}
