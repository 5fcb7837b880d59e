package audit

import "time"

// What a Record is about.
const (
	Began         = "began"          // the peer was started
	OrderTaken    = "order-taken"    // a task was started: By signed it, Rule of this peer's policy let it in
	OrderRefused  = "order-refused"  // it was not: Detail says why
	OrderStopped  = "order-stopped"  // a task was told to end: its key is not let in any more, and Detail says why
	PolicyChanged = "policy-changed" // Detail has the hash of what is in force now, and why the newest file is not
	SecretOpened  = "secret-opened"  // for Task
	API           = "api"            // a call of the local API that changes something, or was refused
	Lost          = "lost"           // records could not be written: Detail says how many and why
)

// Record is a line of the log. The log itself sets Seq and Prev, and Time if it is zero.
type Record struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	What    string    `json:"what"`
	By      string    `json:"by,omitempty"` // the key in whose name
	Job     string    `json:"job,omitempty"`
	Task    string    `json:"task,omitempty"`
	Rule    string    `json:"rule,omitempty"`    // its number in policy.yaml
	Call    string    `json:"call,omitempty"`    // of the API
	Outcome string    `json:"outcome,omitempty"` // of it: done, or the code of its error
	UID     *int      `json:"uid,omitempty"`     // who called
	PID     int       `json:"pid,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Prev    string    `json:"prev"` // SHA-256 of the line before, in hexadecimal; "" on the very first
}

// maxText is how many bytes a text of a record may have: what others say is cut to that.
const maxText = 1024

// bounded cuts what others may have said.
func (r Record) bounded() Record {
	for _, s := range []*string{&r.What, &r.By, &r.Job, &r.Task, &r.Rule, &r.Call, &r.Outcome, &r.Detail} {
		if len(*s) > maxText {
			*s = (*s)[:maxText] + "…"
		}
	}
	return r
}
