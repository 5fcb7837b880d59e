package constraint_test

import (
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// asked is a constraint before it is written: what the naive evaluator reads instead of a text.
type asked struct {
	key    string // as the documentation writes it
	op     string
	values []string // without quotes
}

// text writes it, every value in quotes.
func (a asked) text() string {
	quoted := make([]string, len(a.values))
	for i, v := range a.values {
		quoted[i] = quote(v)
	}
	if a.op == "in" {
		return fmt.Sprintf("%s in (%s)", a.key, strings.Join(quoted, ","))
	}
	return fmt.Sprintf("%s %s %s", a.key, a.op, quoted[0])
}

// holds is the language as doc.go tells it, written for the reader: exact fractions, addresses as
// strings of bits, nothing shared with the package.
func (a asked) holds(f *constraint.Facts) bool {
	switch {
	case a.key == "peer.addr":
		in := slices.ContainsFunc(f.Addrs, func(x netip.Addr) bool {
			return slices.ContainsFunc(a.values, func(n string) bool { return liesIn(x, n) })
		})
		return in == (a.op != "!=")
	case a.key == "peer.cpus":
		return a.number(big.NewRat(f.MilliCPU, 1000))
	case a.key == "peer.memory":
		return a.number(big.NewRat(f.Memory, 1))
	case strings.HasPrefix(a.key, "peer.offer."):
		return a.number(big.NewRat(f.Offers[strings.TrimPrefix(a.key, "peer.offer.")], 1))
	}
	have, ok := a.textOf(f)
	switch a.op {
	case "==":
		return ok && have == a.values[0]
	case "!=":
		return !ok || have != a.values[0]
	case "in":
		return ok && slices.Contains(a.values, have)
	case "=~":
		return ok && regexp.MustCompile(a.values[0]).MatchString(have)
	}
	plain := regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)$`)
	return ok && plain.MatchString(have) && ordered(fraction(have), a.op, fraction(a.values[0]))
}

func (a asked) textOf(f *constraint.Facts) (string, bool) {
	if name, label := strings.CutPrefix(a.key, "peer.label."); label {
		v, ok := f.Labels[name]
		return v, ok
	}
	v := map[string]string{"peer.id": f.ID, "peer.name": f.Name, "peer.os": f.OS, "peer.arch": f.Arch}[a.key]
	return v, v != ""
}

func (a asked) number(have *big.Rat) bool {
	if a.op == "in" {
		return slices.ContainsFunc(a.values, func(v string) bool { return have.Cmp(amount(v)) == 0 })
	}
	return ordered(have, a.op, amount(a.values[0]))
}

func ordered(have *big.Rat, op string, value *big.Rat) bool {
	c := have.Cmp(value)
	return map[string]bool{"==": c == 0, "!=": c != 0, ">=": c >= 0, "<=": c <= 0, ">": c > 0, "<": c < 0}[op]
}

func fraction(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(strings.TrimSuffix(s, "."))
	if !ok {
		panic(s)
	}
	return r
}

// amount reads a number with a unit.
func amount(s string) *big.Rat {
	units := map[string]*big.Rat{
		"m": big.NewRat(1, 1000), "kB": big.NewRat(1000, 1), "KiB": big.NewRat(1024, 1), "MB": big.NewRat(1_000_000, 1), "MiB": big.NewRat(1<<20, 1), "GiB": big.NewRat(1<<30, 1),
	}
	for _, unit := range slices.Backward(slices.Sorted(maps.Keys(units))) {
		if number, ok := strings.CutSuffix(s, unit); ok {
			return new(big.Rat).Mul(fraction(number), units[unit])
		}
	}
	return fraction(s)
}

// liesIn compares the leading bits of two addresses. IPv4 in IPv6 is IPv4 on both sides.
func liesIn(a netip.Addr, network string) bool {
	base, length, whole := strings.Cut(network, "/")
	b, n := netip.MustParseAddr(base), -1
	if whole {
		fmt.Sscan(length, &n)
	}
	if b.Is4In6() {
		b, n = b.Unmap(), max(n-96, -1)
	}
	x, y := bits(a.Unmap()), bits(b)
	if n < 0 {
		n = len(y)
	}
	return len(x) == len(y) && x[:n] == y[:n]
}

func bits(a netip.Addr) (out string) {
	for _, b := range a.AsSlice() {
		out += fmt.Sprintf("%08b", b)
	}
	return out
}

// anyOf draws one of several.
func anyOf(t *rapid.T, what string, from ...string) string {
	return rapid.SampledFrom(from).Draw(t, what)
}

// anyAsked draws what may be asked of a key: an operator that makes sense for it, and values that
// are near what peers have.
func anyAsked(t *rapid.T) asked {
	equality, order := []string{"==", "!=", "in"}, []string{">=", "<=", ">", "<"}
	a := asked{key: anyOf(t, "key", "peer.id", "peer.name", "peer.os", "peer.arch", "peer.cpus", "peer.memory", "peer.addr", "peer.offer.gpus", "peer.offer.none", "peer.label.zone", "peer.label.gen", "peer.label.none")}
	var value func() string
	switch {
	case a.key == "peer.addr":
		a.op = anyOf(t, "op", equality...)
		value = func() string {
			return anyOf(t, "network", "10.1.2.3", "10.0.0.0/8", "10.1.2.0/30", "::ffff:10.1.2.3", "::ffff:10.1.0.0/112", "fe80::1", "fe80::/10", "2001:db8::/33", "0.0.0.0/0", "::/0", "203.0.113.9/32")
		}
	case a.key == "peer.cpus":
		a.op = anyOf(t, "op", append(equality, order...)...)
		value = func() string { return anyOf(t, "cpus", "0", "0.5", "500m", "1", "1000m", "1.001", "2.0", "1500m", "3") }
	case a.key == "peer.memory":
		a.op = anyOf(t, "op", append(equality, order...)...)
		value = func() string {
			return anyOf(t, "size", "0", "1000", "1kB", "1KiB", "1.5KiB", "1MB", "1MiB", "1GiB", "1024")
		}
	case strings.HasPrefix(a.key, "peer.offer."):
		a.op = anyOf(t, "op", append(equality, order...)...)
		value = func() string { return anyOf(t, "count", "0", "1", "2", "3") }
	default:
		ops := append(equality, "=~")
		if strings.HasPrefix(a.key, "peer.label.") {
			ops = append(ops, order...)
		}
		a.op = anyOf(t, "op", ops...)
		value = func() string {
			switch a.op {
			case "=~":
				return anyOf(t, "expression", "^a", "a$", "^(a|b)+$", `\d`, "", "^$", "(?i)A", "^3", ".")
			case "==", "!=", "in":
				return anyOf(t, "text", "a", "ab", "A", "", "3", "3.0", "far, west", `say "x"`, `back\slash`)
			}
			return anyOf(t, "number", "3", "3.0", "+3", "-3", "2.999", "03", ".5", "-0", "0.", "12345678901234567890123")
		}
	}
	a.values = []string{value()}
	for a.op == "in" && len(a.values) < 3 && rapid.Bool().Draw(t, "more") {
		a.values = append(a.values, value())
	}
	return a
}

// nearFacts draws a peer that has some of what anyAsked asks for.
func nearFacts(t *rapid.T) *constraint.Facts {
	text := func(what string) string { return anyOf(t, what, "", "a", "ab", "A", "3", "far, west") }
	f := &constraint.Facts{
		ID: text("id"), Name: text("name"), OS: text("os"), Arch: text("arch"),
		MilliCPU: rapid.SampledFrom([]int64{0, 500, 1000, 1001, 1500, 2000, 2999}).Draw(t, "cpu"), Memory: rapid.SampledFrom([]int64{0, 1000, 1024, 1536, 1e6, 1 << 20, 1 << 30}).Draw(t, "memory"),
		Offers: map[string]int64{"gpus": rapid.Int64Range(0, 3).Draw(t, "gpus")}, Labels: map[string]string{},
	}
	for _, name := range []string{"zone", "gen"} {
		if rapid.Bool().Draw(t, name) {
			f.Labels[name] = anyOf(t, "label", "a", "ab", "", "3", "3.0", "+3.", ".", "-", "-0", "1e3", "Inf", "0x3", " 3", "-3.5", "12345678901234567890124", `say "x"`, `back\slash`, "far, west")
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "addresses") {
		f.Addrs = append(f.Addrs, netip.MustParseAddr(anyOf(t, "addr", "10.1.2.3", "::ffff:10.1.2.2", "203.0.113.9", "fe80::1%eth0", "2001:db8:8000::1", "2001:db8::1")))
	}
	return f
}

func TestAConstraintMeansWhatANaiveReadingOfTheDocumentationSays(t *testing.T) {
	held := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		a := anyAsked(t)
		c, err := constraint.Parse(a.text())
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			f := nearFacts(t)
			want := a.holds(f)
			if got := c.Holds(f); got != want {
				t.Fatalf("%s: %v, want %v about %+v", a.text(), got, want, f)
			}
			held[fmt.Sprint(want)]++
		}
	})
	if held["true"] == 0 || held["false"] == 0 {
		t.Errorf("the histories prove nothing: %v", held)
	}
}

func TestAllHoldIsEachOfThemAndFirstBrokenTheFirstThatDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, broken := nearFacts(t), -1
		var texts []string
		for i := range rapid.IntRange(0, 5).Draw(t, "how many") {
			a := anyAsked(t)
			if texts = append(texts, a.text()); broken < 0 && !a.holds(f) {
				broken = i
			}
		}
		cs, err := constraint.ParseAll(texts)
		if err != nil {
			t.Fatal(err)
		}
		if got := constraint.FirstBroken(cs, f); got != broken || constraint.AllHold(cs, f) != (broken < 0) {
			t.Fatalf("%q: the first broken is %d, want %d, about %+v", texts, got, broken, f)
		}
	})
}

func TestQuotesSpacesAndTheCaseOfKeysMeanNothing(t *testing.T) {
	bare := rapid.StringMatching(`[A-Za-z0-9._/:+@%-]{1,8}`)
	space := rapid.SampledFrom([]string{" ", "  ", "\t", "\u00a0"})
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(bare, 1, 3).Draw(t, "values")
		gap := func() string { return space.Draw(t, "gap") }
		op := anyOf(t, "op", "==", "!=", "in")
		key := func() string {
			return anyOf(t, "stem", "peer.label.", "Peer.Label.", "PEER.LABEL.") + "Zone"
		}
		write := func(quoted string, list bool) string {
			var out []string
			for _, v := range values {
				out = append(out, quoted+v+quoted)
			}
			if !list {
				return gap() + key() + gap() + op + gap() + out[0] + gap()
			}
			return key() + gap() + op + gap() + "(" + gap() + strings.Join(out, gap()+","+gap()) + gap() + ")"
		}
		want := ""
		for _, q := range []string{"", `"`, "'"} {
			text := write(q, op == "in")
			c, err := constraint.Parse(text)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			if want == "" {
				want = c.String()
			}
			if c.String() != want {
				t.Fatalf("%q is read as %s, in other words as %s", text, c, want)
			}
		}
	})
}
