package act

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
)

func key(peer string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(peer))
	return ed25519.NewKeyFromSeed(seed[:])
}

func verify(peer string, data, sig []byte) error {
	if !ed25519.Verify(key(peer).Public().(ed25519.PublicKey), data, sig) {
		return errors.New("not theirs")
	}
	return nil
}

// asked is an act, in a cluster, over a command.
type asked struct {
	act     Act
	cluster string
	command string
}

func (a asked) said() string {
	a.act.Sig = nil
	return fmt.Sprintf("%q %q %+v", a.cluster, a.command, a.act)
}

func (a asked) check() error { return a.act.Check(a.cluster, a.command, 1000, verify) }

func draw(t *rapid.T, name string) asked {
	few := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name+"'s "+what) }
	a := asked{cluster: few("cluster", "c", "d", "c\x00"), command: few("command", "cancel", "retire", "")}
	a.act = Act{By: few("asker", "wren", "finch"), At: rapid.Int64Range(0, 2).Draw(t, name+"'s time"), Until: rapid.Int64Range(1000, 1002).Draw(t, name+"'s end"), N: rapid.Uint64Range(0, 2).Draw(t, name+"'s number")}
	return a
}

func TestASignatureIsOfOneActInOneClusterOverOneCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one, other := draw(t, "one"), draw(t, "other")
		signed, err := one.act.Signed(one.cluster, one.command, func(b []byte) ([]byte, error) { return ed25519.Sign(key(one.act.By), b), nil })
		if err != nil {
			t.Fatal(err)
		}
		one.act, other.act.Sig = signed, signed.Sig
		if err := one.check(); err != nil {
			t.Fatal(err)
		}
		same := one.said() == other.said()
		if err := other.check(); (err == nil) != same || !same && !errors.Is(err, ErrUnsigned) {
			t.Fatalf("signed was %s, and of %s it is said: %v", one.said(), other.said(), err)
		}
		one.act.Sig = bytes.Clone(signed.Sig)
		one.act.Sig[rapid.IntRange(0, len(signed.Sig)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := one.check(); !errors.Is(err, ErrUnsigned) {
			t.Fatalf("with another signature: %v", err)
		}
	})
}

func TestAnActCountsUntilItsEndAndEndsInTime(t *testing.T) {
	signed, err := Act{By: "wren", At: 1000, Until: 1000 + Lasts, N: 1}.Signed("c", "cancel", func(b []byte) ([]byte, error) { return ed25519.Sign(key("wren"), b), nil })
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[int64]error{1000: nil, 1000 + Lasts: nil, 1001 + Lasts: ErrLate, 1000 + Lasts - MaxLasts: nil, 999 + Lasts - MaxLasts: ErrUnsigned} {
		if err := signed.Check("c", "cancel", now, verify); !errors.Is(err, want) {
			t.Errorf("at %d: %v, want %v", now, err, want)
		}
	}
}

func TestWhatAnActSignsIsAsEveryVersionHasIt(t *testing.T) {
	data, err := Act{By: "wren", At: 1, Until: 2, N: 3, Sig: []byte{4}}.signedBytes("cluster", map[int]string{1: "command"})
	if err != nil {
		t.Fatal(err)
	}
	golden.Freeze(t, "signed act 1", fmt.Sprintf("%x", data))
}
