package api

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"
)

// Key is what `peer key` prints.
type Key struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Fingerprint string    `json:"fingerprint"`
	AsOf        time.Time `json:"as_of"`
}

// Fingerprint is a short form of a key, to be compared by people: 100 bits of its hash, in five
// words of four letters.
func Fingerprint(id string) string {
	sum := sha256.Sum256([]byte(id))
	text := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	var words []string
	for i := range 5 {
		words = append(words, text[4*i:4*i+4])
	}
	return strings.Join(words, "-")
}
