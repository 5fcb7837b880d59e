package membership

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/admission"
)

const (
	maxBook      = 4096 // peers; the longest unseen go first
	maxBookAddrs = 16   // addresses per peer
)

type record struct {
	ID    string           `json:"id"`
	Name  string           `json:"name,omitempty"`
	Addrs []string         `json:"addrs,omitempty"`
	Roles []admission.Role `json:"roles,omitempty"`
	Seen  int64            `json:"seen,omitempty"` // milliseconds since 1970, 0: never met, only told of
}

func (r record) meta() meta { return meta{Name: r.Name, Addrs: r.Addrs, Roles: packRoles(r.Roles)} }

// book is who was ever here. It is not concurrent.
type book struct {
	path  string
	peers map[string]record
	dirty bool
}

// openBook reads the file, one JSON object per line. Lines that cannot be read are skipped and
// counted: the book is a help for coming back, so half of it is better than none, and it fills
// itself again.
func openBook(path string) (b *book, torn int, err error) {
	b = &book{path: path, peers: map[string]record{}}
	if path == "" {
		return b, 0, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the peer book: %w; make %s readable for this user, or delete it (peers then find this one by a ticket)", err, path)
	}
	for line := range bytes.Lines(data) {
		if len(b.peers) == maxBook {
			break
		}
		var r record
		if json.Unmarshal(line, &r) != nil || r.ID == "" {
			torn++
			continue
		}
		r.Addrs = r.Addrs[:min(len(r.Addrs), maxBookAddrs)]
		b.peers[r.ID] = r
	}
	return b, torn, nil
}

// met: the peer is alive and says where it is.
func (b *book) met(id string, m meta, now int64) {
	b.put(record{ID: id, Name: m.Name, Addrs: m.Addrs, Roles: unpackRoles(m.Roles), Seen: now})
}

// told: somebody says where the peer is; that comes before what was known.
func (b *book) told(p PeerAddr) {
	r := b.peers[p.ID]
	r.ID = p.ID
	addrs := slices.Clone(p.Addrs)
	for _, a := range r.Addrs {
		if !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	r.Addrs = addrs
	b.put(r)
}

func (b *book) put(r record) {
	r.Addrs = slices.Clone(r.Addrs[:min(len(r.Addrs), maxBookAddrs)])
	old, ok := b.peers[r.ID]
	if ok && old.Name == r.Name && slices.Equal(old.Addrs, r.Addrs) && slices.Equal(old.Roles, r.Roles) {
		b.peers[r.ID] = r // only seen again: not worth a write
		return
	}
	b.peers[r.ID] = r
	b.dirty = true
	if len(b.peers) > maxBook {
		b.dropOldest()
	}
}

func (b *book) dropOldest() {
	var oldest record
	for _, r := range b.peers {
		if oldest.ID == "" || r.Seen < oldest.Seen || r.Seen == oldest.Seen && r.ID < oldest.ID {
			oldest = r
		}
	}
	delete(b.peers, oldest.ID)
}

// seen stamps a peer that is alive right now, before a save.
func (b *book) seen(id string, now int64) {
	if r, ok := b.peers[id]; ok {
		r.Seen = now
		b.peers[id] = r
	}
}

func (b *book) forget(id string) {
	if _, ok := b.peers[id]; ok {
		delete(b.peers, id)
		b.dirty = true
	}
}

// encode is the file's content, newest first.
func (b *book) encode() []byte {
	rs := make([]record, 0, len(b.peers))
	for _, r := range b.peers {
		rs = append(rs, r)
	}
	slices.SortFunc(rs, func(x, y record) int {
		if x.Seen != y.Seen {
			if x.Seen > y.Seen {
				return -1
			}
			return 1
		}
		return strings.Compare(x.ID, y.ID)
	})
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for _, r := range rs {
		_ = enc.Encode(r) // plain strings and numbers
	}
	return out.Bytes()
}

// writeBook replaces the file: whole or not at all.
func writeBook(path string, data []byte) error {
	if err := atomicfile.Write(path, data); err != nil {
		return fmt.Errorf("cannot write the peer book: %w", err)
	}
	return nil
}
