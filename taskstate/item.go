package taskstate

import (
	"strings"
	"unicode/utf8"
)

// Frames and JSON carry text, the names of files are bytes. A job with an item that is not UTF-8 is
// Escaped: in all its items a backslash is written \\ and a byte that belongs to no character \xHH.
// Everybody passes that form on, and only the runner undoes it.

// EscapeItem writes bytes as an item of an Escaped job.
func EscapeItem(raw string) string {
	const hex = "0123456789abcdef"
	var b strings.Builder
	for len(raw) > 0 {
		r, n := utf8.DecodeRuneInString(raw)
		switch {
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + hex[raw[0]>>4:][:1] + hex[raw[0]&15:][:1])
		case r == '\\':
			b.WriteString(`\\`)
		default:
			b.WriteString(raw[:n])
		}
		raw = raw[n:]
	}
	return b.String()
}

// UnescapeItem gives the bytes of an item of an Escaped job. Only what EscapeItem writes is one:
// each item has one form.
func UnescapeItem(item string) (raw string, ok bool) {
	var b strings.Builder
	for rest := item; rest != ""; {
		i := strings.IndexByte(rest, '\\')
		if i < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:i])
		rest = rest[i:]
		switch {
		case strings.HasPrefix(rest, `\\`):
			b.WriteByte('\\')
			rest = rest[2:]
		case len(rest) >= 4 && rest[1] == 'x':
			high, low := unhex(rest[2]), unhex(rest[3])
			if high < 0 || low < 0 {
				return "", false
			}
			b.WriteByte(byte(high<<4 | low))
			rest = rest[4:]
		default:
			return "", false
		}
	}
	raw = b.String()
	return raw, EscapeItem(raw) == item
}

func unhex(c byte) int { return strings.IndexByte("0123456789abcdef", c) }

// RawItem is the item of a slot as its task gets it, to the byte.
func (j *Job) RawItem(item string) string {
	if !j.Escaped {
		return item
	}
	raw, ok := UnescapeItem(item)
	if !ok { // Validate lets none such pass
		return item
	}
	return raw
}
