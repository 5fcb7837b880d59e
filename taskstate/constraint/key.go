package constraint

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/coveyproject/covey/taskstate/spell"
)

// what is the fact a key names.
type what uint8

const (
	nothing what = iota
	peerID
	peerName
	peerOS
	peerArch
	peerCPUs
	peerMemory
	peerAddr
	peerLabel
	peerOffer
)

// words lists the keys as they are written; those that end in a dot are followed by a name.
const words = "peer.id peer.name peer.os peer.arch peer.cpus peer.memory peer.addr peer.label. peer.offer."

// MaxName caps the name of a label or an offer, in bytes.
const MaxName = 128

// class is how a fact is read and compared.
type class uint8

const (
	noClass class = iota
	textual
	label // text, and a number where one is asked for
	cpus
	memory
	count
	address
)

func (w what) class() class {
	switch w {
	case peerID, peerName, peerOS, peerArch:
		return textual
	case peerLabel:
		return label
	case peerCPUs:
		return cpus
	case peerMemory:
		return memory
	case peerOffer:
		return count
	case peerAddr:
		return address
	}
	return noClass
}

// Key names one fact about peers. It is comparable; the zero Key names none.
type Key struct {
	what what
	name string // of a label or an offer
}

// String is the key as it is written in a constraint.
func (k Key) String() string {
	if k.what == nothing {
		return ""
	}
	return strings.Fields(words)[k.what-1] + k.name
}

// Value is the fact as text, and whether the peer has it. Only keys that ParseOver accepts have
// one.
func (k Key) Value(f *Facts) (string, bool) {
	switch k.what {
	case peerID:
		return f.ID, f.ID != ""
	case peerName:
		return f.Name, f.Name != ""
	case peerOS:
		return f.OS, f.OS != ""
	case peerArch:
		return f.Arch, f.Arch != ""
	case peerLabel:
		v, ok := f.Labels[k.name]
		return v, ok
	}
	return "", false
}

func (k Key) number(f *Facts) int64 {
	switch k.what {
	case peerCPUs:
		return f.MilliCPU
	case peerMemory:
		return f.Memory
	case peerOffer:
		return f.Offers[k.name]
	}
	return 0
}

// ParseOver reads the key over whose values a job is spread, as in peer.label.zone: a label, or
// peer.os, peer.arch, peer.name, peer.id. The error says what is wrong and gives an example. "" is
// the zero Key: spread over nothing but the peers.
func ParseOver(text string) (Key, error) {
	const example = "peer.label.zone"
	if text == "" {
		return Key{}, nil
	}
	k, msg := parseKey(text)
	switch c := k.what.class(); {
	case msg != "":
		return Key{}, &Error{Index: -1, Column: 1, Problem: msg, Example: example}
	case c != textual && c != label:
		return Key{}, &Error{Index: -1, Column: 1, Problem: k.String() + " has no values to spread over; take a label", Example: example}
	}
	return k, nil
}

// CheckLabel tells what is wrong with the name of a label or an offer, so that constraints can ask
// for it.
func CheckLabel(name string) error {
	if msg := badName(name); msg != "" {
		return fmt.Errorf("the name of a label %s", msg)
	}
	return nil
}

func badName(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > MaxName:
		return fmt.Sprintf("has %d bytes, at most %d are allowed", len(name), MaxName)
	case strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }):
		return fmt.Sprintf("is letters, digits and . _ - /, got %q", spell.Clip(name))
	}
	return ""
}

func nameRune(r rune) bool {
	return r != unicode.ReplacementChar && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-/", r))
}

// parseKey reads a key in any case; the name of a label or an offer stays as it is. The message
// says what is wrong.
func parseKey(text string) (Key, string) {
	for i, w := range strings.Fields(words) {
		stem, named := strings.CutSuffix(w, ".")
		switch {
		case !named && strings.EqualFold(text, w):
			return Key{what: what(i + 1)}, ""
		case named && (strings.EqualFold(text, stem) || strings.EqualFold(text, w)):
			return Key{}, w + "NAME has no name"
		case named && len(text) >= len(w) && strings.EqualFold(text[:len(w)], w):
			if bad := badName(text[len(w):]); bad != "" {
				return Key{}, "the name after " + w + " " + bad
			}
			return Key{what: what(i + 1), name: text[len(w):]}, ""
		}
	}
	msg := fmt.Sprintf("unknown key %q", spell.Clip(text))
	if near := meantKey(text); near != "" {
		return Key{}, fmt.Sprintf("%s: did you mean %s? Known are %s", msg, near, known())
	}
	return Key{}, msg + "; known are " + known()
}

func known() string {
	list := strings.Fields(words)
	for i, w := range list {
		if strings.HasSuffix(w, ".") {
			list[i] = w + "NAME"
		}
	}
	return strings.Join(list, " ")
}

// meantKey is the key a person meant who wrote another one: what other systems call it, a name
// without peer. before it, or slips of the finger. "" if none is near.
func meantKey(text string) string {
	first, rest, dotted := strings.Cut(text, ".")
	switch strings.ToLower(first) {
	case "peer", "peers", "node", "host", "attr", "member", "engine":
	default:
		rest, dotted = text, true
	}
	kind, name, named := strings.Cut(rest, ".")
	low := strings.ToLower(kind)
	switch {
	case !dotted:
		return ""
	case named && (low == "label" || low == "labels" || low == "tag" || low == "tags" || low == "meta") && badName(name) == "":
		return "peer.label." + name
	case named && (low == "offer" || low == "offers" || low == "resources") && badName(name) == "":
		return "peer.offer." + name
	case named && low == "platform":
		low = strings.ToLower(name)
	}
	switch low {
	case "hostname", "host":
		return "peer.name"
	case "cpu", "cores", "ncpu":
		return "peer.cpus"
	case "mem", "ram":
		return "peer.memory"
	case "ip", "address", "addrs", "network", "cidr":
		return "peer.addr"
	case "architecture", "machine":
		return "peer.arch"
	case "gpu", "gpus":
		return "peer.offer.gpus"
	case "zone", "region", "rack", "datacenter", "dc":
		return "peer.label." + low
	}
	list := strings.Fields(strings.ReplaceAll(words, ". ", " "))
	if near := spell.Nearest(strings.ToLower(text), list); near != "" { // a slip in front of the dot: pear.os
		return near
	}
	return spell.Nearest("peer."+low, list)
}
