package dispatch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"covey/p2p/wire"
	"covey/taskstate"
)

// The buckets of a journal, and what their keys are.
const (
	bucketMeta   = "meta"    // "owner", "state", "start"
	bucketFrames = "frames"  // frame number → frameRecord: assignments that were accepted together
	bucketDone   = "done"    // frame number, ack → positions in that frame that are over and acknowledged
	bucketJobs   = "jobs"    // job id, and @version if there are several → Job, while a frame refers to it
	bucketSigned = "batches" // batch number → batchRecord, until acknowledged
	bucketTombs  = "tombs"   // tombstone number → TaskID
	bucketLive   = "live"    // task id → Status: of tasks that go on though the batch that told so was acknowledged
)

func journalBuckets() []string {
	return []string{bucketMeta, bucketFrames, bucketDone, bucketJobs, bucketSigned, bucketTombs, bucketLive}
}

// maxHeld bounds the tasks a worker holds at once, whatever state they are in.
const maxHeld = 1 << 16

// journalKV is the map of buckets a journal is. Each visits keys in ascending order; what it passes is only valid meanwhile.
type journalKV interface {
	Put(bucket string, key, value []byte) error
	Delete(bucket string, key []byte) error
	Each(bucket string, f func(key, value []byte) error) error
}

// journalState is the part of the journal that is rewritten by every transaction.
type journalState struct {
	Fence taskstate.Epoch `cbor:"1,keyasint"`
	Acked uint64          `cbor:"2,keyasint"`
	Last  uint64          `cbor:"3,keyasint"` // newest batch number used
	Begun uint64          `cbor:"4,keyasint"` // tasks up to this order may have been started
}

// frameRecord is one accepted set of assignments. Its tasks are numbered from Base, in the order of Grants.
type frameRecord struct {
	Number uint64          `cbor:"1,keyasint"`
	Base   uint64          `cbor:"2,keyasint"`
	Epoch  taskstate.Epoch `cbor:"3,keyasint"`
	Grants []Grant         `cbor:"4,keyasint"`
	At     int64           `cbor:"5,keyasint"` // when it was taken on: the time of its tasks' first status
}

// batchRecord is a batch as it was encoded, and sealed.
type batchRecord struct {
	Body     []byte `cbor:"1,keyasint"`
	Envelope []byte `cbor:"2,keyasint"`
}

// doneRecord says which positions of a frame are over: pairs of first and count.
type doneRecord struct {
	frame uint64
	runs  []uint32
}

type tombRecord struct {
	number uint64
	task   taskstate.TaskID
}

// sealedBatch is a batch on its way into the journal: Body and Envelope are filled in before it is saved.
type sealedBatch struct {
	number   uint64
	statuses []taskstate.Status
	batchRecord
}

// workerTxn is what one journal transaction changes.
type workerTxn struct {
	state      journalState
	frames     []frameRecord
	jobs       []*taskstate.Job
	batches    []*sealedBatch
	tombs      []tombRecord
	live       []taskstate.Status
	done       []doneRecord
	goneFrames []goneFrame
	goneJobs   []bodyID
	goneSigned []uint64
	goneTombs  []uint64
	goneLive   []taskstate.TaskID
}

// goneFrame names a frame to remove, with the acks its done records were written under.
type goneFrame struct {
	number uint64
	acks   []uint64
}

var (
	errForeignJournal = errors.New("this worker journal belongs to another peer; use the data folder it came with")
	errRecordSum      = errors.New("a record's checksum does not match")
)

// Every value ends with its CRC-32C: pages can be stale after a power loss although the file opens.
func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func putRecord(kv journalKV, bucket string, key []byte, v any) error {
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

func initJournal(kv journalKV, head journalHead) error {
	return errors.Join(
		putRecord(kv, bucketMeta, []byte("owner"), head.owner),
		putRecord(kv, bucketMeta, []byte("state"), head.state),
		putRecord(kv, bucketMeta, []byte("start"), head.start),
	)
}

// apply writes the transaction. Removals come last: an id may be put and removed in one transaction.
func (t *workerTxn) apply(kv journalKV) error {
	w := txnWriter{kv: kv}
	w.put(bucketMeta, []byte("state"), t.state)
	for _, j := range t.jobs {
		w.put(bucketJobs, bodyOf(j).key(), j)
	}
	for _, f := range t.frames {
		w.put(bucketFrames, numberKey(f.Number), f)
	}
	for _, b := range t.batches {
		w.put(bucketSigned, numberKey(b.number), b.batchRecord)
	}
	for _, s := range t.tombs {
		w.put(bucketTombs, numberKey(s.number), s.task)
	}
	for _, s := range t.live {
		w.put(bucketLive, []byte(s.Task.String()), s)
	}
	for _, d := range t.done {
		w.put(bucketDone, numberKey(d.frame, t.state.Acked), d.runs)
	}
	t.remove(&w)
	return w.err
}

func (t *workerTxn) remove(w *txnWriter) {
	for _, f := range t.goneFrames {
		w.del(bucketFrames, numberKey(f.number))
		for _, a := range f.acks {
			w.del(bucketDone, numberKey(f.number, a))
		}
	}
	for _, id := range t.goneJobs {
		w.del(bucketJobs, id.key())
	}
	for _, n := range t.goneSigned {
		w.del(bucketSigned, numberKey(n))
	}
	for _, n := range t.goneTombs {
		w.del(bucketTombs, numberKey(n))
	}
	for _, id := range t.goneLive {
		w.del(bucketLive, []byte(id.String()))
	}
}

// txnWriter keeps the first error.
type txnWriter struct {
	kv  journalKV
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
