package wire

import (
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// The two modes are immutable after construction and safe for concurrent use. Encoding is Core
// Deterministic (RFC 8949 §4.2.1), because encodings are signed and compared. Decoding refuses
// duplicate keys, indefinite lengths, tags, unknown fields and deep or huge containers: everything
// decoded here comes from outside.
var (
	encMode = must(cbor.CoreDetEncOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		MaxNestedLevels:   16,
		MaxArrayElements:  1 << 20,
		MaxMapPairs:       1 << 16,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

// ErrMalformed is returned for bytes that are not exactly one value of the shape asked for. It
// never is an io.EOF: an empty frame must not pass for the end of a stream.
var ErrMalformed = errors.New("malformed CBOR")

// ErrUnknown is ErrMalformed by nothing but a field that this program does not know: most likely
// the word of a newer one.
var ErrUnknown = fmt.Errorf("%w: a field this program does not know", ErrMalformed)

func must[M any](m M, err error) M {
	if err != nil {
		panic("wire: constant CBOR options do not build: " + err.Error())
	}
	return m
}

// Marshal encodes v deterministically: equal values have equal bytes.
func Marshal(v any) ([]byte, error) { return encMode.Marshal(v) }

// Unmarshal decodes exactly one value from b into v; trailing bytes, unknown fields and malformed
// input are ErrMalformed. What it stores never shares memory with b. Fields that b does not mention
// keep what v holds: pass a fresh value.
func Unmarshal(b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		if unknown := new(cbor.UnknownFieldError); errors.As(err, &unknown) || errors.Is(err, ErrUnknown) {
			return fmt.Errorf("%w: %v", ErrUnknown, err)
		}
		return fmt.Errorf("%w: %v", ErrMalformed, err) // %v: an io.EOF inside must not show through
	}
	return nil
}

// IsArray tells whether b begins with the head of an array. What used to be an array and has keys
// now is read in both forms.
func IsArray(b []byte) bool { return len(b) > 0 && b[0]>>5 == 4 }
