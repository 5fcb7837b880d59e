package seal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/internal/golden"
)

func key(t interface{ Fatal(...any) }) *Key {
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestWhatIsSealedIsOpenedByItsRecipientsAndByNobodyElse(t *testing.T) {
	mine, friends, stranger := key(t), []*Key{key(t), key(t)}, key(t)
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.MapOf(rapid.StringMatching(`[A-Z_]{1,8}`), rapid.SliceOfN(rapid.Byte(), 0, 300)).Draw(t, "values")
		b := NewBundle("cluster", "job", "by", values)
		to := []string{mine.Recipient(), friends[0].Recipient(), friends[1].Recipient()}
		sealed, digest, err := Seal(b, to)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range append(friends, mine) {
			got, d, err := k.Open(sealed)
			if err != nil || !bytes.Equal(d, digest) || len(got.Values) != len(values) || got.Job != "job" || got.By != "by" || got.Cluster != "cluster" {
				t.Fatalf("%v %v %x, sealed %x", got, err, d, digest)
			}
			for name, v := range values {
				if !bytes.Equal(got.Values[name], v) {
					t.Fatalf("%s is %q, was %q", name, got.Values[name], v)
				}
			}
		}
		if _, _, err := stranger.Open(sealed); !errors.Is(err, ErrNotForMe) {
			t.Fatalf("a stranger: %v", err)
		}
		again, same, err := Seal(b, []string{stranger.Recipient()})
		if err != nil || !bytes.Equal(same, digest) {
			t.Fatalf("sealed again to another its digest is %x, was %x (%v)", same, digest, err)
		}
		if _, _, err := stranger.Open(again); err != nil {
			t.Fatal(err)
		}
	})
}

func TestTheDigestDoesNotTellEqualValuesApartFromOthers(t *testing.T) {
	k := key(t)
	values := map[string][]byte{"PIN": []byte("1234")}
	_, one, err := Seal(NewBundle("c", "j", "p", values), []string{k.Recipient()})
	if err != nil {
		t.Fatal(err)
	}
	_, two, err := Seal(NewBundle("c", "j", "p", values), []string{k.Recipient()})
	if err != nil || bytes.Equal(one, two) {
		t.Errorf("the same value twice has the same digest %x (%v): a short one could be guessed from it", one, err)
	}
}

func TestAByteThatIsChangedIsNoticed(t *testing.T) {
	k := key(t)
	sealed, _, err := Seal(NewBundle("c", "j", "p", map[string][]byte{"A": []byte("value")}), []string{k.Recipient()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, _, err := k.Open(changed); err == nil {
			t.Fatalf("byte %d of %d was changed, and it was opened", i, len(sealed))
		}
	}
}

func TestTooMuchIsNotSealedAndTooMuchIsNotRead(t *testing.T) {
	k := key(t)
	if _, _, err := Seal(NewBundle("c", "j", "p", map[string][]byte{"A": make([]byte, MaxPlain)}), []string{k.Recipient()}); err == nil {
		t.Error("more than MaxPlain was sealed")
	}
	all := make([]string, MaxRecipients)
	for i := range all {
		all[i] = k.Recipient()
	}
	full := NewBundle("c", "j", "p", map[string][]byte{"A": make([]byte, MaxPlain-256)})
	sealed, _, err := Seal(full, all)
	if err != nil {
		t.Fatal(err)
	}
	if len(sealed) > MaxSealed {
		t.Errorf("as much as can be sealed has %d bytes, and %d are read", len(sealed), MaxSealed)
	}
	if _, _, err := Seal(full, append(all, k.Recipient())); err == nil {
		t.Error("it was sealed to more than MaxRecipients")
	}
	if _, _, err := k.Open(make([]byte, MaxSealed+1)); err == nil {
		t.Error("more than MaxSealed was read")
	}
}

func TestAKeyIsMadeOnceAndReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.key")
	first, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Load(path)
	if err != nil || second.Recipient() != first.Recipient() {
		t.Fatalf("%v; %s, then %s", err, first.Recipient(), second.Recipient())
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v %v", st.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("AGE-SECRET-KEY-1TORN\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a damaged one: %v", err)
	}
}

func TestARecipientIsCheckedBeforeAnythingIsSealedToIt(t *testing.T) {
	for _, bad := range []string{"", "age1", "hunter2", strings.Repeat("a", 1<<20), "age1pq" + strings.Repeat("q", 60)} {
		if CheckRecipient(bad) == nil {
			t.Errorf("%.20q", bad)
		}
	}
	if err := CheckRecipient(key(t).Recipient()); err != nil {
		t.Error(err)
	}
}

func FuzzOpen(f *testing.F) {
	k := key(f)
	sealed, _, err := Seal(NewBundle("c", "j", "p", map[string][]byte{"A": []byte("value")}), []string{k.Recipient()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, _ = k.Open(b) // it must not panic, nor take for ever
	})
}

func TestABundleIsAsItsVersionHasIt(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: "covey sealed bundle", Frames: map[string]any{"bundle": &Bundle{}}})
}
