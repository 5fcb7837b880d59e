package top

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
)

// paint puts a colour on a text, where there are any.
func (m *Model) paint(sgr, text string) string {
	if !m.Colour || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

// What colours mean. None of it is said by colour alone.
const (
	dim      = "2"
	bold     = "1"
	trouble  = "31"
	good     = "32"
	waiting  = "33"
	running  = "34"
	inverted = "7"
)

// clean takes out what would speak to the terminal: names and output come from anywhere.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '·'
		}
		return r
	}, s)
}

// cell is a text in exactly n columns.
func cell(text string, n int) string {
	w := ansi.StringWidth(text)
	if w > n {
		text = ansi.Truncate(text, n, "…")
		w = ansi.StringWidth(text)
	}
	return text + strings.Repeat(" ", max(0, n-w))
}

// bar is a part of one in n columns.
func bar(part float64, n int, full, empty string) string {
	k := int(part*float64(n) + 0.5)
	if part > 0 && k == 0 {
		k = 1
	}
	if part < 1 && k == n {
		k = n - 1
	}
	k = max(0, min(k, n))
	return strings.Repeat(full, k) + strings.Repeat(empty, n-k)
}

const steps = " ▁▂▃▄▅▆▇█"

// spark draws numbers from 0 to 1, the newest last, in n columns.
func spark(values []float64, n int) string {
	all := []rune(steps)
	values = values[max(0, len(values)-n):]
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(all[1+int(v*float64(len(all)-2)+0.5)])
	}
	return strings.Repeat(" ", n-len(values)) + b.String()
}

// span is a time for a glance.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f d", d.Hours()/24)
}

func many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
