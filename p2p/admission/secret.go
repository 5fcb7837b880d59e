package admission

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// text is how ids, secrets and tickets are spelt: lower-case base32, which survives being read out
// over a telephone.
var text = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Sizes of a ticket's secret in bytes.
const (
	secretLen    = 16
	maxSecretLen = 20
)

// NewSecret draws the secret of an invite: 128 random bits.
func NewSecret() []byte {
	b := make([]byte, secretLen)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return b
}

// A secret is the seed of a key pair. The ledger has the public key, and whoever holds the secret
// signs their own peer id with the other: nobody who passes that on, or decides about it, can let
// in anybody else.

// ticketDomain and proofDomain separate these uses from all others.
const (
	ticketDomain = "covey ticket key 1\x00"
	proofDomain  = "covey join 1\x00"
)

// TicketKey is what the ledger keeps of a secret: the public key of which it is the seed.
func TicketKey(secret []byte) []byte {
	return privateKey(secret).Public().(ed25519.PublicKey)
}

func privateKey(secret []byte) ed25519.PrivateKey {
	seed := sha256.Sum256(append([]byte(ticketDomain), secret...))
	return ed25519.NewKeyFromSeed(seed[:])
}

// Prove shows that a peer holds the secret of a ticket.
func Prove(secret []byte, peer string) (proof []byte) {
	return ed25519.Sign(privateKey(secret), append([]byte(proofDomain), peer...))
}

// Proved tells whether a peer has shown that it holds the secret of the ticket with that key.
func Proved(key []byte, peer string, proof []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(proofDomain), peer...), proof)
}

// SecretText spells a secret for `--invite`.
func SecretText(secret []byte) string { return text.EncodeToString(secret) }

// ParseSecret reads what SecretText wrote; letter case and surrounding space do not matter.
func ParseSecret(s string) ([]byte, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if strings.HasPrefix(s, ticketWord) {
		return nil, fmt.Errorf("this is a whole ticket, not a secret: pass it with --join")
	}
	b, err := text.DecodeString(s)
	if err != nil || len(b) < secretLen || len(b) > maxSecretLen {
		return nil, fmt.Errorf("not an invite's secret: expected 26 to 32 letters a-z and digits 2-7, got %d characters", len(s))
	}
	return b, nil
}

// NewTicketID draws the id of an invite: eight characters, for people to name it by. It is not
// secret.
func NewTicketID() string { return randomText(5) }

// NewClusterID draws the id of a cluster: sixteen characters.
func NewClusterID() string { return randomText(10) }

func randomText(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return text.EncodeToString(b)
}
