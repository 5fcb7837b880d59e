package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// The buckets of a journal, and what their keys are.
const (
	BucketMeta   = "meta"    // "owner", "state", "start"
	bucketFrames = "frames"  // frame number → Frame: assignments that were accepted together
	bucketDone   = "done"    // frame number, ack → positions in that frame that are over and acknowledged
	bucketJobs   = "jobs"    // job id, and @version if there are several → Job, while a frame refers to it
	bucketSigned = "batches" // batch number → Batch, until acknowledged
	BucketTombs  = "tombs"   // tombstone number → TaskID
	bucketLive   = "live"    // task id → Status: of tasks that go on though the batch that told so was acknowledged
)

func buckets() []string {
	return []string{BucketMeta, bucketFrames, bucketDone, bucketJobs, bucketSigned, BucketTombs, bucketLive}
}

// MaxTasks bounds the tasks a worker holds at once, whatever state they are in.
const MaxTasks = 1 << 16

// KV is the map of buckets a journal is. Each visits keys in ascending order; what it passes is
// only valid meanwhile.
type KV interface {
	Put(bucket string, key, value []byte) error
	Delete(bucket string, key []byte) error
	Each(bucket string, f func(key, value []byte) error) error
}

// State is the part of the journal that is rewritten by every transaction.
type State struct {
	Fence taskstate.Epoch `cbor:"1,keyasint"`
	Acked uint64          `cbor:"2,keyasint"`
	Last  uint64          `cbor:"3,keyasint"` // newest batch number used
	Begun uint64          `cbor:"4,keyasint"` // tasks up to this order may have been started
}

// Frame is one accepted set of assignments. Its tasks are numbered from Base, in the order of
// Grants.
type Frame struct {
	Number uint64          `cbor:"1,keyasint"`
	Base   uint64          `cbor:"2,keyasint"`
	Epoch  taskstate.Epoch `cbor:"3,keyasint"`
	Grants []session.Grant `cbor:"4,keyasint"`
	At     int64           `cbor:"5,keyasint"` // when it was taken on: the time of its tasks' first status
}

// Batch is a batch as it was encoded, and sealed.
type Batch struct {
	Body     []byte `cbor:"1,keyasint"`
	Envelope []byte `cbor:"2,keyasint"`
}

// Done says which positions of a frame are over: pairs of first and count.
type Done struct {
	Frame uint64
	Runs  []uint32
}

type Tomb struct {
	Number uint64
	Task   taskstate.TaskID
}

// SealedBatch is a batch on its way into the journal: Body and Envelope are filled in before it is
// saved.
type SealedBatch struct {
	Number   uint64
	Statuses []taskstate.Status
	Batch
}

// Txn is what one journal transaction changes.
type Txn struct {
	State      State
	Frames     []Frame
	Jobs       []*taskstate.Job
	Batches    []*SealedBatch
	Tombs      []Tomb
	Live       []taskstate.Status
	Done       []Done
	GoneFrames []GoneFrame
	GoneJobs   []session.BodyID
	GoneSigned []uint64
	GoneTombs  []uint64
	GoneLive   []taskstate.TaskID
}

// GoneFrame names a frame to remove, with the acks its done records were written under.
type GoneFrame struct {
	Number uint64
	Acks   []uint64
}

var (
	ErrForeign   = errors.New("this worker journal belongs to another peer; use the data folder it came with")
	errRecordSum = errors.New("a record's checksum does not match")
)

// Every value ends with its CRC-32C: pages can be stale after a power loss although the file opens.
func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func putRecord(kv KV, bucket string, key []byte, v any) error {
	b, err := wire.Marshal(v)
	if err != nil {
		return fmt.Errorf("journal %s: %w", bucket, err)
	}
	return kv.Put(bucket, key, binary.BigEndian.AppendUint32(b, sum(b)))
}

func getRecord(b []byte, v any) error {
	if len(b) < 4 {
		return errRecordSum
	}
	body := b[:len(b)-4]
	if sum(body) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return errRecordSum
	}
	return wire.Unmarshal(body, v)
}

func numberKey(n ...uint64) []byte {
	var k []byte
	for _, x := range n {
		k = binary.BigEndian.AppendUint64(k, x)
	}
	return k
}

func keyNumbers(k []byte, n int) ([]uint64, error) {
	if len(k) != 8*n {
		return nil, fmt.Errorf("a key has %d bytes instead of %d", len(k), 8*n)
	}
	var out []uint64
	for c := range slices.Chunk(k, 8) {
		out = append(out, binary.BigEndian.Uint64(c))
	}
	return out, nil
}

func Init(kv KV, head Head) error {
	return errors.Join(
		putRecord(kv, BucketMeta, []byte("owner"), head.Owner),
		putRecord(kv, BucketMeta, []byte("state"), head.State),
		putRecord(kv, BucketMeta, []byte("start"), head.Start),
	)
}

// apply writes the transaction. Removals come last: an id may be put and removed in one
// transaction.
func (t *Txn) Apply(kv KV) error {
	w := txnWriter{kv: kv}
	w.put(BucketMeta, []byte("state"), t.State)
	for _, j := range t.Jobs {
		w.put(bucketJobs, session.BodyOf(j).Key(), j)
	}
	for _, f := range t.Frames {
		w.put(bucketFrames, numberKey(f.Number), f)
	}
	for _, b := range t.Batches {
		w.put(bucketSigned, numberKey(b.Number), b.Batch)
	}
	for _, s := range t.Tombs {
		w.put(BucketTombs, numberKey(s.Number), s.Task)
	}
	for _, s := range t.Live {
		w.put(bucketLive, []byte(s.Task.String()), s)
	}
	for _, d := range t.Done {
		w.put(bucketDone, numberKey(d.Frame, t.State.Acked), d.Runs)
	}
	t.remove(&w)
	return w.err
}

func (t *Txn) remove(w *txnWriter) {
	for _, f := range t.GoneFrames {
		w.del(bucketFrames, numberKey(f.Number))
		for _, a := range f.Acks {
			w.del(bucketDone, numberKey(f.Number, a))
		}
	}
	for _, id := range t.GoneJobs {
		w.del(bucketJobs, id.Key())
	}
	for _, n := range t.GoneSigned {
		w.del(bucketSigned, numberKey(n))
	}
	for _, n := range t.GoneTombs {
		w.del(BucketTombs, numberKey(n))
	}
	for _, id := range t.GoneLive {
		w.del(bucketLive, []byte(id.String()))
	}
}

// txnWriter keeps the first error.
type txnWriter struct {
	kv  KV
	err error
}

func (w *txnWriter) put(bucket string, key []byte, v any) {
	if w.err == nil {
		w.err = putRecord(w.kv, bucket, key, v)
	}
}

func (w *txnWriter) del(bucket string, key []byte) {
	if w.err == nil {
		w.err = w.kv.Delete(bucket, key)
	}
}
