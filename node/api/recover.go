package api

import "time"

// Copy is how new one peer's copy of the ledger is.
type Copy struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Self       bool      `json:"self"`
	Generation uint64    `json:"generation"`
	Term       uint64    `json:"term"`
	Index      uint64    `json:"index"`
	Decided    time.Time `json:"decided"`         // when the newest decision in it was made
	Error      string    `json:"error,omitempty"` // why this peer's copy is not known; then the numbers above are 0
}

// AsideJob is a job that a ledger which this peer set aside had, and the one that counts has not.
type AsideJob struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Why  string `json:"why,omitempty"` // why it is not submitted again; absent if it is
}

// RecoverPlan answers GET /v1/recover: what `peer recover` would do here. While a coordinator
// decides, only Coordinator, Jobs and AsOf are set.
type RecoverPlan struct {
	Generation uint64    `json:"generation"` // that the new ledger would have; 0: none is made
	From       Copy      `json:"from"`       // the newest copy that was found
	Copies     []Copy    `json:"copies"`     // all that were asked for, newest first
	Voters     []string  `json:"voters"`     // names, as the newest word on them has it
	Missing    []string  `json:"missing"`    // those that do not answer: what only they know will be lost
	AsOf       time.Time `json:"as_of"`
	Lost       []string  `json:"lost,omitempty"`   // voters that lost what they had acknowledged: who, and up to which index
	Marked     uint64    `json:"marked,omitempty"` // the highest index that any voter is known to have acknowledged in this generation
	Whole      bool      `json:"whole,omitempty"`  // the copy has all that any voter is known to have acknowledged, and it is known of each

	Coordinator string     `json:"coordinator,omitempty"` // the name of the one that decides: no new ledger is made
	Jobs        []AsideJob `json:"jobs,omitempty"`        // jobs that are only in what this peer set aside
}

// Recover is the body of POST /v1/recover: the copy that a person agreed to, from a RecoverPlan. A
// newer one may be used, an older one never. With Index 0 no ledger is made.
type Recover struct {
	Jobs       []string `json:"jobs,omitempty"` // ids of jobs of the plan to submit again, as they were signed
	Generation uint64   `json:"generation"`
	Term       uint64   `json:"term"`
	Index      uint64   `json:"index"`
}

// Recovered answers POST /v1/recover.
type Recovered struct {
	Generation  uint64     `json:"generation"`
	From        Copy       `json:"from"`
	Coordinator string     `json:"coordinator"` // this peer
	Epoch       string     `json:"epoch"`
	Unknown     []string   `json:"unknown,omitempty"`   // ids of jobs of which no peer in reach knows what they run
	Submitted   []string   `json:"submitted,omitempty"` // ids of jobs that were set aside and are submitted again
	Refused     []AsideJob `json:"refused,omitempty"`   // jobs that could not be, and why
	AsOf        time.Time  `json:"as_of"`
}
