package admission

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/wire"
)

// ErrDamaged is returned, beside a usable empty roster or chain of seats, when its file did not
// survive: the ledger's replica or the next contact fills it again.
var ErrDamaged = errors.New("file is damaged")

const (
	rosterMagic   = "covey roster 1\n"
	maxRosterFile = 16 << 20 // bytes
)

type rosterFile struct {
	Cluster string  `cbor:"1,keyasint"`
	Entries []Entry `cbor:"2,keyasint"`

	Roots []string `cbor:"3,keyasint,omitempty"`
}

// OpenRoster reads the roster at path, which need not exist yet. A damaged file is moved aside and
// reported with ErrDamaged *together with* an empty roster to go on with; any other error comes
// with nil. verify is how signatures are checked: p2p.Verify.
func OpenRoster(path string, verify VerifyFunc) (*Roster, error) {
	r := &Roster{path: path, verify: verify, kept: &roll{entries: map[string]Entry{}}}
	r.now.Store(r.kept)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the roster: %w", err)
	}
	var b []byte
	if info.Size() <= maxRosterFile {
		if b, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("open the roster: %w", err)
		}
	}
	l, err := decodeRoll(b)
	if err == nil {
		r.kept = l
		r.now.Store(l)
		return r, nil
	}
	aside := path + ".damaged"
	if mv := os.Rename(path, aside); mv != nil {
		return nil, fmt.Errorf("the roster %w (%v) and cannot be moved aside: %w", ErrDamaged, err, mv)
	}
	return r, fmt.Errorf("the roster %w (%v): moved to %s; who is admitted is learnt again from the ledger or the next contact", ErrDamaged, err, aside)
}

func decodeRoll(b []byte) (*roll, error) {
	body, err := summed(rosterMagic, b)
	if err != nil {
		return nil, err
	}
	var f rosterFile
	if err := wire.Unmarshal(body, &f); err != nil {
		return nil, err
	}
	l := &roll{cluster: f.Cluster, entries: make(map[string]Entry, len(f.Entries)), roots: f.Roots}
	for _, e := range f.Entries {
		if err := l.put(e); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func encodeRoll(l *roll) ([]byte, error) {
	f := rosterFile{Cluster: l.cluster, Entries: make([]Entry, 0, len(l.entries)), Roots: l.roots}
	for _, e := range l.entries {
		f.Entries = append(f.Entries, e)
	}
	body, err := wire.Marshal(f)
	if err != nil {
		return nil, err
	}
	return withSum(rosterMagic, body), nil
}

// withSum is a file's content: what it is, a checksum, the body.
func withSum(magic string, body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(append([]byte(magic), sum[:]...), body...)
}

// summed is the body of what withSum wrote.
func summed(magic string, b []byte) ([]byte, error) {
	body, ok := bytes.CutPrefix(b, []byte(magic))
	if !ok || len(body) < sha256.Size {
		return nil, fmt.Errorf("it does not begin with %q", magic)
	}
	sum, body := body[:sha256.Size], body[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, errors.New("its checksum does not fit, it was not written to its end")
	}
	return body, nil
}

// saveRoll replaces the file in one step: a crash leaves the old one or the new one. An empty path
// keeps the roster in memory only.
func saveRoll(path string, l *roll) error {
	if path == "" {
		return nil
	}
	b, err := encodeRoll(l)
	if err == nil {
		err = atomicfile.Write(path, b)
	}
	if err != nil {
		return fmt.Errorf("save the roster: %w", err)
	}
	return nil
}
