package taskstate

import (
	"strings"
	"unicode/utf8"
)

// ClipText makes any bytes a valid text of at most limit bytes: a batch with anything else would be
// refused by everybody.
func ClipText(s string, limit int) string {
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}
