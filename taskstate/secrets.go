package taskstate

import "encoding/hex"

// Secrets are values that only the tasks of a job are to read, sealed to the peers that may run it.
// They are as they were submitted for as long as the job is there: a peer that comes later has its
// own copy from the one that sealed them.
type Secrets struct {
	Names  []string `cbor:"1,keyasint" json:"names"`  // ascending
	By     PeerID   `cbor:"2,keyasint" json:"by"`     // the peer that sealed them, and seals them for others
	Digest []byte   `cbor:"3,keyasint" json:"digest"` // of what is sealed, which begins with random bytes
	Sealed []byte   `cbor:"4,keyasint" json:"sealed"`
}

// Limits of what a job can keep secret.
const (
	MaxSecrets     = 32
	MaxSecretName  = 64
	MaxSecretBytes = 64 << 10 // of all values of a job together
)

// SealedFor is the job that its secrets are sealed for: a run that a schedule started has those of
// the schedule.
func (j *Job) SealedFor() JobID {
	if j.Origin != nil {
		return j.Origin.Job
	}
	return j.ID
}

// Prepares tells whether something has to be brought to a peer before tasks of the job can start
// there.
func (j *Job) Prepares() bool { return len(j.Inputs) > 0 || j.Secrets != nil }

// secretsPart is what of the secrets is compared: not to whom they are sealed.
func secretsPart(j *Job) Job {
	if j.Secrets == nil {
		return Job{}
	}
	return Job{Secrets: &Secrets{Names: j.Secrets.Names, Digest: j.Secrets.Digest}}
}

// showSecrets names them, with the beginning of a digest that changes with their values.
func showSecrets(j *Job) string {
	if j.Secrets == nil {
		return ""
	}
	d := j.Secrets.Digest
	return list(j.Secrets.Names) + " (" + hex.EncodeToString(d[:min(len(d), 4)]) + ")"
}
