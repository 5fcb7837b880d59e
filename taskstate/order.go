package taskstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/coveyproject/covey/taskstate/spell"
)

// Order is what a person's peer signs of a job, so that everybody who is given the job – replicas
// of the ledger, the peer that runs it – sees for itself that it is what was asked for, by whom, in
// which cluster and until when. Who passes a job on can refuse it, and can neither invent nor
// change it.
//
// The signature covers the job in two parts, so that whoever was not given the private one
// (Run, Matrix, Inputs, Outputs, Secrets, Each) can still verify: Body and Items are digests of
// that, and the rest is encoded as it is. Version and Origin are the ledger's and not covered.
type Order struct {
	Cluster string `cbor:"1,keyasint" json:"cluster"` // it counts in this one only
	By      PeerID `cbor:"2,keyasint" json:"by"`      // whose key it is
	At      int64  `cbor:"3,keyasint" json:"at_ms"`   // milliseconds since 1970
	Until   int64  `cbor:"4,keyasint" json:"until_ms"`
	Items   []byte `cbor:"5,keyasint,omitempty" json:"items,omitempty"`   // the root of Each, see ItemTree; empty without
	Follows []byte `cbor:"6,keyasint,omitempty" json:"follows,omitempty"` // Digest of the order of the same job that this one takes the place of
	Body    []byte `cbor:"7,keyasint" json:"body"`                        // SHA-256 of the private part
	Sig     []byte `cbor:"8,keyasint" json:"sig"`                         // over all this and the public part
	Starts  *Start `cbor:"9,keyasint,omitempty" json:"starts,omitempty"`  // of a run: what its schedule's job has and the run has not
}

// Start is what was signed of a scheduled job and is not in the runs it starts.
type Start struct {
	Schedule Schedule `cbor:"1,keyasint" json:"schedule"`
	After    []JobID  `cbor:"2,keyasint,omitempty" json:"after,omitempty"`
}

// How long an order is good for. It may be renewed before and after.
const (
	LastingOrder = 90 * 24 * time.Hour // of a service, a global job or a schedule
	BatchOrder   = 7 * 24 * time.Hour
	OrderWarning = 24 * time.Hour // so long before it ends people are told
)

// MaxSkew is how far a machine's clock may be from the coordinator's for what is asked for there:
// within it that is dated by the coordinator's. More a person must set right, or whoever
// coordinates would choose until when what is signed there counts.
const MaxSkew = 24 * time.Hour

// OrderLasts is how long an order for the job is good for.
func (j *Job) OrderLasts() time.Duration {
	if j.Type.Lasts() || j.Schedule != nil {
		return LastingOrder
	}
	return BatchOrder
}

// OrderedBy is the peer whose order the job is: whose key signed it, or, if none did, who is said
// to have submitted it.
func (j *Job) OrderedBy() PeerID {
	if j.Order != nil {
		return j.Order.By
	}
	return j.Submitter
}

// What is wrong with an order, for programs; the words come around it.
var (
	ErrNoOrder      = errors.New("nobody has signed it")
	ErrOrderExpired = errors.New("its order has expired")
	ErrOrderForged  = errors.New("it is not what was signed")
)

// orderDomain separates signatures over orders from all others made with the same key.
const orderDomain = "covey order 1\x00"

// privateJob is the part of a job that only those who run it, keep it or may read it are given.
type privateJob struct {
	Run     Run      `cbor:"8,keyasint"`
	Matrix  []Axis   `cbor:"16,keyasint,omitempty"`
	Inputs  []Input  `cbor:"31,keyasint,omitempty"`
	Outputs *Outputs `cbor:"32,keyasint,omitempty"`
	Secrets *Secrets `cbor:"35,keyasint,omitempty"`
}

func (j *Job) bodyDigest() []byte {
	sum := sha256.Sum256(mustEncode(privateJob{Run: j.Run, Matrix: j.Matrix, Inputs: j.Inputs, Outputs: j.Outputs, Secrets: j.Secrets}))
	return sum[:]
}

// publicDigest is the rest. A run counts as the job that its schedule belongs to.
func (j *Job) publicDigest(o *Order) []byte {
	rest := j.public()
	if s := o.Starts; s != nil && j.Origin != nil {
		rest.ID, rest.Schedule, rest.After = j.Origin.Job, &s.Schedule, s.After
	}
	rest.Version, rest.Origin, rest.Order = 0, nil, nil
	sum := sha256.Sum256(mustEncode(rest))
	return sum[:]
}

// signedOrder is what is signed.
type signedOrder struct {
	_       struct{} `cbor:",toarray"`
	Cluster string
	By      PeerID
	At      int64
	Until   int64
	Items   []byte
	Follows []byte
	Body    []byte
	Public  []byte
}

func (o *Order) signedPart(j *Job) []byte {
	return append([]byte(orderDomain), mustEncode(signedOrder{
		Cluster: o.Cluster, By: o.By, At: o.At, Until: o.Until, Items: o.Items, Follows: o.Follows, Body: o.Body, Public: j.publicDigest(o),
	})...)
}

// Digest names an order: what Follows of the next one says. Nil of none.
func (o *Order) Digest() []byte {
	if o == nil {
		return nil
	}
	plain := *o
	plain.Starts = nil
	sum := sha256.Sum256(mustEncode(plain))
	return sum[:]
}

// Next tells whether an order was made to take the place of another one, nil if there was none.
// Where there is none, nobody says so.
func (o *Order) Next(old *Order) bool {
	return o == nil || bytes.Equal(o.Follows, old.Digest()) && (old == nil || o.At > old.At)
}

// SignOrder has a job signed: in a cluster, by a peer whose key sign signs with, as of a time, in
// the place of the order with a digest, nil if there is none. What is set in the job afterwards –
// but for Version and Origin – breaks it.
func SignOrder(j *Job, cluster string, by PeerID, at int64, follows []byte, sign func([]byte) ([]byte, error)) error {
	if j.Withheld != nil {
		return ErrWithheld
	}
	o := &Order{Cluster: cluster, By: by, At: at, Until: at + j.OrderLasts().Milliseconds(), Follows: follows, Body: j.bodyDigest()}
	if len(j.Each) > 0 {
		o.Items = NewItemTree(j.Each).Root()
	}
	sig, err := sign(o.signedPart(j))
	if err != nil {
		return fmt.Errorf("sign the order: %w", err)
	}
	o.Sig, j.Order = sig, o
	return nil
}

// CheckOrder tells why a job is not to be believed in a cluster, at a time (milliseconds since
// 1970; 0: whatever the time): nobody signed it, or not this. verify checks signatures. Of a job
// whose private part is withheld it looks at the rest.
func CheckOrder(j *Job, cluster string, now int64, verify func(by PeerID, data, sig []byte) error) error {
	if o := j.Order; o != nil && j.Withheld == nil && (len(o.Items) > 0) != (len(j.Each) > 0) {
		return fmt.Errorf("%w: its items are not those %s asked for", ErrOrderForged, o.By)
	}
	return checkOrder(j, cluster, now, verify)
}

// CheckOrder is CheckOrder for the peer that runs a task. The job may come without its items: that
// the one the task has is in the order was looked at when it came.
func (l *Launch) CheckOrder(cluster string, now int64, verify func(by PeerID, data, sig []byte) error) error {
	return new(OrderMemo).Check(l, cluster, now, verify)
}

// fits tells why a task is none of its job.
func (l *Launch) fits() error {
	switch j := l.Job; {
	case l.Task.Job != j.ID:
		return fmt.Errorf("%w: the job that came with the task is another one, %s", ErrOrderForged, j.ID)
	case j.Order == nil:
		return ErrNoOrder
	case j.Withheld != nil:
		return fmt.Errorf("%w: it came without what is to be run", ErrOrderForged)
	case !j.Type.Lasts() && l.Task.Slot > j.Count: // an update that starts first has a service in more slots for a while
		return fmt.Errorf("%w: it has %d slots, no slot %d", ErrOrderForged, j.Count, l.Task.Slot)
	case l.Unproven != "":
		return fmt.Errorf("%w: %s", ErrOrderForged, l.Unproven)
	}
	return nil
}

func checkOrder(j *Job, cluster string, now int64, verify func(by PeerID, data, sig []byte) error) error {
	if err := j.checkSigned(cluster, verify); err != nil {
		return err
	}
	return j.checkTime(now)
}

// checkSigned tells why nobody signed this job, whatever the time.
func (j *Job) checkSigned(cluster string, verify func(by PeerID, data, sig []byte) error) error {
	o := j.Order
	switch {
	case o == nil:
		return ErrNoOrder
	case o.Cluster != cluster:
		return fmt.Errorf("%w for this cluster: its order is for %q", ErrOrderForged, o.Cluster)
	case o.Starts != nil && (j.Origin == nil || j.Schedule != nil || j.Origin.Run() != j.ID):
		return fmt.Errorf("%w: the order is a schedule's, and this is none of its runs", ErrOrderForged)
	case j.Withheld != nil && !reflect.ValueOf(j.private()).IsZero():
		return fmt.Errorf("%w: it has some of what it says is withheld", ErrOrderForged)
	case j.Withheld == nil && !bytes.Equal(o.Body, j.bodyDigest()):
		return fmt.Errorf("%w: its command, inputs or outputs are not those %s asked for", ErrOrderForged, o.By)
	case len(j.Each) > 0 && !bytes.Equal(o.Items, NewItemTree(j.Each).Root()):
		return fmt.Errorf("%w: its items are not those %s asked for", ErrOrderForged, o.By)
	}
	if err := verify(o.By, o.signedPart(j), o.Sig); err != nil {
		return fmt.Errorf("%w: %w", ErrOrderForged, err)
	}
	return nil
}

// Expired says in words that the job's order starts nothing any more, or nobody knows what it
// ordered; "" if it does, or there is none.
func (j *Job) Expired(now int64) string {
	if j.Withheld != nil {
		return j.Unknown(func(id PeerID) string { return id })
	}
	if j.Order == nil || now <= j.Order.Until {
		return ""
	}
	return fmt.Sprintf("its order expired on %s; renew it with `peer renew %s`", spell.Minute(j.Order.Until), j.renewed())
}

// checkTime tells whether the order of a job is over.
func (j *Job) checkTime(now int64) error {
	if o := j.Order; now > o.Until {
		return fmt.Errorf("%w on %s; renew it with `peer renew %s`", ErrOrderExpired, spell.Minute(o.Until), j.renewed())
	}
	return nil
}

// renewed is the job whose order a job has.
func (j *Job) renewed() JobID {
	if j.Order.Starts != nil {
		return j.Origin.Job
	}
	return j.ID
}

// Run is the id of the job that a schedule starts for a moment. It follows from both, so that all
// who start it start the same.
func (o *Origin) Run() JobID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(o.Job), uint64(o.At)))
	return JobID(strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:JobIDLen])
}

// RunNow is the job that a scheduled one starts at a person's word, under an id that is drawn. It
// has no order yet: that is the person's.
func (j *Job) RunNow(id JobID) Job {
	run := *j
	run.ID, run.Schedule, run.After, run.Origin, run.Order = id, nil, nil, &Origin{Job: j.ID}, nil
	return run
}

// RunAt is the job that a scheduled one starts for a moment. Its order is the schedule's.
func (j *Job) RunAt(at int64) Job {
	run := *j
	run.Schedule, run.After, run.Origin = nil, nil, &Origin{Job: j.ID, At: at}
	run.ID = run.Origin.Run()
	if j.Order != nil && j.Schedule != nil {
		o := *j.Order
		o.Starts = &Start{Schedule: *j.Schedule, After: j.After}
		run.Order = &o
	}
	return run
}
