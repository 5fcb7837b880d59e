package taskstate

import (
	"strconv"

	"covey/p2p/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// mustEncode is the deterministic encoding; plain values of this package always encode.
func mustEncode(v any) []byte {
	b, err := wire.Marshal(v)
	if err != nil {
		panic("taskstate: value of a closed type does not encode: " + err.Error())
	}
	return b
}

// EncodeBatch is the deterministic encoding that is signed and travels.
func EncodeBatch(b Batch) ([]byte, error) { return wire.Marshal(b) }

// DecodeBatch reads what EncodeBatch wrote, strictly.
func DecodeBatch(p []byte) (Batch, error) {
	var b Batch
	if err := wire.Unmarshal(p, &b); err != nil {
		return Batch{}, err
	}
	return b, nil
}
