package starts

import (
	"encoding/binary"
	"slices"
	"sync"
)

// Proof is what a process answers to a challenge: which start it is, and which challenges it has
// answered before. It is signed with the peer's key, so that it can be shown to the other holder of
// that key: to the peer that made the challenge it proves that somebody answers now.
type Proof struct {
	_      struct{} `cbor:",toarray"`
	Start  Start
	Recent []uint64 // the last challenges it answered, this one included
	Halted bool     // it knows of another holder of its key, and waits for a person
	Sig    []byte
}

// Statement is what the signature is over.
func (p Proof) Statement(peer string, nonce uint64) []byte {
	b := append([]byte("covey start 1\x00"), peer...)
	for _, n := range []uint64{nonce, p.Start.Number, p.Start.Before} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return b
}

// Sane tells whether a proof may be one: it comes from outside.
func (p Proof) Sane() bool {
	return !p.Start.IsZero() && len(p.Recent) <= remembered && len(p.Sig) <= 128
}

// Renunciation is what is signed by a start that gives its identity up.
func Renunciation(peer string, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte("covey renounce 1\x00"), peer...), number)
}

// remembered is how many challenges a process remembers.
const remembered = 64

// History is the challenges a process has answered. A machine that was stopped and copied goes on
// twice under one number; from then on the histories differ. The zero value is empty; it is safe
// for concurrent use.
type History struct {
	mu     sync.Mutex
	recent []uint64
}

// Answer notes a challenge and returns what is remembered.
func (h *History) Answer(nonce uint64) []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent = append(h.recent, nonce)
	if len(h.recent) > remembered {
		h.recent = h.recent[len(h.recent)-remembered:]
	}
	return slices.Clone(h.recent)
}

// Has tells whether a challenge was answered by this process.
func (h *History) Has(nonce uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.recent, nonce)
}

// Answer is what came back on one connection.
type Answer struct {
	Nonce uint64 // ours
	Proof Proof
}

// Processes finds which answers, given one after the other, came from different processes: the
// index of the first of each.
func Processes(answers []Answer) (first []int) {
	for i, a := range answers {
		if !slices.ContainsFunc(first, func(j int) bool { return answers[j].same(a) }) {
			first = append(first, i)
		}
	}
	return first
}

func (a Answer) same(later Answer) bool {
	return a.Proof.Start.Number == later.Proof.Start.Number && slices.Contains(later.Proof.Recent, a.Nonce)
}
