package taskstate

import (
	"cmp"
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// PeerID is the text form of a peer's public-key hash (as libp2p prints it). It is an alias, so
// that the packages of the ground floor agree on it without importing each other.
type PeerID = string

// Incarnation tells two lives of one peer's data folder apart: random, drawn when the folder is
// created. A peer that lost its disk comes back as the same PeerID with another Incarnation.
type Incarnation string

// NewIncarnation draws one from the system's randomness: sixteen hexadecimal characters.
func NewIncarnation() Incarnation {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return Incarnation(hex.EncodeToString(b[:]))
}

// JobID names a job: ten random lower-case base32 characters, minted by the peer that was asked.
type JobID string

// JobIDLen is the length of a JobID in characters; fifty random bits.
const JobIDLen = 10

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewJobID draws a job id from the system's randomness.
func NewJobID() JobID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return JobID(idEncoding.EncodeToString(b[:])[:JobIDLen])
}

// TaskID names a task: one attempt of one slot of one job. Slots and attempts count from 1. It is
// comparable and serves as map key.
type TaskID struct {
	_       struct{} `cbor:",toarray"`
	Job     JobID
	Slot    int
	Attempt int
}

// Task builds a TaskID.
func Task(job JobID, slot, attempt int) TaskID { return TaskID{Job: job, Slot: slot, Attempt: attempt} }

// String is the form people and the API see: JOB.SLOT.ATTEMPT.
func (t TaskID) String() string {
	return string(t.Job) + "." + strconv.Itoa(t.Slot) + "." + strconv.Itoa(t.Attempt)
}

// Compare orders tasks by job, slot and attempt.
func (t TaskID) Compare(o TaskID) int {
	return cmp.Or(cmp.Compare(t.Job, o.Job), cmp.Compare(t.Slot, o.Slot), cmp.Compare(t.Attempt, o.Attempt))
}

// ParseTaskID reads the form String writes.
func ParseTaskID(s string) (TaskID, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 || parts[0] == "" {
		return TaskID{}, fmt.Errorf("task id %q: expected JOB.SLOT.ATTEMPT, as in %q", s, "k3v5q7x2ab.1.1")
	}
	slot, err1 := strconv.Atoi(parts[1])
	attempt, err2 := strconv.Atoi(parts[2])
	t := Task(JobID(parts[0]), slot, attempt)
	if err1 != nil || err2 != nil || slot < 1 || attempt < 1 || t.String() != s { // one task has one spelling: not 01, not +1
		return TaskID{}, fmt.Errorf("task id %q: slot and attempt are whole numbers from 1, as in %q", s, parts[0]+".1.1")
	}
	return t, nil
}

// Epoch stamps every decision: the generation of the ledger, raised only by a person (`peer
// recover`), and the term of the coordinator within it.
type Epoch struct {
	_          struct{} `cbor:",toarray"`
	Generation uint64
	Term       uint64
}

// At builds an Epoch.
func At(generation, term uint64) Epoch { return Epoch{Generation: generation, Term: term} }

// Compare orders epochs: generation first, then term.
func (e Epoch) Compare(o Epoch) int {
	return cmp.Or(cmp.Compare(e.Generation, o.Generation), cmp.Compare(e.Term, o.Term))
}

// Less tells whether e is older than o.
func (e Epoch) Less(o Epoch) bool { return e.Compare(o) < 0 }

// IsZero tells whether no epoch has been seen yet.
func (e Epoch) IsZero() bool { return e.Generation == 0 && e.Term == 0 }

// String writes GENERATION/TERM.
func (e Epoch) String() string { return fmt.Sprintf("%d/%d", e.Generation, e.Term) }
