package journal

import (
	"errors"
	"fmt"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/taskstate"
)

// Image is everything a journal holds.
type Image struct {
	Head
	Frames  []Frame
	Jobs    map[session.BodyID]*taskstate.Job
	Batches []ImageBatch
	Tombs   []Tomb
	Live    map[taskstate.TaskID]taskstate.Status
	Done    map[uint64]*ImageDone
}

// Head is what a journal says about itself.
type Head struct {
	Owner Owner
	State State
	Start uint64 // the start of the peer that used it last; 0: one of version 0.1
}

type ImageBatch struct {
	Number   uint64
	Statuses []taskstate.Status
	Envelope []byte
}

type ImageDone struct {
	Positions map[uint32]bool
	Acks      []uint64
}

// Load reads and checks every record.
func Load(kv KV, owner Owner) (*Image, error) {
	img := &Image{
		Jobs: map[session.BodyID]*taskstate.Job{}, Live: map[taskstate.TaskID]taskstate.Status{}, Done: map[uint64]*ImageDone{},
	}
	for _, part := range []struct {
		bucket string
		read   func(k, v []byte) error
	}{
		{BucketMeta, func(k, v []byte) error { return img.readMeta(k, v, owner.Peer) }},
		{bucketFrames, img.readFrame},
		{bucketDone, img.readDone},
		{bucketJobs, img.readJob},
		{bucketSigned, img.readBatch},
		{BucketTombs, img.readTomb},
		{bucketLive, img.readLive},
	} {
		if err := kv.Each(part.bucket, part.read); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", part.bucket, err)
		}
	}
	if img.Owner != owner {
		return nil, fmt.Errorf("it is of incarnation %s instead of %s", img.Owner.Incarnation, owner.Incarnation)
	}
	return img, img.check()
}

func (img *Image) readMeta(k, v []byte, self taskstate.PeerID) error {
	switch string(k) {
	case "state":
		return getRecord(v, &img.State)
	case "start":
		return getRecord(v, &img.Start)
	}
	if err := getRecord(v, &img.Owner); err != nil {
		return err
	}
	switch o := img.Owner; {
	case o.Format != Format:
		return fmt.Errorf("%w (its format is %d, this program writes %d)", ErrForeign, o.Format, Format)
	case o.Peer != self:
		return fmt.Errorf("%w (it is of peer %s, this is peer %s)", ErrForeign, o.Peer, self)
	}
	return nil
}

func (img *Image) readFrame(_, v []byte) error {
	var f Frame
	err := getRecord(v, &f)
	img.Frames = append(img.Frames, f)
	return err
}

func (img *Image) readDone(k, v []byte) error {
	n, err := keyNumbers(k, 2)
	if err != nil {
		return err
	}
	var runs []uint32
	if err := getRecord(v, &runs); err != nil || len(runs)%2 != 0 {
		return errors.Join(err, errRecordSum)
	}
	d := img.Done[n[0]]
	if d == nil {
		d = &ImageDone{Positions: map[uint32]bool{}}
		img.Done[n[0]] = d
	}
	d.Acks = append(d.Acks, n[1])
	for i := 0; i < len(runs); i += 2 {
		if runs[i] > MaxTasks || runs[i+1] > MaxTasks {
			return fmt.Errorf("frame %d has no positions %d+%d", n[0], runs[i], runs[i+1])
		}
		for p := range runs[i+1] {
			d.Positions[runs[i]+p] = true
		}
	}
	return nil
}

func (img *Image) readJob(_, v []byte) error {
	j := new(taskstate.Job)
	err := getRecord(v, j)
	img.Jobs[session.BodyOf(j)] = j
	return err
}

func (img *Image) readBatch(k, v []byte) error {
	n, err := keyNumbers(k, 1)
	if err != nil {
		return err
	}
	var r Batch
	if err := getRecord(v, &r); err != nil {
		return err
	}
	b, err := taskstate.DecodeBatch(r.Body)
	if err != nil {
		return err
	}
	img.Batches = append(img.Batches, ImageBatch{Number: n[0], Statuses: b.Statuses, Envelope: r.Envelope})
	return nil
}

func (img *Image) readTomb(k, v []byte) error {
	n, err := keyNumbers(k, 1)
	if err != nil {
		return err
	}
	t := Tomb{Number: n[0]}
	err = getRecord(v, &t.Task)
	img.Tombs = append(img.Tombs, t)
	return err
}

func (img *Image) readLive(_, v []byte) error {
	var s taskstate.Status
	err := getRecord(v, &s)
	img.Live[s.Task] = s
	return err
}

// check tells whether the records fit each other.
func (img *Image) check() error {
	for _, f := range img.Frames {
		n := 0
		for _, g := range f.Grants {
			for _, s := range g.Slots {
				if n += s.N; s.N < 1 || s.N > MaxTasks || n > MaxTasks {
					return fmt.Errorf("frame %d holds more than a worker does", f.Number)
				}
			}
			if img.Jobs[g.Body()] == nil {
				return fmt.Errorf("frame %d refers to job %s, which is not there", f.Number, g.Job)
			}
		}
	}
	for _, b := range img.Batches {
		if b.Number > img.State.Last {
			return fmt.Errorf("batch %d is above the last number used, %d", b.Number, img.State.Last)
		}
	}
	return nil
}
