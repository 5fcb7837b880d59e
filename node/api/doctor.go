package api

import (
	"context"
	"time"
)

// DoctorBackend looks whether peers are well.
type DoctorBackend interface {
	// Examine looks at a peer, this one or another, in at most ten seconds. One that does not
	// answer is an answer, too. The peer may be whatever a person types.
	Examine(ctx context.Context, peer string) (Checkup, error)
}

// Checkup answers GET /v1/peers/{id}/doctor: what was looked at, in an order that stays.
type Checkup struct {
	Peer     string    `json:"peer"`
	PeerName string    `json:"peer_name"`
	Version  string    `json:"version"`
	Findings []Finding `json:"findings"`
	AsOf     time.Time `json:"as_of"`
}

// Finding is what came of one check.
type Finding struct {
	Check  string `json:"check"`  // tcp udp nat relays clock sync room folder limits cgroup versions voters names lan elections policy tokens key trouble peer
	Result string `json:"result"` // ok warn fail untried
	Text   string `json:"text"`   // a sentence for people
	Do     string `json:"do,omitempty"`
}

// Results of a Finding.
const (
	FindingOK      = "ok"
	FindingWarn    = "warn"    // it goes on, and is not as it should be
	FindingFail    = "fail"    // something does not work
	FindingUntried = "untried" // Text says why
)

// Fails tells whether a check failed.
func (c Checkup) Fails() bool {
	for _, f := range c.Findings {
		if f.Result == FindingFail {
			return true
		}
	}
	return false
}
