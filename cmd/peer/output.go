package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// emit writes an answer in the format asked for, or returns why there is none: whole is the JSON
// object, rows its elements for jsonl, table the text form.
func emit[R any](c *cli, err error, whole any, rows []R, table func(io.Writer)) error {
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return writeJSON(c.Out, whole)
	case c.output == "jsonl":
		enc := encoder(c.Out)
		for _, r := range rows {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	table(c.Out)
	return nil
}

func writeJSON(w io.Writer, v any) error {
	enc := encoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// encoder writes JSON for a terminal: no web page will hold it, and a shell's && and <file stay
// what they are.
func encoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// grid is a table: a header and rows, aligned by what a person sees (runes, not bytes). A long one
// may be written piece by piece: its columns become wider where they must, and never narrower.
type grid struct {
	head  []string
	rows  [][]string
	width []int // nil before the first piece
	room  int   // columns a line may take; 0: as many as it likes
}

// fit has a table not be wider than the terminal it is written to: a last cell that has no room
// goes below its row, and what has none there is cut.
func (g *grid) fit(w io.Writer) *grid {
	if isTerminal(w) {
		g.room = widthOf(w) - 1 // the last column makes some terminals go to the next line
	}
	return g
}

func table(head ...string) *grid { return &grid{head: head} }

func (g *grid) add(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	g.rows = append(g.rows, cells)
}

// write writes the rows that were added since the last time, the first time below the header.
func (g *grid) write(w io.Writer) {
	st := styleFor(w)
	if column := slices.Index(g.head, stateColumn); st && column >= 0 {
		for _, r := range g.rows {
			r[column] = glyph(r[column]) + " " + r[column]
		}
	}
	rows, first := g.rows, g.width == nil
	if first {
		rows, g.width = append([][]string{g.head}, rows...), make([]int, len(g.head))
	}
	g.rows = nil
	width := g.width
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	g.narrow()
	for n, r := range rows {
		var b strings.Builder
		r, below := g.fitted(r)
		for i, cell := range r {
			switch {
			case first && n == 0:
				b.WriteString(st.dim(cell))
			case g.head[i] == stateColumn:
				b.WriteString(st.state(cell))
			default:
				b.WriteString(cell)
			}
			if i < len(r)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		if below != "" && (n > 0 || !first) { // what stands below a row needs no head
			fmt.Fprintln(w, "  "+below)
		}
	}
}

// narrow takes from the widest columns what the others need, but for ids, which are typed again,
// and the last one: names and items may be long.
func (g *grid) narrow() {
	all := -2
	for _, w := range g.width[:len(g.width)-1] {
		all += w + 2
	}
	for ; g.room > 0 && all > g.room; all-- {
		widest := -1
		for i, w := range g.width[:len(g.width)-1] {
			if !slices.Contains([]string{"ID", "TASK", "JOB"}, g.head[i]) && w > 8 && (widest < 0 || w > g.width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		g.width[widest]--
	}
}

// fitted is a row that has room, and what goes below it.
func (g *grid) fitted(r []string) (row []string, below string) {
	if g.room == 0 {
		return r, ""
	}
	column := 0
	for i, cell := range r {
		if i < len(r)-1 {
			cell = clip(cell, g.width[i])
			r[i] = cell
		}
		switch room := g.room - column; {
		case utf8.RuneCountInString(cell) <= room:
		case i == len(r)-1:
			return r[:i], clip(cell, g.room-2)
		case room <= 0:
			r[i] = ""
		default:
			r[i] = clip(cell, room)
		}
		column += g.width[i] + 2
	}
	return r, ""
}

// style colours text on a terminal, and nowhere else.
type style bool

func styleFor(w io.Writer) style {
	return style(isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func isTerminal(w io.Writer) bool {
	f, ok := fileOf(w)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

func (s style) paint(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) dim(text string) string { return s.paint("2", text) }

// stateColumn is the head of the one column whose words are states: a name `ready` is no state.
const stateColumn = "STATE"

// state colours the words for how something stands: green is well, blue is under way, dim waits,
// red went wrong.
func (s style) state(text string) string {
	_, word, marked := strings.Cut(text, " ")
	if !marked {
		word = text
	}
	switch word {
	case "ready", "complete":
		return s.paint("32", text)
	case "running", "starting", "preparing", "saving":
		return s.paint("34", text)
	case "pending", "held", "assigned", "accepted", "cancelled", "left", "stopped":
		return s.dim(text)
	case "suspect", "detached", "unknown":
		return s.paint("33", text)
	case "failed", "could not start", "lost", "unreachable":
		return s.paint("31", text)
	}
	return text
}

// glyph says a state without a colour.
func glyph(state string) string {
	switch state {
	case "ready", "running", "starting", "preparing", "saving":
		return "●"
	case "complete":
		return "✓"
	case "failed", "could not start", "lost", "unreachable":
		return "✗"
	case "suspect", "detached", "unknown":
		return "◐"
	}
	return "○"
}

func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return short(time.Since(t))
}

// short writes a duration the way people read it: two significant places at most.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func bytesText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%dB", n)
	}
	v, i := float64(n), -1
	for v >= unit && i < 4 {
		v /= unit
		i++
	}
	return fmt.Sprintf("%s%ciB", number(v), "KMGTP"[i])
}

// number writes about three digits, never an exponent.
func number(v float64) string {
	decimals := 2
	for rest := v; rest >= 9.995 && decimals > 0; rest /= 10 {
		decimals--
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// shortID cuts a peer id to what tells peers apart on a screen; JSON always has the whole.
func shortID(id string) string {
	if len(id) > 12 {
		return id[len(id)-8:]
	}
	return id
}

func writeLine(w io.Writer, v any) error { return encoder(w).Encode(v) }
