package shell

import (
	"fmt"
	"strings"
)

// Mark is what a {word} in a command stands for. The zero value is of a text that is no mark.
type Mark struct {
	Variable string // the variable with the value
	Later    bool   // the runner fills it in
	Near     string // the word that the author probably meant: {word} is refused
}

// miss is the error for a word that is almost one of the marks.
func (m Mark) miss(text, literal string) error {
	return fmt.Errorf("there is no %s to fill in: did you mean {%s}? For the text %s itself write %s", text, m.Near, text, literal)
}

// Marks says what a word between braces stands for.
type Marks func(word string) Mark

// At is the mark that begins at a place in a text: how it is written and what it stands for. Braces
// with a $ before them are the shell's, unless nothing stands between them.
func (ms Marks) At(s string, at int) (text string, m Mark) {
	if s[at] != '{' {
		return "", Mark{}
	}
	n := strings.IndexByte(s[at:min(len(s), at+maxMark)], '}')
	if n < 0 {
		return "", Mark{}
	}
	word := s[at+1 : at+n]
	if strings.Trim(word, letters) != "" || word != "" && at > 0 && s[at-1] == '$' {
		return "", Mark{}
	}
	return s[at : at+n+1], ms(word)
}

// maxMark is how long a mark may be, braces included.
const maxMark = 64 + 2

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

// FillWord replaces the marks in a word that no shell reads, but for those of Later. A mark behind
// a backslash is text.
func (ms Marks) FillWord(s string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] == '\\' && i+1 < len(s) {
			if text, m := ms.At(s, i+1); m != (Mark{}) {
				i += 1 + len(text)
				if m.Later {
					b.WriteByte('\\')
				}
				b.WriteString(text)
				continue
			}
		}
		text, m := ms.At(s, i)
		switch {
		case m == Mark{}:
			text = s[i : i+1]
			b.WriteString(text)
		case m.Near != "":
			return "", m.miss(text, `\`+text)
		case m.Later:
			b.WriteString(text)
		default:
			b.WriteString("${" + m.Variable + "}")
		}
		i += len(text)
	}
	return b.String(), nil
}

// KeepWord writes a word so that FillWord makes that word of it. Marks of Later stay marks.
func (ms Marks) KeepWord(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if _, m := ms.At(s, i); m != (Mark{}) && !m.Later {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
