package seal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/wire"
)

// Limits.
const (
	MaxRecipients = 64       // of one seal
	MaxPlain      = 80 << 10 // bytes of a bundle as it is encoded
	MaxSealed     = 96 << 10 // bytes of a sealed one

	maxKeyFile    = 4 << 10
	maxRecipient  = 128 // bytes of one, written
	saltLen       = 32
	keyFileHeader = "# The key that opens secrets sealed to this peer. Whoever reads it can open them.\n"
)

// ErrNotForMe says that something was sealed to others only.
var ErrNotForMe = errors.New("it is not sealed to this peer")

// Bundle is what is sealed: values by name, and what they are for.
type Bundle struct {
	Salt    []byte            `cbor:"1,keyasint"`
	Cluster string            `cbor:"2,keyasint"`
	Job     string            `cbor:"3,keyasint"`
	By      string            `cbor:"4,keyasint"` // the peer that answers for it
	Values  map[string][]byte `cbor:"5,keyasint"`
}

// Key opens what was sealed to it.
type Key struct{ id *age.X25519Identity }

// NewKey draws a key.
func NewKey() (*Key, error) {
	id, err := age.GenerateX25519Identity()
	return &Key{id}, err
}

// Load reads the key of a file, which is made if there is none.
func Load(path string) (*Key, error) {
	b, err := readKeyFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		k, err := NewKey()
		if err != nil {
			return nil, err
		}
		return k, atomicfile.Write(path, []byte(keyFileHeader+k.id.String()+"\n"))
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if id, err := age.ParseX25519Identity(line); err == nil {
			return &Key{id}, nil
		}
		break
	}
	return nil, fmt.Errorf("%s is damaged: it has no line AGE-SECRET-KEY-1…; remove it, and this peer makes another one (what was sealed to the old one is then sealed again by the peers that have it)", path)
}

func readKeyFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxKeyFile))
}

// Recipient is what others seal to, as text.
func (k *Key) Recipient() string { return k.id.Recipient().String() }

// CheckRecipient tells whether something can be sealed to a recipient that another peer told.
func CheckRecipient(told string) error {
	_, err := parseRecipient(told)
	return err
}

func parseRecipient(told string) (*age.X25519Recipient, error) {
	if len(told) > maxRecipient {
		return nil, errors.New("no recipient is that long")
	}
	return age.ParseX25519Recipient(told)
}

// NewBundle is a bundle with fresh random bytes.
func NewBundle(cluster, job, by string, values map[string][]byte) Bundle {
	b := Bundle{Salt: make([]byte, saltLen), Cluster: cluster, Job: job, By: by, Values: values}
	_, _ = rand.Read(b.Salt) // never fails
	return b
}

// Seal closes a bundle so that only these recipients can open it. digest is the same each time the
// same bundle is sealed.
func Seal(b Bundle, to []string) (sealed, digest []byte, err error) {
	if len(to) == 0 || len(to) > MaxRecipients {
		return nil, nil, fmt.Errorf("sealed to %d peers; it can be 1 to %d", len(to), MaxRecipients)
	}
	var recipients []age.Recipient
	for _, told := range to {
		r, err := parseRecipient(told)
		if err != nil {
			return nil, nil, fmt.Errorf("recipient: %w", err)
		}
		recipients = append(recipients, r)
	}
	if len(b.Salt) != saltLen {
		return nil, nil, errors.New("a bundle without its random bytes")
	}
	plain, err := wire.Marshal(b)
	if err != nil {
		return nil, nil, err
	}
	if len(plain) > MaxPlain {
		return nil, nil, fmt.Errorf("%d bytes of secrets, at most %d can be sealed", len(plain), MaxPlain)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, recipients...)
	if err == nil {
		if _, err = w.Write(plain); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	return out.Bytes(), b.Digest(), nil
}

// Open opens what was sealed to this key. It is strict: what is too long, or is no bundle, is an
// error, and ErrNotForMe says that another key is needed.
func (k *Key) Open(sealed []byte) (b Bundle, digest []byte, err error) {
	if len(sealed) > MaxSealed {
		return b, nil, fmt.Errorf("%d bytes sealed, at most %d are read", len(sealed), MaxSealed)
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), k.id)
	if nobody := (*age.NoIdentityMatchError)(nil); errors.As(err, &nobody) {
		return b, nil, ErrNotForMe
	}
	if err != nil {
		return b, nil, fmt.Errorf("what is sealed cannot be read: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, MaxPlain+1))
	switch {
	case err != nil:
		return b, nil, fmt.Errorf("what is sealed was changed or cut: %w", err)
	case len(plain) > MaxPlain:
		return b, nil, fmt.Errorf("more than %d bytes are sealed", MaxPlain)
	}
	if err := wire.Unmarshal(plain, &b); err != nil {
		return Bundle{}, nil, fmt.Errorf("what is sealed makes no sense: %w", err)
	}
	if len(b.Salt) != saltLen {
		return Bundle{}, nil, errors.New("what is sealed has no random bytes")
	}
	return b, b.Digest(), nil
}

// Digest names what a bundle says, whoever sealed it.
func (b Bundle) Digest() []byte {
	b.By = ""
	plain, err := wire.Marshal(b)
	if err != nil {
		panic(err) // texts and bytes can be encoded
	}
	s := sha256.Sum256(plain)
	return s[:]
}
