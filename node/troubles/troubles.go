// Package troubles keeps what a peer knows to be wrong with peers, itself included, and joins it
// with what others know. It does not find out what is wrong, and does nothing about it.
package troubles

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// maxTroubles bounds what is kept about one peer, and maxTroubleText one message: what others say
// of themselves is in there, too.
const (
	maxTroubles    = 16
	maxTroubleText = 512
)

// Troubles is what is wrong with peers, as this one knows it: by peer, and by a code that does not
// change, so that saying a thing again replaces what was said before. Safe for concurrent use. It
// is bounded by the peers that are members and maxTroubles.
type Troubles struct {
	mu sync.Mutex
	of map[taskstate.PeerID]map[string]string // message by code
}

// Set notes a trouble of a peer and tells whether that is news: the caller logs it then.
func (t *Troubles) Set(peer taskstate.PeerID, code, message string) (news bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[taskstate.PeerID]map[string]string{}
	}
	all := t.of[peer]
	if all == nil {
		all = map[string]string{}
		t.of[peer] = all
	}
	_, known := all[code]
	if !known && len(all) >= maxTroubles {
		return false
	}
	all[code] = text(message)
	return !known
}

// Clear takes a trouble back and tells whether there was one.
func (t *Troubles) Clear(peer taskstate.PeerID, code string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.of[peer][code]
	delete(t.of[peer], code)
	if len(t.of[peer]) == 0 {
		delete(t.of, peer)
	}
	return known
}

// List is what is wrong with a peer, ordered by code.
func (t *Troubles) List(peer taskstate.PeerID) (out []api.Trouble) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, code := range slices.Sorted(maps.Keys(t.of[peer])) {
		out = append(out, api.Trouble{Code: code, Message: t.of[peer][code]})
	}
	return out
}

// Messages are the troubles as a person reads them.
func Messages(list []api.Trouble) (out []string) {
	for _, t := range list {
		out = append(out, t.Message)
	}
	return out
}

// There has commands that another peer says are to be typed read as what is typed at that peer, not
// here: readers complete them with how they ask their own.
func CommandsTypedThere(list []api.Trouble) []api.Trouble {
	out := slices.Clone(list)
	for i := range out {
		out[i].Message = command.ReplaceAllStringFunc(out[i].Message, func(found string) string {
			if strings.HasSuffix(found, "`") {
				found += " there"
			}
			return found
		})
	}
	return out
}

// command is one in a message, with the word after it if that says where it is typed.
var command = regexp.MustCompile(`\x60peer [^\x60]*\x60( there| on | at )?`)

// Merge is both lists, ordered by code; where both have a code, the first counts.
func Merge(own, told []api.Trouble) []api.Trouble {
	out := slices.Clone(own)
	for _, t := range told {
		if len(out) >= maxTroubles {
			break
		}
		if !slices.ContainsFunc(out, func(o api.Trouble) bool { return o.Code == t.Code }) {
			out = append(out, api.Trouble{Code: t.Code, Message: text(t.Message)})
		}
	}
	slices.SortStableFunc(out, func(a, b api.Trouble) int { return cmp.Compare(a.Code, b.Code) })
	return out
}

// text keeps a message to its bound, and to text.
func text(s string) string {
	if len(s) > maxTroubleText {
		s = s[:maxTroubleText]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(s, "?")
}
