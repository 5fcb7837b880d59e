package dispatch

import (
	"errors"
	"fmt"

	"covey/taskstate"
)

// journalImage is everything a journal holds.
type journalImage struct {
	journalHead
	frames  []frameRecord
	jobs    map[bodyID]*taskstate.Job
	batches []imageBatch
	tombs   []tombRecord
	live    map[taskstate.TaskID]taskstate.Status
	done    map[uint64]*imageDone
}

// journalHead is what a journal says about itself.
type journalHead struct {
	owner journalOwner
	state journalState
	start uint64 // the start of the peer that used it last; 0: one of version 0.1
}

type imageBatch struct {
	number   uint64
	statuses []taskstate.Status
	envelope []byte
}

type imageDone struct {
	positions map[uint32]bool
	acks      []uint64
}

// loadJournal reads and checks every record.
func loadJournal(kv journalKV, owner journalOwner) (*journalImage, error) {
	img := &journalImage{
		jobs: map[bodyID]*taskstate.Job{}, live: map[taskstate.TaskID]taskstate.Status{}, done: map[uint64]*imageDone{},
	}
	for _, part := range []struct {
		bucket string
		read   func(k, v []byte) error
	}{
		{bucketMeta, func(k, v []byte) error { return img.readMeta(k, v, owner.Peer) }},
		{bucketFrames, img.readFrame},
		{bucketDone, img.readDone},
		{bucketJobs, img.readJob},
		{bucketSigned, img.readBatch},
		{bucketTombs, img.readTomb},
		{bucketLive, img.readLive},
	} {
		if err := kv.Each(part.bucket, part.read); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", part.bucket, err)
		}
	}
	if img.owner != owner {
		return nil, fmt.Errorf("it is of incarnation %s instead of %s", img.owner.Incarnation, owner.Incarnation)
	}
	return img, img.check()
}

func (img *journalImage) readMeta(k, v []byte, self taskstate.PeerID) error {
	switch string(k) {
	case "state":
		return getRecord(v, &img.state)
	case "start":
		return getRecord(v, &img.start)
	}
	if err := getRecord(v, &img.owner); err != nil {
		return err
	}
	switch o := img.owner; {
	case o.Format != journalFormat:
		return fmt.Errorf("%w (its format is %d, this program writes %d)", errForeignJournal, o.Format, journalFormat)
	case o.Peer != self:
		return fmt.Errorf("%w (it is of peer %s, this is peer %s)", errForeignJournal, o.Peer, self)
	}
	return nil
}

func (img *journalImage) readFrame(_, v []byte) error {
	var f frameRecord
	err := getRecord(v, &f)
	img.frames = append(img.frames, f)
	return err
}

func (img *journalImage) readDone(k, v []byte) error {
	n, err := keyNumbers(k, 2)
	if err != nil {
		return err
	}
	var runs []uint32
	if err := getRecord(v, &runs); err != nil || len(runs)%2 != 0 {
		return errors.Join(err, errRecordSum)
	}
	d := img.done[n[0]]
	if d == nil {
		d = &imageDone{positions: map[uint32]bool{}}
		img.done[n[0]] = d
	}
	d.acks = append(d.acks, n[1])
	for i := 0; i < len(runs); i += 2 {
		if runs[i] > maxHeld || runs[i+1] > maxHeld {
			return fmt.Errorf("frame %d has no positions %d+%d", n[0], runs[i], runs[i+1])
		}
		for p := range runs[i+1] {
			d.positions[runs[i]+p] = true
		}
	}
	return nil
}

func (img *journalImage) readJob(_, v []byte) error {
	j := new(taskstate.Job)
	err := getRecord(v, j)
	img.jobs[bodyOf(j)] = j
	return err
}

func (img *journalImage) readBatch(k, v []byte) error {
	n, err := keyNumbers(k, 1)
	if err != nil {
		return err
	}
	var r batchRecord
	if err := getRecord(v, &r); err != nil {
		return err
	}
	b, err := taskstate.DecodeBatch(r.Body)
	if err != nil {
		return err
	}
	img.batches = append(img.batches, imageBatch{number: n[0], statuses: b.Statuses, envelope: r.Envelope})
	return nil
}

func (img *journalImage) readTomb(k, v []byte) error {
	n, err := keyNumbers(k, 1)
	if err != nil {
		return err
	}
	t := tombRecord{number: n[0]}
	err = getRecord(v, &t.task)
	img.tombs = append(img.tombs, t)
	return err
}

func (img *journalImage) readLive(_, v []byte) error {
	var s taskstate.Status
	err := getRecord(v, &s)
	img.live[s.Task] = s
	return err
}

// check tells whether the records fit each other.
func (img *journalImage) check() error {
	for _, f := range img.frames {
		n := 0
		for _, g := range f.Grants {
			for _, s := range g.Slots {
				if n += s.N; s.N < 1 || s.N > maxHeld || n > maxHeld {
					return fmt.Errorf("frame %d holds more than a worker does", f.Number)
				}
			}
			if img.jobs[g.body()] == nil {
				return fmt.Errorf("frame %d refers to job %s, which is not there", f.Number, g.Job)
			}
		}
	}
	for _, b := range img.batches {
		if b.number > img.state.Last {
			return fmt.Errorf("batch %d is above the last number used, %d", b.number, img.state.Last)
		}
	}
	return nil
}
