package shell

import (
	"fmt"
	"strings"
)

// Fill replaces each {} in a line by a reference to an environment variable, so that the shell puts
// in its value and nothing else. A {} in a comment and \{} stay as they are.
func Fill(line, variable string) (string, error) {
	return FillMarks(line, func(word string) Mark {
		if word == "" {
			return Mark{Variable: variable}
		}
		return Mark{}
	})
}

// FillMarks is Fill for all marks that a line may have. A mark of Later is checked, and stays.
func FillMarks(line string, marks Marks) (string, error) { return through(line, marks, false) }

// Keep writes a line so that FillMarks leaves it to the shell as it is, but for marks of Later. The
// error says where a line cannot be written so.
func Keep(line string, marks Marks) (string, error) { return through(line, marks, true) }

func through(line string, marks Marks, keep bool) (string, error) {
	if !strings.Contains(line, "{") {
		return line, nil
	}
	f := filler{line: line, marks: marks, keep: keep, stack: []place{words}, fresh: true}
	for f.at < len(line) {
		if err := f.next(); err != nil {
			return "", err
		}
	}
	return f.out.String(), nil
}

// place is what the shell takes characters for.
type place byte

const (
	words  place = iota // words of a command, also those in $( ) and ( )
	quotes              // between double quotes
	sums                // $(( )), which takes no words
	braces              // ${ }
)

// filler goes through a line once.
type filler struct {
	line  string
	marks Marks
	keep  bool // marks are escaped, and not filled
	at    int
	out   strings.Builder
	stack []place // the innermost place last; never empty
	fresh bool    // a word would begin here
	blind string  // what makes the rest of the line unknown, "" if nothing does
}

func (f *filler) next() error {
	rest, top := f.line[f.at:], f.stack[len(f.stack)-1]
	fresh := f.fresh
	f.fresh = false
	switch c := rest[0]; {
	case c == '{':
		return f.fill(top)
	case f.blind != "":
		f.copy(1)
	case c == '\\':
		f.copy(min(2, len(rest)))
	case c == '`':
		return f.backquotes(spanOf(rest, '`', '\\'))
	case strings.HasPrefix(rest, "$(("):
		f.enter(3, sums, sums)
	case strings.HasPrefix(rest, "$("):
		f.enter(2, words)
		f.fresh = true
	case strings.HasPrefix(rest, "${"):
		f.enter(2, braces)
	case top == words:
		return f.word(rest, fresh)
	default:
		f.enclosed(c, top)
	}
	return nil
}

// word goes on among the words of a command.
func (f *filler) word(rest string, fresh bool) error {
	switch c := rest[0]; {
	case c == '\'':
		return f.single(spanOf(rest, '\'', 0))
	case c == '"':
		f.enter(1, quotes)
	case c == '#' && fresh:
		f.copy(len(rest) - len(strings.TrimLeft(rest, "#"))) // up to the end of the line it is a comment
		if end := strings.IndexByte(f.line[f.at:], '\n'); end >= 0 {
			f.copy(end)
		} else {
			f.copy(len(f.line) - f.at)
		}
	case strings.HasPrefix(rest, "$'"):
		f.lose("$'…', which shells read differently")
	case strings.HasPrefix(rest, "<<"):
		f.lose("a here-document")
	case fresh && len(f.stack) > 1 && strings.HasPrefix(rest, "case"):
		f.lose("a case inside parentheses") // whose patterns end with a parenthesis of their own
	case c == '(':
		f.enter(1, words)
		f.fresh = true
	case c == ')':
		f.leave(words)
		f.fresh = true
	default:
		f.copy(1)
		f.fresh = strings.IndexByte(" \t\n;&|<>", c) >= 0
	}
	return nil
}

// enclosed goes on between double quotes, in a sum or in braces.
func (f *filler) enclosed(c byte, top place) {
	switch {
	case c == '"' && top == quotes:
		f.leave(quotes)
	case top == quotes:
		f.copy(1)
	case c == '"' || c == '\'':
		f.lose("quotes inside ${ } or $(( ))")
	case c == '}' && top == braces:
		f.leave(braces)
	case c == '(' && top == sums:
		f.enter(1, sums)
	case c == ')' && top == sums:
		f.leave(sums)
	default:
		f.copy(1)
	}
}

// fill puts the reference where a mark stands, if one begins here.
func (f *filler) fill(top place) error {
	text, m := f.marks.At(f.line, f.at)
	safe := f.blind == "" && (top == words || top == quotes)
	switch {
	case m == Mark{} || m.Near != "" && !safe:
		f.copy(1)
		return nil
	case f.blind != "":
		return refuse(text, m, "behind "+f.blind)
	case !safe:
		return refuse(text, m, "inside ${ } or $(( ))")
	case m.Later:
		f.out.WriteString(text)
	case f.keep && top == quotes:
		f.out.WriteString(`{""` + text[1:])
	case f.keep:
		f.out.WriteString(`\` + text)
	case m.Near != "":
		return m.miss(text, `\`+text)
	case top == quotes:
		f.out.WriteString("${" + m.Variable + "}")
	default:
		f.out.WriteString(`"${` + m.Variable + `}"`)
	}
	f.at += len(text)
	return nil
}

// single copies what stands in single quotes, in which no reference is expanded.
func (f *filler) single(n int) error {
	for end := f.at + n; f.at < end; {
		text, m := f.marks.At(f.line[:end], f.at)
		apart := "{''" + strings.TrimPrefix(text, "{")
		switch {
		case m == Mark{}:
			f.copy(1)
			continue
		case f.keep && !m.Later:
			f.out.WriteString(apart)
		case m.Near != "":
			return m.miss(text, apart)
		default:
			return refuse(text, m, "inside single quotes")
		}
		f.at += len(text)
	}
	return nil
}

// backquotes copies what stands in them, unless a mark does.
func (f *filler) backquotes(n int) error {
	for end := f.at + n; f.at < end; f.copy(1) {
		if text, m := f.marks.At(f.line[:end], f.at); m != (Mark{}) && m.Near == "" {
			return refuse(text, m, "inside backquotes")
		}
	}
	return nil
}

// spanOf is how long what begins and ends with the same quote is; escape takes the quote's meaning
// away, 0: nothing does. One that does not end takes all of the line.
func spanOf(rest string, quote, escape byte) int {
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == quote:
			return i + 1
		case escape != 0 && rest[i] == escape:
			i++
		}
	}
	return len(rest)
}

func refuse(text string, m Mark, where string) error {
	return fmt.Errorf(`%s stands %s, where an item cannot be put in safely: end the quotes before it, as in 'a '%s' b', or use "$%s"; for the text %s itself write \%s outside of quotes`,
		text, where, text, m.Variable, text, text)
}

func (f *filler) copy(n int) {
	f.out.WriteString(f.line[f.at : f.at+n])
	f.at += n
}

func (f *filler) enter(n int, p ...place) {
	f.copy(n)
	f.stack = append(f.stack, p...)
}

// leave ends the innermost place, if it is that one and not the line itself.
func (f *filler) leave(p place) {
	f.copy(1)
	if n := len(f.stack); n > 1 && f.stack[n-1] == p {
		f.stack = f.stack[:n-1]
	}
}

// lose: what follows may be read by the shell in ways that are not followed here.
func (f *filler) lose(why string) {
	f.blind = why
	f.copy(1)
}
