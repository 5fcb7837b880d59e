package admission

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxPeerName is how long a peer's name may be, in bytes.
const MaxPeerName = 63

// CheckName returns why a text is no name for a peer; "" is none. A name stands in tables, in
// commands that people paste and in questions about trust: it shows all there is in it, looks like
// no other kind of thing, and means nothing to a shell. Names arrive from other peers as well, and
// one that fails here is shown as its peer's key.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > MaxPeerName:
		return fmt.Errorf("is longer than %d bytes", MaxPeerName)
	case name == "self":
		return errors.New("means the peer that is asked, as in `peer drain self`")
	case strings.HasPrefix(name, "12D3KooW"):
		return errors.New("looks like a key")
	case !utf8.ValidString(name) || strings.TrimSpace(name) != name:
		return errors.New("is not one line of plain text")
	case strings.ContainsAny(name, `/\`) || name[0] == '.' || name[0] == '-':
		return errors.New("looks like a path or a flag")
	}
	return checkLetters(name)
}

// checkLetters allows letters of one script, with Latin beside the East Asian ones.
func checkLetters(name string) error {
	script, latin := "", false
	for _, r := range name {
		switch s := scriptOf(r); {
		case r < utf8.RuneSelf && (unicode.IsDigit(r) || strings.ContainsRune(" ._-+@:,", r)):
		case s == "":
			return fmt.Errorf("has %q in it; letters, digits, blanks and . _ - + @ : , are allowed", r)
		case s == "Latin":
			latin = true
		case script != "" && script != s:
			return fmt.Errorf("mixes letters of %s and %s", script, s)
		default:
			script = s
		}
	}
	switch {
	case latin && script != "" && script != eastAsian:
		return fmt.Errorf("mixes letters of Latin and %s", script)
	case script != "" && isASCII(Likeness(name)):
		return fmt.Errorf("looks like Latin letters and is %s", script)
	}
	return nil
}

// eastAsian stands for the scripts that are written together.
const eastAsian = "East Asian"

// scripts are those that names may have letters of: those in everyday use whose letters do not all
// look like those of another one.
var scripts = map[string][]*unicode.RangeTable{
	eastAsian:  {unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo},
	"Arabic":   {unicode.Arabic},
	"Armenian": {unicode.Armenian}, "Bengali": {unicode.Bengali}, "Cyrillic": {unicode.Cyrillic}, "Devanagari": {unicode.Devanagari}, "Ethiopic": {unicode.Ethiopic},
	"Georgian": {unicode.Georgian}, "Greek": {unicode.Greek}, "Gujarati": {unicode.Gujarati}, "Gurmukhi": {unicode.Gurmukhi}, "Hebrew": {unicode.Hebrew},
	"Kannada": {unicode.Kannada}, "Khmer": {unicode.Khmer}, "Lao": {unicode.Lao}, "Malayalam": {unicode.Malayalam}, "Myanmar": {unicode.Myanmar},
	"Sinhala": {unicode.Sinhala}, "Tamil": {unicode.Tamil}, "Telugu": {unicode.Telugu}, "Thai": {unicode.Thai}, "Tibetan": {unicode.Tibetan},
}

// scriptOf is the script of a letter that a name may have, "" of anything else: of what cannot be
// seen, and of the letters that are drawn like others – wide ones, mathematical ones.
func scriptOf(r rune) string {
	switch {
	case !unicode.IsLetter(r) && !unicode.IsMark(r), unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector), r >= 0xF900 && r <= 0xFFFF:
		return ""
	case r < 0x250, r >= 0x1E00 && r < 0x1F00:
		if unicode.Is(unicode.Latin, r) {
			return "Latin"
		}
		return ""
	}
	for name, tables := range scripts {
		if unicode.In(r, tables...) {
			return name
		}
	}
	return ""
}

// likeLatin has small letters that look like Latin ones, or like a digit or a blank that does; and
// bigLikeLatin those of which only the capital does: it is asked before case goes.
var (
	likeLatin = strings.NewReplacer(
		"а", "a", "с", "c", "е", "e", "һ", "h", "і", "i", "ј", "j", "ӏ", "l", "о", "o", "р", "p", "ԛ", "q", "ѕ", "s", "ԝ", "w", "х", "x", "у", "y", "ԁ", "d", // Cyrillic
		"α", "a", "ο", "o", "ν", "v", "ρ", "p", "ι", "i", "υ", "u", "κ", "k", "γ", "y", "τ", "t", "χ", "x", // Greek
		"օ", "o", "ո", "n", "ս", "u", "հ", "h", "ց", "g", "զ", "q", // Armenian
		"0", "o", "1", "l", "rn", "m", "vv", "w", "_", "-", " ", "-", ".", "-",
	)
	bigLikeLatin = strings.NewReplacer(
		"I", "l", "Ι", "l", "І", "l", // an i looks like no l
		"В", "b", "Н", "h", "К", "k", "М", "m", "Т", "t", "Β", "b", "Ε", "e", "Ζ", "z", "Η", "h", "Μ", "m", "Ν", "n",
	)
)

// Likeness is the same for names that a reader takes for each other: without case, and with one
// letter for those that look alike.
func Likeness(name string) string {
	return likeLatin.Replace(strings.ToLower(bigLikeLatin.Replace(name)))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
