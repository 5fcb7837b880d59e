package main

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/coveyproject/covey/node/api"
)

// printable spells out what would break a row or speak to the terminal: items, labels and messages
// come from anywhere.
func printable(s string) string {
	if !strings.ContainsFunc(s, unprintable) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unprintable(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func unprintable(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// printableLines is printable for a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

// verbatim are the fields of an answer that a command writes to the byte, or makes printable.
var verbatim = []string{"Item"}

// printableStrings makes every string of an answer printable, so that no command can forget it. It
// is given a pointer.
func printableStrings(value any) { printableIn(reflect.ValueOf(value)) }

func printableIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); v.CanSet() && strings.ContainsFunc(s, unprintable) {
			v.SetString(printable(s))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			printableIn(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			printableIn(v.Index(i))
		}
	case reflect.Map:
		printableMap(v)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[api.JobFile]() { // written to the byte: its own quotes spell out what is not text
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !slices.Contains(verbatim, f.Name) {
				printableIn(v.Field(i))
			}
		}
	}
}

// printableMap replaces keys and values: neither can be changed where it is.
func printableMap(m reflect.Value) {
	for _, key := range m.MapKeys() {
		k, v := reflect.New(key.Type()).Elem(), reflect.New(m.Type().Elem()).Elem()
		k.Set(key)
		v.Set(m.MapIndex(key))
		printableIn(k)
		printableIn(v)
		m.SetMapIndex(key, reflect.Value{})
		m.SetMapIndex(k, v)
	}
}
