package constraint

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coveyproject/covey/taskstate/spell"
)

// Limits of what is read.
const (
	MaxText    = 4096 // bytes of one constraint
	MaxList    = 64   // values of in
	MaxRegexp  = 256  // bytes of a regular expression
	maxSteps   = 500  // of one, with its repetitions written out: what matching a text may cost per character
	MaxRegexps = 8    // regular expressions of one job
	MaxCount   = 64   // constraints of one job
)

// Error says what is wrong with a constraint, where, and what a right one looks like.
type Error struct {
	Index   int    // which one of a list, from 0; -1 where there is no list
	Column  int    // where in its text, from 1, in characters
	Problem string // "unknown key "peer.oss": did you mean peer.os?"
	Example string // a constraint that would be right
}

// Error is Problem with where and the example. It does not repeat the text.
func (e *Error) Error() string {
	where := fmt.Sprintf("column %d: ", e.Column)
	if e.Index >= 0 {
		where = fmt.Sprintf("constraints[%d]: %s", e.Index, where)
	}
	return where + e.Problem + ", as in: " + e.Example
}

// ParseAll reads a job's constraints, all of which must hold. The first that cannot be read is an
// *Error with its index.
func ParseAll(texts []string) ([]Constraint, error) {
	if len(texts) > MaxCount {
		p := fmt.Sprintf("there are %d constraints, at most %d are allowed; say several values at once with in", len(texts), MaxCount)
		return nil, &Error{Index: MaxCount, Column: 1, Problem: p, Example: example(Key{what: peerLabel, name: "zone"}, in)}
	}
	var out []Constraint
	regexps := 0
	for i, text := range texts {
		c, err := parse(text)
		if c.op == matches {
			regexps++
		}
		if regexps > MaxRegexps {
			p := fmt.Sprintf("there are more than %d regular expressions; join them with |", MaxRegexps)
			return nil, &Error{Index: i, Column: 1, Problem: p, Example: c.key.String() + ` =~ "^(east|west)-"`}
		}
		if err != nil {
			err.Index = i
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// Parse reads one constraint. What cannot be read is an *Error; nothing is guessed.
func Parse(text string) (Constraint, error) {
	c, err := parse(text)
	if err != nil {
		return Constraint{}, err
	}
	return c, nil
}

// parser reads a text from left to right.
type parser struct {
	text string
	at   int // bytes read
	c    Constraint
}

func parse(text string) (Constraint, *Error) {
	p := &parser{text: text}
	for _, step := range []func() *Error{p.sane, p.readKey, p.readOp, p.readValues, p.readEnd} {
		if err := step(); err != nil {
			return Constraint{}, err
		}
	}
	if p.c.text = p.c.canonical(); len(p.c.text) > MaxText {
		return Constraint{}, p.fail(0, "written out it has %d bytes, at most %d are allowed", len(p.c.text), MaxText)
	}
	return p.c, nil
}

// fail is an error at a byte of the text.
func (p *parser) fail(at int, format string, args ...any) *Error {
	k, o := p.c.key, p.c.op
	if k.what == nothing {
		k = Key{what: peerOS}
	}
	return &Error{Index: -1, Column: utf8.RuneCountInString(p.text[:at]) + 1, Problem: fmt.Sprintf(format, args...), Example: example(k, o)}
}

// sane refuses what no constraint has anywhere, so that what is shown of one is safe to show.
func (p *parser) sane() *Error {
	if len(p.text) > MaxText {
		return p.fail(0, "it has %d bytes, at most %d are allowed", len(p.text), MaxText)
	}
	for i, r := range p.text {
		_, size := utf8.DecodeRuneInString(p.text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return p.fail(i, "this is no UTF-8 text")
		case unicode.IsControl(r) && r != '\t', unicode.Is(unicode.Bidi_Control, r):
			return p.fail(i, "the character %U cannot be shown", r)
		}
	}
	return nil
}

// word takes characters as long as they are wanted.
func (p *parser) word(wanted func(rune) bool) string {
	start := p.at
	for p.at < len(p.text) {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		if !wanted(r) {
			break
		}
		p.at += size
	}
	return p.text[start:p.at]
}

func (p *parser) skipSpace() { p.word(unicode.IsSpace) }

func (p *parser) rest() string { return p.text[p.at:] }

func isOpRune(r rune) bool { return strings.ContainsRune("=!<>~", r) }

func (p *parser) readKey() *Error {
	p.skipSpace()
	start := p.at
	key := p.word(func(r rune) bool { return !unicode.IsSpace(r) && !isOpRune(r) && !strings.ContainsRune(`()",'`, r) })
	if key == "" {
		if p.rest() == "" {
			return p.fail(start, "it is empty: expected a key, an operator and a value")
		}
		return p.fail(start, "expected a key first, one of %s", known())
	}
	k, msg := parseKey(key)
	if msg != "" {
		return p.fail(start, "%s", msg)
	}
	p.c.key = k
	return nil
}

func (p *parser) readOp() *Error {
	p.skipSpace()
	start := p.at
	text := p.word(isOpRune)
	if text == "" {
		text = p.word(func(r rune) bool { return unicode.IsLetter(r) || r == '_' })
		if o := parseOp(strings.ToLower(text)); o == in {
			text = "in"
		}
	}
	o := parseOp(text)
	switch {
	case text == "" && p.rest() == "":
		return p.fail(start, "an operator and a value are missing after %s; operators are %s", p.c.key, ops)
	case text == "":
		return p.fail(start, "expected an operator after %s, one of %s", p.c.key, ops)
	case o == noOp && meantOp(text) != "":
		return p.fail(start, "unknown operator %q: did you mean %s? Known are %s", spell.Clip(text), meantOp(text), ops)
	case o == noOp:
		return p.fail(start, "unknown operator %q; known are %s", spell.Clip(text), ops)
	}
	if msg := p.c.key.what.class().refuses(o); msg != "" {
		return p.fail(start, "%s %s", p.c.key, msg)
	}
	p.c.op = o
	return nil
}

// refuses says why an operator makes no sense for a fact; "" if it does.
func (c class) refuses(o op) string {
	switch {
	case o == matches && c != textual && c != label:
		return "is no text: =~ does not work on it"
	case o.orders() && (c == textual || c == address):
		return fmt.Sprintf("has no order: %s does not work on it", o)
	}
	return ""
}

func (p *parser) readEnd() *Error {
	p.skipSpace()
	if p.rest() == "" {
		return nil
	}
	if low := strings.ToLower(p.rest()); strings.HasPrefix(low, "&&") || strings.HasPrefix(low, "and ") || strings.HasPrefix(low, "||") || strings.HasPrefix(low, "or ") {
		return p.fail(p.at, "one constraint is one condition: write a list of them, all of which must hold, or several values with in")
	}
	return p.fail(p.at, "unexpected %q after the value; a value with spaces goes into quotes", spell.Clip(p.rest()))
}
