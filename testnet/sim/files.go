package sim

import (
	"slices"
	"time"

	"covey/node/blob/piece"
	"covey/taskstate"
)

// fileDisk is what a machine's disk has of files: things, each a tree with all that it names, as
// node/blob/store keeps them. A crash leaves all that was said to be kept.
type fileDisk struct {
	w     *world
	quota int64 // for what is kept for others; 0: the owner offers nothing
	of    map[taskstate.TaskID]*thing
	since time.Duration // when the disk was new
}

// thing is the files of one task, whole.
type thing struct {
	root   piece.Root // what they are called
	is     piece.Root // and what they are: another one if the disk has rotted
	bytes  int64
	own    bool          // they were made here
	pinned bool          // for good or for now
	until  time.Duration // for now; 0: for good
	leases int           // readers
	hurt   time.Duration // when they rotted
}

func (p *peer) newFiles() {
	w := p.w
	p.files = fileDisk{w: w, of: map[taskstate.TaskID]*thing{}, since: w.now()}
	p.left = map[taskstate.TaskID]*left{}
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

// kept is what is here for others, in bytes.
func (d *fileDisk) kept() (sum int64) {
	for _, t := range d.of {
		if !t.own {
			sum += t.bytes
		}
	}
	return sum
}

// room tells whether others may have so much kept here.
func (d *fileDisk) room(bytes int64) bool {
	return d.kept()+bytes <= d.quota || d.w.cfg.Break == BreakOverfill
}

// collect keeps what a task left here: it is the only copy, whatever the quota says.
func (d *fileDisk) collect(id taskstate.TaskID, f *left) {
	if d.of[id] == nil {
		d.of[id] = &thing{root: f.root, is: f.root, bytes: f.bytes, own: true, pinned: true}
	}
}

// things lists what is here, in order.
func (d *fileDisk) things() []taskstate.TaskID {
	ids := make([]taskstate.TaskID, 0, len(d.of))
	for id := range d.of {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, taskstate.TaskID.Compare)
	return ids
}

// has tells whether a thing is here whole, as far as the disk knows.
func (d *fileDisk) has(id taskstate.TaskID) bool { return d.of[id] != nil }

// files draws what a job says of files, in lives that know them.
func (d *load) files(j *work) {
	w := d.w
	if !w.withFiles || j.job.Count > 100 || !w.chance(0.5) {
		return
	}
	j.job.Submitter = w.anyone().id
	if w.chance(0.8) {
		j.job.Outputs = &taskstate.Outputs{
			Globs: []string{"out/**"}, Keep: pick(w, 0, 0, 1, 2, 3), Missing: pick(w, taskstate.MissingFails, taskstate.MissingOK, taskstate.MissingOK),
		}
	} else {
		j.job.KeepLogs = pick(w, 2, 3)
	}
}
