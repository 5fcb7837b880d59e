package constraint

import (
	"strconv"
	"strings"
	"unicode"
)

// canonical writes the constraint in the one form that String gives.
func (c *Constraint) canonical() string {
	var b strings.Builder
	b.WriteString(c.key.String())
	b.WriteByte(' ')
	b.WriteString(c.op.String())
	b.WriteByte(' ')
	if c.op == in {
		b.WriteByte('(')
	}
	for i := range c.values {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c.values[i].canonical(c.key.what.class()))
	}
	if c.op == in {
		b.WriteByte(')')
	}
	return b.String()
}

func (v *value) canonical(c class) string {
	switch c {
	case cpus:
		return writeMilli(v.number)
	case memory:
		return writeSize(v.number)
	case count:
		return strconv.FormatInt(v.number, 10)
	case address:
		if v.network.IsSingleIP() {
			return v.network.Addr().String()
		}
		return v.network.String()
	}
	return writeText(v.text)
}

// writeText puts a value into quotes unless it is plain.
func writeText(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/:+@%", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(s) + `"`
}

func writeMilli(n int64) string {
	whole, rest := strconv.FormatInt(n/1000, 10), n%1000
	if rest == 0 {
		return whole
	}
	return whole + "." + strings.TrimRight(strconv.FormatInt(1000+rest, 10)[1:], "0")
}

// writeSize writes bytes with the unit that makes the shortest exact number.
func writeSize(n int64) string {
	best, unit := n, ""
	for i, name := range strings.Fields("kB MB GB TB KiB MiB GiB TiB") {
		scale := int64(1)
		for range i%4 + 1 {
			scale *= [2]int64{1000, 1024}[i/4]
		}
		if n%scale == 0 && n/scale < best {
			best, unit = n/scale, name
		}
	}
	return strconv.FormatInt(best, 10) + unit
}

// example is a right constraint for a key and, if it makes sense, an operator.
func example(k Key, o op) string {
	if k.what.class().refuses(o) != "" {
		o = noOp
	}
	one, list := examples(k.what)
	switch {
	case o == in:
		return k.String() + " in (" + list + ")"
	case o == matches:
		return k.String() + ` =~ "^gpu-[0-9]+$"`
	case o.orders() && k.what == peerLabel:
		return k.String() + " " + o.String() + " 3"
	case o == noOp && (k.what == peerCPUs || k.what == peerMemory || k.what == peerOffer):
		o = atLeast
	case o == noOp:
		o = equal
	}
	return k.String() + " " + o.String() + " " + one
}

// examples gives a value, and several, that make sense for a fact.
func examples(w what) (one, several string) {
	switch w {
	case peerID:
		return "12D3KooWGzh4jgtcFdjCpGrB5Dz7z7cjmBL3ULBsJNWxwTOZbBv9", "12D3KooWGzh4, 12D3KooWKL3x"
	case peerName:
		return "server-1", "server-1, server-2"
	case peerOS:
		return "linux", "linux, darwin"
	case peerArch:
		return "amd64", "amd64, arm64"
	case peerCPUs:
		return "4", "4, 8"
	case peerMemory:
		return "8GiB", "8GiB, 16GiB"
	case peerAddr:
		return "10.0.0.0/8", "10.0.0.0/8, 192.168.1.7"
	case peerOffer:
		return "1", "1, 2"
	}
	return "west", `east, "far west"`
}
