package constraint_test

import (
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"

	"github.com/coveyproject/covey/taskstate/constraint"

	"pgregory.net/rapid"
)

// quote writes any text as a value.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

var (
	anyText   = rapid.StringOf(rapid.OneOf(rapid.RuneFrom([]rune("ab \"'\\,()=<\n\t#ü日")), rapid.RuneFrom([]rune("abc")))).Filter(func(s string) bool { return len(s) < 100 })
	anyNumber = rapid.StringMatching(`[-+]?(0|[0-9]{1,3}|0[0-9])(\.[0-9]{0,3})?`)
	anyAddr   = rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "v4") {
			return netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "b"), 0, rapid.Byte().Draw(t, "d")})
		}
		return netip.AddrFrom16([16]byte{0xfe, 0x80, 15: rapid.Byte().Draw(t, "low")})
	})
	anyNet = rapid.Custom(func(t *rapid.T) string {
		a := anyAddr.Draw(t, "addr")
		return fmt.Sprintf("%v/%d", a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits"))
	})
	anyLabel = rapid.SampledFrom([]string{"zone", "Zone", "gen", "none"})
	anyFacts = rapid.Custom(func(t *rapid.T) *constraint.Facts {
		f := &constraint.Facts{
			OS: rapid.SampledFrom([]string{"linux", "darwin", ""}).Draw(t, "os"), Name: anyText.Draw(t, "name"), MilliCPU: rapid.Int64Range(0, 4000).Draw(t, "cpu"), Memory: rapid.Int64Range(0, 5000).Draw(t, "memory"),
			Offers: rapid.MapOf(rapid.SampledFrom([]string{"gpus", "tpus"}), rapid.Int64Range(0, 3)).Draw(t, "offers"),
			Labels: rapid.MapOf(anyLabel, rapid.OneOf(anyText, anyNumber)).Draw(t, "labels"),
			Addrs:  rapid.SliceOfN(anyAddr, 0, 3).Draw(t, "addrs"),
		}
		return f
	})
	// side is a key and a value that suits == and != .
	anySide = rapid.Custom(func(t *rapid.T) [2]string {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return [2]string{"peer.label." + anyLabel.Draw(t, "label"), quote(rapid.OneOf(anyText, anyNumber).Draw(t, "value"))}
		case 1:
			return [2]string{"peer.cpus", rapid.StringMatching(`[0-3](\.[0-9]{1,3})?|[1-9][0-9]{0,3}m`).Draw(t, "cpus")}
		case 2:
			return [2]string{"Peer.Memory", rapid.StringMatching(`[0-9]{1,4}|[0-4](\.5)?(kB|KiB|MB)`).Draw(t, "memory")}
		case 3:
			return [2]string{"peer.offer.gpus", rapid.StringMatching(`[0-3]`).Draw(t, "gpus")}
		case 4:
			return [2]string{"peer.addr", anyNet.Draw(t, "net")}
		}
		return [2]string{rapid.SampledFrom([]string{"peer.os", "PEER.NAME", "peer.id"}).Draw(t, "key"), quote(anyText.Draw(t, "value"))}
	})
)

func TestWhatStringWritesIsReadAsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := anySide.Draw(t, "side")
		text := fmt.Sprintf("%s %s %s", side[0], rapid.SampledFrom([]string{"==", "!="}).Draw(t, "op"), side[1])
		if rapid.Bool().Draw(t, "list") {
			text = fmt.Sprintf("%s in (%s, %s)", side[0], side[1], side[1])
		}
		c, err := constraint.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		again, err := constraint.Parse(c.String())
		if err != nil || again.String() != c.String() || again.Key() != c.Key() {
			t.Fatalf("%s is written %s, which is read as %s, %v", text, c, again, err)
		}
		for range 5 {
			if f := anyFacts.Draw(t, "facts"); again.Holds(f) != c.Holds(f) {
				t.Fatalf("%s and %s differ about %+v", text, c, f)
			}
		}
	})
}

func TestAQuotedValueMeansItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyText.Draw(t, "value")
		f := &constraint.Facts{Labels: map[string]string{"x": s}}
		for _, text := range []string{"peer.label.x == " + quote(s), "peer.label.x in (" + quote(s) + ")"} {
			c, err := constraint.Parse(text)
			if err != nil || !c.Holds(f) {
				t.Fatalf("%s does not hold for %q: %v", text, s, err)
			}
		}
	})
}

func TestDiffersIsTheOppositeOfEquals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side, f := anySide.Draw(t, "side"), anyFacts.Draw(t, "facts")
		is, err1 := constraint.Parse(side[0] + " == " + side[1])
		isNot, err2 := constraint.Parse(side[0] + "!=" + side[1])
		if err1 != nil || err2 != nil || is.Holds(f) == isNot.Holds(f) {
			t.Fatalf("%v and %v agree about %+v (%v, %v)", is, isNot, f, err1, err2)
		}
	})
}

func TestInIsEqualToOneOfThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, f := anySide.Draw(t, "a"), anyFacts.Draw(t, "facts")
		b := anySide.Filter(func(b [2]string) bool { return b[0] == a[0] }).Draw(t, "b")
		var one bool
		for _, v := range []string{a[1], b[1]} {
			c, err := constraint.Parse(a[0] + " == " + v)
			if err != nil {
				t.Fatal(err)
			}
			one = one || c.Holds(f)
		}
		list, err := constraint.Parse(fmt.Sprintf("%s in (%s, %s)", a[0], a[1], b[1]))
		if err != nil || list.Holds(f) != one {
			t.Fatalf("%s is %v about %+v, %v", list, !one, f, err)
		}
	})
}

func TestMoreAndAtMostAreOppositesOfNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		side := anySide.Filter(func(s [2]string) bool {
			return strings.HasPrefix(s[0], "peer.cpus") || s[0] == "Peer.Memory" || s[0] == "peer.offer.gpus"
		}).Draw(t, "side")
		f := anyFacts.Draw(t, "facts")
		ask := func(op string) bool {
			c, err := constraint.Parse(side[0] + op + side[1])
			if err != nil {
				t.Fatal(err)
			}
			return c.Holds(f)
		}
		if ask(">") == ask("<=") || ask("<") == ask(">=") || ask("==") != (ask(">=") && ask("<=")) {
			t.Fatalf("%v about %+v", side, f)
		}
	})
}

func TestLabelsAreComparedAsExactNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(anyNumber, rapid.StringMatching(`-?9007199254740(992|993|994)(\.0{0,20}1?)?`))
		a, b := number.Draw(t, "label"), number.Draw(t, "value")
		x, _ := new(big.Rat).SetString(strings.TrimSuffix(a, "."))
		y, _ := new(big.Rat).SetString(strings.TrimSuffix(b, "."))
		f := &constraint.Facts{Labels: map[string]string{"n": a}}
		for op, want := range map[string]bool{"<": x.Cmp(y) < 0, "<=": x.Cmp(y) <= 0, ">": x.Cmp(y) > 0, ">=": x.Cmp(y) >= 0} {
			c, err := constraint.Parse("peer.label.n " + op + " " + b)
			if err != nil || c.Holds(f) != want {
				t.Fatalf("%s %s %s is not %v: %v", a, op, b, want, err)
			}
		}
	})
}
