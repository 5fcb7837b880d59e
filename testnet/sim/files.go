package sim

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/care"
	"github.com/coveyproject/covey/taskstate"
)

// fileDisk is what a machine's disk has of files: things, each a tree with all that it names, as
// node/blob/store keeps them. A crash leaves all that was said to be kept.
type fileDisk struct {
	p      *peer
	quota  int64 // for what is kept for others; 0: the owner offers nothing
	of     map[taskstate.TaskID]*thing
	coming map[*fetch]int64 // room that is reserved
	since  time.Duration    // when the disk was new
}

// thing is the files of one task, whole.
type thing struct {
	root     piece.Root // what they are called
	is       piece.Root // and what they are: something else if the disk has rotted
	bytes    int64
	own      bool          // they were made here
	pinned   bool          // if not, they may go
	released bool          // as others keep them
	until    time.Duration // for now; 0: for good
	hurt     time.Duration // when they rotted
	damaged  bool          // and somebody has found out
}

// newFiles is an empty disk.
func (p *peer) newFiles() {
	p.files = fileDisk{p: p, quota: p.files.quota, of: map[taskstate.TaskID]*thing{}, coming: map[*fetch]int64{}, since: p.w.now()}
	p.left, p.staged = map[taskstate.TaskID]*left{}, map[taskstate.JobID]bool{}
}

// drawStores draws, in lives with files, what the peers offer for them: most have room for all that
// there is, some for little, some nothing.
func (w *world) drawStores() {
	if w.withFiles = w.cfg.Seed%3 != 0; !w.withFiles {
		return
	}
	for _, p := range w.peers {
		p.files.quota = pick(w, int64(1)<<40, 1<<40, 1<<40, 200<<20, 0)
	}
}

// kept is what is here for others, or is to come, in bytes.
func (d *fileDisk) kept() (sum int64) {
	for _, t := range d.of {
		if !t.own {
			sum += t.bytes
		}
	}
	for _, n := range d.coming {
		sum += n
	}
	return sum
}

// reserve makes room for something for others, if there is any.
func (d *fileDisk) reserve(f *fetch, bytes int64) bool {
	if d.kept()+bytes > d.quota {
		d.tidy()
	}
	if d.kept()+bytes > d.quota && d.p.w.cfg.Break != BreakOverfill {
		return false
	}
	d.coming[f] = bytes
	return true
}

// put is what was reserved for, and has come whole.
func (d *fileDisk) put(id taskstate.TaskID, root, is piece.Root, bytes int64) {
	if t := d.of[id]; t != nil {
		t.is, t.damaged = is, false
		return
	}
	d.of[id] = &thing{root: root, is: is, bytes: bytes}
}

// collect keeps what a task left here: it is the only copy, whatever the quota says.
func (d *fileDisk) collect(id taskstate.TaskID, f *left) {
	if t := d.of[id]; t == nil || t.damaged {
		d.of[id] = &thing{root: f.root, is: f.root, bytes: f.bytes, own: true, pinned: true}
	}
}

// release lets go of what others keep, as the ledger has agreed. It is removed when room is needed.
func (d *fileDisk) release(id taskstate.TaskID) {
	if t := d.of[id]; t != nil {
		d.p.w.check.files.letGo(d.p, id)
		t.pinned, t.released = false, true
	}
}

// tidy removes what nothing holds.
func (d *fileDisk) tidy() {
	for _, id := range d.things() {
		leased := d.p.life != nil && d.p.life.reading[id] > 0
		if d.of[id].pinned || leased && d.p.w.cfg.Break != BreakEvictLeased {
			continue
		}
		d.p.w.check.files.evicted(d.p, id, leased)
		delete(d.of, id)
	}
}

// rot damages something on a disk.
func (w *world) rot() {
	p := w.anyone()
	ids := p.files.things()
	if len(ids) == 0 {
		return
	}
	id := ids[w.rng.IntN(len(ids))]
	t := p.files.of[id]
	t.is, t.hurt = piece.Sum([]byte("rot")), w.now()
	w.tracef("%s has a rotten copy of %s", p.id, id)
}

// things lists what is here, in order.
func (d *fileDisk) things() []taskstate.TaskID {
	ids := make([]taskstate.TaskID, 0, len(d.of))
	for id := range d.of {
		ids = append(ids, id)
	}
	return sorted(ids)
}

func sorted(ids []taskstate.TaskID) []taskstate.TaskID {
	slices.SortFunc(ids, taskstate.TaskID.Compare)
	return ids
}

// has tells whether a thing is here whole, as far as the disk knows.
func (d *fileDisk) has(id taskstate.TaskID) bool {
	t := d.of[id]
	return t != nil && !t.damaged
}

// named tells whether a peer is among the keepers.
func named(s *taskstate.Saved, id taskstate.PeerID) bool {
	return s != nil && slices.Contains(s.Keepers, id)
}

// get has somebody get what a task left, now and then, on any peer.
func (d *load) get() {
	w := d.w
	w.after(w.ms(1000, 10_000), d.get)
	if len(d.jobs) == 0 {
		return
	}
	rec, ok := w.quorum.truth.Job(d.jobs[w.rng.IntN(len(d.jobs))].job.ID)
	at := w.anyone()
	if !ok || at.life == nil {
		return
	}
	for id, s := range rec.Saved() {
		if w.chance(0.8) {
			continue
		}
		f := at.life.fetch(id, *s, func() []taskstate.PeerID { return s.Keepers })
		f.done = func(is care.Outcome) {
			if is == care.OK {
				w.check.files.got(at, id)
			}
		}
		return
	}
}

// files draws what a job says of files, in lives that know them.
func (d *load) files(j *work) {
	w := d.w
	if !w.withFiles || j.job.Count > 100 || !w.chance(0.5) {
		return
	}
	j.job.Submitter = w.anyone().id
	if w.chance(0.3) {
		j.job.Inputs = []taskstate.Input{{Name: "data", Ref: piece.Sum([]byte(d.w.cfg.Break)).String(), Bytes: 1 << 20, Files: 1}}
		if w.chance(0.5) {
			return
		}
	}
	if w.chance(0.8) {
		j.job.Outputs = &taskstate.Outputs{
			Globs: []string{"out/**"}, Keep: pick(w, 0, 0, 1, 2, 3), Missing: pick(w, taskstate.MissingFails, taskstate.MissingOK, taskstate.MissingOK),
		}
		if r := j.job.Restart; r != nil && r.Window > 0 { // what leaves nothing would be tried again for ever
			j.job.Outputs.Missing = taskstate.MissingOK
		}
	} else {
		j.job.KeepLogs = pick(w, 2, 3)
	}
}
