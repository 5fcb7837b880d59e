package wire

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// The two modes are immutable after construction and safe for concurrent use. Encoding is Core Deterministic (RFC 8949 §4.2.1),
// because encodings are signed and compared. Decoding refuses duplicate keys, indefinite lengths, tags, unknown fields and deep or huge
// containers: everything decoded here comes from outside.
var (
	encMode = must(cbor.CoreDetEncOptions().EncMode())
	decMode = must(cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
		MaxNestedLevels:   16,
		MaxArrayElements:  1 << 20,
		MaxMapPairs:       1 << 16,
		UTF8:              cbor.UTF8RejectInvalid,
	}.DecMode())
)

func must[M any](m M, err error) M {
	if err != nil {
		panic("wire: constant CBOR options do not build: " + err.Error())
	}
	return m
}

// Marshal encodes v deterministically: equal values have equal bytes.
func Marshal(v any) ([]byte, error) { return encMode.Marshal(v) }

// Unmarshal decodes exactly one value from b into v; trailing bytes, unknown fields and malformed input are errors.
func Unmarshal(b []byte, v any) error {
	if err := decMode.Unmarshal(b, v); err != nil {
		return fmt.Errorf("malformed CBOR: %w", err)
	}
	return nil
}
