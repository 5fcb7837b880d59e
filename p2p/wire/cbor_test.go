package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/wire"

	"pgregory.net/rapid"
)

func TestEqualValuesHaveEqualBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := anyNote(t)
		first, err := wire.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back note
		if err := wire.Unmarshal(first, &back); err != nil {
			t.Fatalf("own encoding is refused: %v", err)
		}
		again, err := wire.Marshal(back)
		if err != nil || !bytes.Equal(first, again) {
			t.Fatalf("encoding again differs: %x, %x (%v)", first, again, err)
		}
	})
}

func TestWhatWasDecodedSharesNoMemoryWithItsInput(t *testing.T) {
	in, err := wire.Marshal(note{Words: []string{"word"}, Bytes: []byte("bytes"), Env: map[string]string{"k": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	var n note
	if err := wire.Unmarshal(in, &n); err != nil {
		t.Fatal(err)
	}
	clear(in)
	if n.Words[0] != "word" || string(n.Bytes) != "bytes" || n.Env["k"] != "v" {
		t.Errorf("the value changed with its input: %+v", n)
	}
}

func TestTheDialectIsStrict(t *testing.T) {
	for what, in := range map[string]string{
		"nothing":               "",
		"a cut value":           "\xa1\x04",
		"a byte after it":       "\xa0\x00",
		"an unknown field":      "\xa1\x09\x01",
		"a field by its name":   "\xa1\x61N\x01",
		"a key twice":           "\xa2\x04\x01\x04\x02",
		"an indefinite map":     "\xbf\x04\x01\xff",
		"an indefinite array":   "\xa1\x01\x9f\x61a\xff",
		"a tag":                 "\xa1\x04\xc2\x41\x01",
		"text that is not UTF8": "\xa1\x01\x81\x61\xff",
		"a float for a number":  "\xa1\x04\xf9\x3c\x00",
		"text for a number":     "\xa1\x04\x61\x31",
		"a number too large":    "\xa1\x04\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
		"a huge array":          "\xa1\x01\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
		"a deep array":          "\xa1\x01" + strings.Repeat("\x81", 40) + "\x00",
	} {
		var n note
		if err := wire.Unmarshal([]byte(in), &n); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v, want ErrMalformed", what, err)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte("\xa1\x04\x05"))
	f.Add([]byte("\xa2\x01\x81\x61a\x03\xa1\x61k\x61v"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var n note
		if wire.Unmarshal(in, &n) != nil {
			return
		}
		out, err := wire.Marshal(n)
		if err != nil {
			t.Fatalf("what was decoded does not encode: %v", err)
		}
		var back note
		if err := wire.Unmarshal(out, &back); err != nil || !same(n, back) {
			t.Fatalf("there and back: %+v, %+v (%v)", n, back, err)
		}
	})
}
