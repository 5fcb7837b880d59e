package taskstate

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// ErrWithheld is of jobs of which it is not known here what they run.
var ErrWithheld = errors.New("what it runs is not known here")

// Withheld stands in a job for its private part where that is not known: at peers that neither
// decide, nor may read what others run, nor have to do with the job. It says what every replica of
// the ledger has to know of it to come to the same as all others, and follows from the private part
// alone, so that whoever has that finds the same.
type Withheld struct {
	Does   []byte  `cbor:"1,keyasint" json:"does"`                      // SHA-256: another one is another job to those tasks that run, see Restarts
	Weighs int     `cbor:"2,keyasint" json:"weighs"`                    // bytes it occupies, about
	Needs  []JobID `cbor:"3,keyasint,omitempty" json:"needs,omitempty"` // whose files it takes; a job that it names twice is there twice
	Saves  bool    `cbor:"4,keyasint,omitempty" json:"saves,omitempty"` // it has outputs
	Lost   bool    `cbor:"5,keyasint,omitempty" json:"lost,omitempty"`  // nobody knew the private part any more when the ledger was recovered
}

// private is the part of the job that is withheld.
func (j *Job) private() Job {
	return Job{Run: j.Run, Matrix: j.Matrix, Inputs: j.Inputs, Outputs: j.Outputs, Each: j.Each, Secrets: j.Secrets}
}

// public is the rest.
func (j *Job) public() Job {
	rest := *j
	rest.Run, rest.Matrix, rest.Inputs, rest.Outputs, rest.Each, rest.Secrets, rest.Withheld = Run{}, nil, nil, nil, nil, nil, nil
	return rest
}

// Bare is the job as others see it: without its private part. One that nobody signed has no
// digest of that to be known by, and stays whole.
func (j *Job) Bare() Job {
	if j.Withheld != nil || j.Order == nil {
		return *j
	}
	private, out := j.private(), j.public()
	out.Withheld = &Withheld{Does: j.does(j.Order.Items), Weighs: private.Weight(), Needs: j.Needs(), Saves: j.Outputs != nil}
	return out
}

// Fits tells whether the private part is the one that was signed, or is withheld: of a job of which
// that is not so, others cannot judge without it.
func (j *Job) Fits() bool {
	o := j.Order
	return o != nil && (j.Withheld != nil || len(o.Items) > 0 == (len(j.Each) > 0) && (len(j.Each) == 0 || len(j.Each) == j.Count) &&
		bytes.Equal(o.Body, j.bodyDigest()) && bytes.Equal(o.Items, NewItemTree(j.Each).Root()))
}

// Unknown says in words that it is not known here what the job runs, and who knows; "" if it is
// known. called is how people call a peer.
func (j *Job) Unknown(called func(PeerID) string) string {
	switch w := j.Withheld; {
	case w == nil:
		return ""
	case w.Lost:
		return "what it runs nobody knew any more when the ledger was recovered: submit it again"
	}
	return fmt.Sprintf("what it runs is known to %s, which asked for it, to the voters, and to peers with the role read or admin: ask there", called(j.OrderedBy()))
}

// Party tells whether a peer has to do with the job before any of its tasks is given to a peer: it
// was asked for it, or its key signed it.
func (j *Job) Party(peer PeerID) bool { return j.Submitter == peer || j.OrderedBy() == peer }

// Fill gives a job its private part back from a copy that has it. It tells whether it has it then.
func (j *Job) Fill(whole *Job) bool {
	if j.Withheld == nil {
		return true
	}
	if whole.Order == nil || whole.Withheld != nil || !bytes.Equal(j.Order.Digest(), whole.Order.Digest()) || !whole.Fits() {
		return false
	}
	j.Run, j.Matrix, j.Inputs, j.Outputs, j.Each, j.Secrets, j.Withheld = whole.Run, whole.Matrix, whole.Inputs, whole.Outputs, whole.Each, whole.Secrets, nil
	return true
}

// does is Withheld.Does of a job whose items have that root.
func (j *Job) does(items []byte) []byte {
	part := Job{Run: j.Run, Matrix: j.Matrix, Inputs: j.Inputs, Outputs: j.outputs(), Secrets: secretsPart(j).Secrets}
	sum := sha256.Sum256(append(mustEncode(part), items...))
	return sum[:]
}

// sameWithheld tells whether two jobs, at least one of them without its private part, have the same
// to do.
func sameWithheld(x, y *Job) bool {
	does := func(j *Job) []byte {
		if j.Withheld != nil {
			return j.Withheld.Does
		}
		return j.does(NewItemTree(j.Each).Root())
	}
	return bytes.Equal(does(x), does(y))
}

// Needs are the jobs whose files its inputs name.
func (j *Job) Needs() []JobID {
	if j.Withheld != nil {
		return j.Withheld.Needs
	}
	var out []JobID
	for i := range j.Inputs {
		if from := j.Inputs[i].From; from != "" {
			out = append(out, from)
		}
	}
	return out
}

// Weight is about how many bytes the job's texts occupy.
func (j *Job) Weight() (w int) {
	const stringBytes = 16
	texts := func(list []string) {
		for _, x := range list {
			w += stringBytes + len(x)
		}
	}
	texts(j.Each)
	for _, a := range j.Matrix {
		w += 3*stringBytes + len(a.Name)
		texts(a.Values)
	}
	texts(j.Constraints)
	if s := j.Secrets; s != nil {
		w += len(s.Sealed) + len(s.Digest)
		texts(s.Names)
	}
	if p := j.Run.Process; p != nil {
		w += len(p.Script)
		texts(p.Command)
		for k, v := range p.Env {
			w += 2*stringBytes + len(k) + len(v)
		}
	}
	if j.Withheld != nil {
		w += j.Withheld.Weighs
	}
	return w
}

// SubmissionDigest tells submissions apart. The version is the ledger's, and the order is another
// one whenever it is signed.
func (j *Job) SubmissionDigest() []byte {
	plain := *j
	if j.Order != nil {
		plain = j.public()
	}
	plain.Version, plain.Order = 0, nil
	b := mustEncode(plain)
	if o := j.Order; o != nil {
		b = slices.Concat(b, o.Body, o.Items)
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// SubmittedThrough returns the job as if another peer had been asked for it and had sealed these
// secrets: what the user said, and nothing of the peer that passed it on or of its signature, is
// then compared by SubmissionDigest. The job is whole.
func (j *Job) SubmittedThrough(peer PeerID, secrets *Secrets) Job {
	out := *j
	out.Submitter, out.Secrets = peer, secrets
	if j.Order != nil {
		out.Order = &Order{Body: out.bodyDigest(), Items: NewItemTree(j.Each).Root()}
	}
	return out
}
