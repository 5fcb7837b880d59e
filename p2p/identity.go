package p2p

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

// LoadIdentity reads a peer's private key from path, or makes one there (mode 0600) if the file
// does not exist. A file that others may read, cannot be read, or does not hold a key is an error
// and is left as it is.
func LoadIdentity(path string) (crypto.PrivKey, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return createIdentity(path)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("identity: %s is not a file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("identity: others can read %s (mode %04o): if none did, type `chmod 600 %s`", path, mode, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	key, err := crypto.UnmarshalPrivateKey(b)
	if err == nil && key.Type() != crypto.Ed25519 {
		err = fmt.Errorf("it is a %s key, not an ed25519 one", key.Type())
	}
	if err == nil {
		err = proveKey(key)
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %s does not hold a peer's key (%w): restore it from a backup; without one, move the data folder %s away and come back as a new peer, with a ticket from another one (`peer up --join TICKET`)",
			path, err, filepath.Dir(path))
	}
	return key, nil
}

// proveKey refuses a key with a flipped bit: both its halves are in the file, and the second
// follows from the first.
func proveKey(key crypto.PrivKey) error {
	raw, err := key.Raw()
	if err != nil {
		return err
	}
	if len(raw) != ed25519.PrivateKeySize || !bytes.Equal(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]), raw) {
		return errors.New("its two halves do not belong together")
	}
	return nil
}

// createIdentity writes a new key: whole or not at all.
func createIdentity(path string) (crypto.PrivKey, error) {
	key, err := NewIdentity()
	if err != nil {
		return nil, err
	}
	b, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".identity-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		// A link fails if somebody else made an identity meanwhile; a rename would throw it away.
		if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
			return LoadIdentity(path)
		} else if err != nil {
			err = os.Rename(f.Name(), path) // a file system without links
		}
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return key, nil
}

// NewIdentity makes a key that is not kept anywhere.
func NewIdentity() (crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	return key, err
}

// ID is the peer id of a key.
func ID(key crypto.PrivKey) (string, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return "", err
	}
	return id.String(), nil
}

// Verify checks that sig over data was made by the peer. The id holds its public key.
func Verify(id string, data, sig []byte) error {
	pid, err := peer.Decode(id)
	if err != nil {
		return fmt.Errorf("%q is not a peer id: %w", id, err)
	}
	pub, err := pid.ExtractPublicKey()
	if err != nil {
		return fmt.Errorf("peer id %s holds no key: %w", id, err)
	}
	ok, err := pub.Verify(data, sig)
	if err != nil || !ok {
		return fmt.Errorf("the signature is not %s's", id)
	}
	return nil
}

// Sign signs data with the peer's key; Verify checks it.
func (h *Host) Sign(data []byte) ([]byte, error) { return h.cfg.Key.Sign(data) }

// IsKey reports whether a text is a peer's id: a public key, written as peers write it.
func IsKey(s string) bool {
	id, err := peer.Decode(s)
	if err != nil || id.String() != s {
		return false
	}
	_, err = id.ExtractPublicKey()
	return err == nil
}
