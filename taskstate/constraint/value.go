package constraint

import (
	"net/netip"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate/spell"
)

// readValues reads one value, or the list of in.
func (p *parser) readValues() *Error {
	p.skipSpace()
	if p.c.op != in {
		return p.readValue(false)
	}
	if !strings.HasPrefix(p.rest(), "(") {
		return p.fail(p.at, "in needs a list in round brackets")
	}
	open := p.at
	p.at++
	for {
		p.skipSpace()
		if err := p.readValue(true); err != nil {
			return err
		}
		p.skipSpace()
		switch {
		case len(p.c.values) > MaxList:
			return p.fail(p.at, "the list has more than %d values", MaxList)
		case p.rest() == "":
			return p.fail(open, "the list is not closed: the ) is missing")
		case p.rest()[0] == ')':
			p.at++
			return nil
		case p.rest()[0] != ',':
			return p.fail(p.at, "expected , or ) after a value of the list")
		}
		p.at++
	}
}

// readValue reads a value and turns it into what its key compares.
func (p *parser) readValue(inList bool) *Error {
	start := p.at
	var text string
	var err *Error
	if r := p.rest(); r != "" && (r[0] == '"' || r[0] == '\'') {
		text, err = p.quoted()
	} else {
		text, err = p.bare(inList)
	}
	if err != nil {
		return err
	}
	v, msg := p.c.value(text)
	if msg != "" {
		return p.fail(start, "%s", msg)
	}
	p.c.values = append(p.c.values, v)
	return nil
}

// bare reads a value without quotes: up to a space, in a list also up to a comma or a bracket.
func (p *parser) bare(inList bool) (string, *Error) {
	start := p.at
	text := p.word(func(r rune) bool { return !unicode.IsSpace(r) && (!inList || !strings.ContainsRune("(),", r)) })
	switch i := strings.IndexAny(text, `"'`); {
	case text == "" && p.rest() == "" && inList:
		return "", p.fail(start, "the list is not closed: a value and the ) are missing")
	case text == "" && p.rest() == "":
		return "", p.fail(start, "the value is missing after %s", p.c.op)
	case text == "":
		return "", p.fail(start, "expected a value; an empty one, or one with brackets or commas, goes into quotes")
	case i >= 0:
		return "", p.fail(start+i, "a value with quotes in it goes into quotes itself")
	case isOpRune(rune(text[0])):
		return "", p.fail(start, "a value that begins with %q goes into quotes", text[0])
	case p.c.op != matches && p.c.op != in && strings.ContainsAny(text[:1], "(["):
		return "", p.fail(start, "%s takes one value, a list goes with in; a value that begins with a bracket goes into quotes", p.c.op)
	}
	return text, nil
}

func (p *parser) quoted() (string, *Error) {
	open, quote := p.at, p.rest()[0]
	p.at++
	var b strings.Builder
	for p.at < len(p.text) {
		c := p.text[p.at]
		switch {
		case c == quote:
			p.at++
			if r, _ := utf8.DecodeRuneInString(p.rest()); p.rest() != "" && !unicode.IsSpace(r) && r != ',' && r != ')' {
				return "", p.fail(p.at, "unexpected %q after the closing quote", r)
			}
			return b.String(), nil
		case c == '\\' && p.at+1 < len(p.text):
			i := strings.IndexByte(`\"'nt`, p.text[p.at+1])
			if i < 0 {
				r, _ := utf8.DecodeRuneInString(p.text[p.at+1:])
				return "", p.fail(p.at, `\%c is no escape in quotes; a backslash is written \\`, r)
			}
			b.WriteByte("\\\"'\n\t"[i])
			p.at += 2
		default:
			b.WriteByte(c)
			p.at++
		}
	}
	return "", p.fail(open, "the value is not closed: the %c is missing", quote)
}

// value turns what was written into what the key compares. The message says what is wrong.
func (c *Constraint) value(text string) (value, string) {
	v := value{text: text}
	var err error
	switch class := c.key.what.class(); {
	case class == cpus:
		v.number, err = spell.CPUs(text)
	case class == memory:
		v.number, err = spell.Size(text)
	case class == count:
		if v.number, err = strconv.ParseInt(text, 10, 64); err != nil || v.number < 0 || strconv.FormatInt(v.number, 10) != text {
			return v, "expected a whole number, got " + strconv.Quote(spell.Clip(text))
		}
	case class == address:
		return v, v.parseNetwork()
	case c.op == matches:
		return v, c.compile(text)
	case c.op.orders() && !decimal(text):
		return v, c.op.String() + " compares a label with a number such as 3 or 2.5, got " + strconv.Quote(spell.Clip(text))
	}
	if err != nil {
		return v, err.Error()
	}
	return v, ""
}

// compile reads a regular expression, and refuses one that would cost much: a job's are asked of
// every peer.
func (c *Constraint) compile(text string) string {
	if len(text) > MaxRegexp {
		return "the regular expression has more than " + strconv.Itoa(MaxRegexp) + " bytes"
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err == nil && steps(tree) > maxSteps {
		return "the regular expression repeats too much: written out it has more than " + strconv.Itoa(maxSteps) + " steps"
	}
	if err == nil {
		c.re, err = regexp.Compile(text)
	}
	if err != nil {
		return "this is no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	}
	return ""
}

// steps is how long an expression is when its repetitions are written out. The parser has bounded
// those, and the text is short.
func steps(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1
	}
	for _, sub := range re.Sub {
		n += steps(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// parseNetwork reads an address, or a network with its length: 10.1.2.3/8 is 10.0.0.0/8.
func (v *value) parseNetwork() string {
	const want = "expected an address or a network, got "
	n, err := netip.ParsePrefix(v.text)
	if a, e := netip.ParseAddr(v.text); e == nil {
		if a.Zone() != "" {
			return "an address here has no zone, got " + strconv.Quote(spell.Clip(v.text))
		}
		n, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil {
		return want + strconv.Quote(spell.Clip(v.text))
	}
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	v.network = n.Masked()
	return ""
}
