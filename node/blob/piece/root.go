package piece

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Root is a blob's name: its BLAKE3.
type Root [32]byte

const prefix = "b3:"

// String is "b3:" and 64 digits.
func (r Root) String() string { return prefix + hex.EncodeToString(r[:]) }

// IsZero tells whether no blob is meant.
func (r Root) IsZero() bool { return r == Root{} }

// MarshalText is String, for JSON and YAML.
func (r Root) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText is ParseRoot.
func (r *Root) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRoot(string(text))
	return err
}

// ParseRoot reads what String writes, and nothing else.
func ParseRoot(s string) (Root, error) {
	var r Root
	digits, ok := strings.CutPrefix(s, prefix)
	if !ok || len(digits) != 2*len(r) || strings.ToLower(digits) != digits {
		return Root{}, fmt.Errorf("%.80q names no blob: it is b3: and 64 digits of 0-9a-f", s)
	}
	if _, err := hex.Decode(r[:], []byte(digits)); err != nil {
		return Root{}, fmt.Errorf("%.80q names no blob: %w", s, err)
	}
	return r, nil
}
