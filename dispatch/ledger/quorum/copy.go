package quorum

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"covey/dispatch/ledger"
)

// fileMagic begins a saved copy; the checksum of the rest follows, then the snapshot.
const fileMagic = "covey ledger copy 1\n"

// saveCopy writes a replica to a file (0600), all of it or nothing.
func saveCopy(r *ledger.Replica, path string) error {
	b, err := r.Encode()
	if err != nil {
		return fmt.Errorf("save ledger copy: %w", err)
	}
	sum := sha256.Sum256(b)
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return fmt.Errorf("save ledger copy: %w", err)
	}
	_, err = f.Write(append(append([]byte(fileMagic), sum[:]...), b...))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("save ledger copy: %w", err)
	}
	return nil
}

// loadCopy replaces what a replica holds by a saved copy. No file is no error; a damaged one is, and changes nothing.
func loadCopy(r *ledger.Replica, path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load ledger copy: %w", err)
	}
	head := len(fileMagic) + sha256.Size
	if len(b) < head || string(b[:len(fileMagic)]) != fileMagic || sha256.Sum256(b[head:]) != [sha256.Size]byte(b[len(fileMagic):head]) {
		return fmt.Errorf("load ledger copy: %s is damaged; delete it, another copy will be fetched from a voter", path)
	}
	st, err := ledger.DecodeState(b[head:])
	if err != nil {
		return fmt.Errorf("load ledger copy %s: %w", path, err)
	}
	r.Reset(st)
	return nil
}
