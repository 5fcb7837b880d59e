package p2p_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coveyproject/covey/p2p"

	"github.com/libp2p/go-libp2p/core/crypto"
)

func TestAnIdentityIsMadeOnceAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	var ids [8]string
	var wg sync.WaitGroup
	for i := range ids { // also by several at once
		wg.Go(func() {
			key, err := p2p.LoadIdentity(path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i], _ = p2p.ID(key)
		})
	}
	wg.Wait()
	for _, id := range ids {
		if id == "" || id != ids[0] {
			t.Fatalf("two identities from one file: %v", ids)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

func TestABadIdentityIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	rsa, _, err := crypto.GenerateKeyPair(crypto.Secp256k1, 0)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := crypto.MarshalPrivateKey(rsa)
	if err != nil {
		t.Fatal(err)
	}
	good, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := crypto.MarshalPrivateKey(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		bytes []byte
		mode  os.FileMode
		says  string
	}{
		"garbage":  {[]byte("not a key"), 0o600, "does not hold"},
		"empty":    {nil, 0o600, "does not hold"},
		"torn":     {whole[:20], 0o600, "does not hold"},
		"foreign":  {foreign, 0o600, "ed25519"},
		"readable": {whole, 0o644, "chmod 600"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.bytes, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := p2p.LoadIdentity(path); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != string(c.bytes) {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := p2p.LoadIdentity(dir); err == nil {
		t.Error("a folder is not a key")
	}
	if _, err := p2p.LoadIdentity(filepath.Join(dir, "no", "such", "folder")); err == nil {
		t.Error("no folder to write to")
	}
}

func TestASignatureIsItsPeersAndOfItsBytes(t *testing.T) {
	a, b := start(t, everybody()), start(t, everybody())
	sig, err := a.Sign([]byte("done"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p2p.Verify(a.Self(), []byte("done"), sig); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"another peer":      p2p.Verify(b.Self(), []byte("done"), sig),
		"other bytes":       p2p.Verify(a.Self(), []byte("gone"), sig),
		"no signature":      p2p.Verify(a.Self(), []byte("done"), nil),
		"no peer id":        p2p.Verify("me", []byte("done"), sig),
		"an id with a hash": p2p.Verify("QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N", []byte("done"), sig),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAKeyWithAnyFlippedBitIsRefusedOrTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, err := p2p.LoadIdentity(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 * len(b) {
		c := bytes.Clone(b)
		c[i/8] ^= 1 << (i % 8)
		if err := os.WriteFile(path, c, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := p2p.LoadIdentity(path); err == nil && !got.Equals(key) {
			t.Fatalf("bit %d makes another peer of it", i)
		} else if err != nil && !strings.Contains(err.Error(), "peer up --join") {
			t.Fatal(err)
		}
	}
}
